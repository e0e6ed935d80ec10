//go:build cgo

package opencl_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/history"
	"godwit/internal/svmfault"
	"godwit/runtime"
)

// straying is set in the child of TestAKernelThatReachesWhatWasNotNamedIsExplained.
const straying = "GODWIT_TEST_STRAY"

// stray follows a list on an OpenCL device without naming its second block. It
// prints what must be said of the words that the kernel must not reach.
func stray() {
	check := func(err error) {
		if err != nil {
			fmt.Println("child:", err)
			os.Exit(3)
		}
	}
	devs, err := house("off", false)()
	check(err)
	c, err := runtime.NewContext(runtime.Options{Name: "stray", Devices: devs, OwnDevices: true, SVMSize: 1 << 20, SVMWatch: svmfault.FromEnvironment()})
	check(err)
	p, err := c.Build(context.Background(), history.Pointers)
	check(err)
	follow, err := p.Kernel("follow")
	check(err)
	q, err := c.NewQueue(devs[1], runtime.QueueOptions{})
	check(err)
	a, err := c.SVMAllocNamed("head", 4096, 0, 0)
	check(err)
	b, err := c.SVMAllocNamed("rest", 4096, 0, 0)
	check(err)
	node := make([]byte, 16)
	put(node, uint64(b)+16, 1)
	_, err = q.EnqueueSVMWrite(context.Background(), a, node)
	check(err)
	for _, word := range []runtime.Pointer{b + 16, b + 24} { // the compiler decides which is read first
		fmt.Printf("godwit: touch of %v: %s: shared virtual memory touched outside a map\n", word, c.SVMExplain(word))
	}
	_, err = q.EnqueueLaunch(context.Background(), runtime.Launch{Kernel: follow, Global: []uint64{1}, Args: []runtime.Arg{runtime.SVM(a), runtime.SVM(a + 64)}})
	check(err)
	check(q.Finish(context.Background()))
	os.Exit(4) // nothing happened
}

// TestAKernelThatReachesWhatWasNotNamedIsExplained: OpenCL leaves it undefined;
// on a device that follows the host's pointers the process ends, having said why.
func TestAKernelThatReachesWhatWasNotNamedIsExplained(t *testing.T) {
	need(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), straying+"=1", "GODWIT_DEBUG=svm")
	var said, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &errs
	require.Error(t, cmd.Run(), said.String())
	require.Contains(t, said.String(), "byte 16 of svm block rest")
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	require.True(t, strings.Contains(errs.String(), lines[0]) || strings.Contains(errs.String(), lines[1]), errs.String())
}
