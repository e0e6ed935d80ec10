package embed

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	_ "godwit/devices/cpu"
	_ "godwit/devices/tce"
	"godwit/lib/kernels"
	"godwit/runtime"
)

// Example doubles a buffer on two devices in turn. Nobody says when to copy it.
func Example() {
	ctx := context.Background()
	left, err := devices.Open(ctx, "cpu", devices.Config{Name: "left"})
	check(err)
	right, err := devices.Open(ctx, "tce", devices.Config{Name: "right", Memory: 1 << 20})
	check(err)
	c, err := runtime.NewContext(runtime.Options{Devices: append(left, right...), OwnDevices: true})
	check(err)

	buf, err := c.CreateBuffer(4*1024, 0, make([]byte, 4*1024)) // 0 flags: read-write
	check(err)
	prog, err := c.Build(ctx, kernels.Program())
	check(err)
	fill, err := prog.Kernel("fill")
	check(err)
	scale, err := prog.Kernel("scale")
	check(err)

	onLeft, err := c.NewQueue(left[0], runtime.QueueOptions{})
	check(err)
	onRight, err := c.NewQueue(right[0], runtime.QueueOptions{})
	check(err)
	launch := func(q *runtime.Queue, k *runtime.Kernel, args ...runtime.Arg) {
		e, err := q.EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{64}, Args: args})
		check(err)
		check(e.Release())
	}
	launch(onLeft, fill, runtime.Out(buf), runtime.Float32(1.5), runtime.Uint64(1024))
	launch(onRight, scale, runtime.Buf(buf), runtime.Buf(buf), runtime.Float32(2), runtime.Uint64(1024))
	launch(onLeft, scale, runtime.Buf(buf), runtime.Buf(buf), runtime.Float32(2), runtime.Uint64(1024))

	out := make([]byte, 8)
	e, err := onRight.EnqueueRead(ctx, buf, 0, out)
	check(err)
	check(e.Wait(ctx)) // waits for all of the above, through the bytes it needs
	fmt.Printf("% x\n", out)

	check(e.Release())
	check(buf.Release())
	check(c.Close(ctx)) // drains, frees every block, names what leaked
	// Output: 00 00 c0 40 00 00 c0 40
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// TestTheReadmeShowsThisExample: what newcomers copy is what runs here.
func TestTheReadmeShowsThisExample(t *testing.T) {
	source, err := os.ReadFile("embed_test.go")
	require.NoError(t, err)
	_, body, ok := strings.Cut(string(source), "func Example() {\n")
	require.True(t, ok)
	body, _, _ = strings.Cut(body, "\t// Output:")
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var plain []string
	for _, line := range strings.Split(body, "\n") {
		plain = append(plain, strings.TrimPrefix(line, "\t"))
	}
	require.Contains(t, string(readme), strings.TrimSpace(strings.Join(plain, "\n")))
}
