package backend_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices/opencl"
	"godwit/lib/backend"
)

// ending is how a child ended: as a shell would say it, and what it printed.
type ending struct {
	code        int // of the exit; 128 + n where signal n ended it
	out, errout string
}

// run starts the test binary as a child and sends it the signals once it is
// ready, each after its delay. A child that takes more than 30 s fails the test.
func run(t *testing.T, what, device string, signals ...delayed) ending {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := backend.Command(context.Background(), self)
	cmd.Env = append(os.Environ(), "GODWIT_TEST_CHILD="+what+" "+device, "GODWIT_DEBUG=leaks")
	var errout bytes.Buffer
	cmd.Stderr = &errout
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	watchdog := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer watchdog.Stop()
	stdout := bufio.NewReader(pipe)
	var out bytes.Buffer
	if len(signals) > 0 {
		line, err := stdout.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
	}
	gone, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for _, s := range signals {
			select {
			case <-time.After(s.after):
				_ = cmd.Process.Signal(s.signal)
			case <-gone: // an earlier one has ended it
				return
			}
		}
	}()
	_, err = io.Copy(&out, stdout)
	close(gone)
	<-sent
	require.NoError(t, err)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	code := cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return ending{code, out.String(), errout.String()}
}

type delayed struct {
	signal syscall.Signal
	after  time.Duration
}

// places are the devices that children run on: the simulated ones, and PoCL where
// it is installed.
func places(t *testing.T) []string {
	t.Helper()
	if _, err := opencl.Discover(); err != nil {
		t.Logf("without OpenCL: %v", err)
		return []string{"cpu", "tce"}
	}
	return []string{"cpu", "tce", "cl"}
}

var counts = regexp.MustCompile(`leaks: cl objects created (\{[^}]*\}) released (\{[^}]*\})`)

// orderly requires that the child released every cl object, by the driver's count.
func orderly(t *testing.T, e ending, device string) {
	t.Helper()
	m := counts.FindStringSubmatch(e.errout)
	require.NotNil(t, m, "%s", e.errout)
	require.Equal(t, m[1], m[2], "created, released")
	require.Equal(t, device == "cl", strings.ContainsAny(m[1], "123456789"), "%s", e.errout)
}

const (
	interrupt = syscall.SIGINT
	terminate = syscall.SIGTERM
	hangup    = syscall.SIGHUP
)

func TestEveryWayOutEndsAsPromised(t *testing.T) {
	now := func(s ...syscall.Signal) (ds []delayed) {
		for _, sig := range s {
			ds = append(ds, delayed{sig, 5 * time.Millisecond})
		}
		return ds
	}
	// Two of a kind are one where the process has not looked in between, as on a
	// busy machine: so the second comes again.
	twice := func(a, b syscall.Signal) []delayed {
		return []delayed{{a, 5 * time.Millisecond}, {b, 100 * time.Millisecond}, {b, time.Second}, {b, 3 * time.Second}, {b, 6 * time.Second}}
	}
	for _, tc := range []struct {
		what    string
		signals []delayed
		code    int
		orderly bool
		says    string
	}{
		{"return", nil, 0, true, ""},
		{"fail", nil, 1, true, "error: it failed"},
		{"panic", nil, 2, true, "panic: on purpose"},
		{"busy", now(interrupt), 130, true, ""},
		{"save", now(interrupt), 0, true, "saved: interrupted (SIGINT)"},
		{"save", now(terminate), 143, true, ""},
		{"busy", now(terminate), 143, true, ""},
		{"busy", now(hangup), 129, true, ""},
		{"save", now(hangup), 129, true, "saved: hung up (SIGHUP)"},
		{"stuck", now(hangup), 129, false, ""},
		{"stuck-long", twice(terminate, terminate), 143, false, ""}, // long before the grace ends
		{"stuck-long", twice(hangup, terminate), 129, false, ""},
		{"stuck-long", twice(interrupt, interrupt), 130, false, ""},
		{"stuck", now(interrupt), 130, false, ""},
		{"stuck", now(interrupt, interrupt), 130, false, ""},
		{"stuck", now(terminate), 143, false, ""},
		{"stuck-return", now(interrupt), 130, false, ""},
		{"stuck-return", now(terminate), 143, false, ""},
		{"terminate", now(terminate), 7, true, "installed before"},
		{"own-handler", now(terminate), 8, true, "own handler"},
		{"left-out", now(interrupt), 130, false, ""}, // by the signal itself
	} {
		for _, device := range places(t) {
			t.Run(fmt.Sprint(tc.what, " ", tc.signals, " on ", device), func(t *testing.T) {
				t.Parallel()
				e := run(t, tc.what, device, tc.signals...)
				require.Equal(t, tc.code, e.code, "%s\n%s", e.out, e.errout)
				require.Contains(t, e.out+e.errout, tc.says)
				if tc.orderly {
					orderly(t, e, device)
				}
			})
		}
	}
}

// TestSignalsAtRandomMoments: whatever the moment, the code is the promised one;
// 200 runs where GODWIT_SOAK is set.
func TestSignalsAtRandomMoments(t *testing.T) {
	runs, seed := 6, uint64(1)
	if os.Getenv("GODWIT_SOAK") != "" {
		runs, seed = 200, rand.Uint64()
	}
	t.Logf("seed %d, %d runs", seed, runs)
	r := rand.New(rand.NewPCG(seed, 0))
	devices := places(t)
	for i := range runs {
		device := devices[i%len(devices)]
		what := []string{"busy", "save", "stuck"}[r.IntN(3)]
		first := []syscall.Signal{interrupt, terminate, hangup}[r.IntN(3)]
		signals := []delayed{{first, time.Duration(r.IntN(30_000)) * time.Microsecond}}
		if first == interrupt && r.IntN(3) == 0 {
			signals = append(signals, delayed{interrupt, time.Duration(r.IntN(10_000)) * time.Microsecond})
		}
		e := run(t, what, device, signals...)
		want := []int{130}
		switch {
		case first == terminate:
			want = []int{143}
		case first == hangup:
			want = []int{129}
		case what == "save" && len(signals) == 1:
			want = []int{0}
		case what == "save":
			want = []int{0, 130} // it may have left before the second
		}
		require.Contains(t, want, e.code, "run %d: %s %v on %s\n%s\n%s", i, what, signals, device, e.out, e.errout)
		if what != "stuck" && len(signals) == 1 {
			orderly(t, e, device)
		}
	}
}
