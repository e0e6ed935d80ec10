package process_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/internal/process"
)

// family starts a child with a child of its own, both of which ignore what they
// can, and returns their numbers once both run.
func family(t *testing.T, ctx context.Context) (pids []int, ended <-chan error) {
	file := filepath.Join(t.TempDir(), "pids")
	cmd := exec.CommandContext(ctx, "sh", "-c", `trap '' INT TERM HUP; sleep 1000 & echo $$ $! > "$0.new"; mv "$0.new" "$0"; wait`, file)
	done := make(chan error, 1)
	go func() { done <- process.Run(ctx, cmd) }()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		for _, f := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(f)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Len(t, pids, 2)
	return pids, done
}

func gone(t *testing.T, pids []int) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, pid := range pids {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) && !strings.Contains(string(stat), ") Z ") {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
}

func TestChildrenAndTheirsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pids, ended := family(t, ctx)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	gone(t, pids)
}

// The kernel's signal to children goes by threads. Here the one that would have
// started the child ends, as the threads of OpenCL's queues do.
func TestAChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read x; exit 3")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	started := make(chan *process.Child)
	var tid int
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		tid = syscall.Gettid()
		c, err := process.Start(t.Context(), cmd)
		assert.NoError(t, err)
		started <- c
	}()
	c := <-started
	require.Eventually(t, func() bool {
		_, err := os.Stat("/proc/self/task/" + strconv.Itoa(tid))
		return tid == os.Getpid() || errors.Is(err, fs.ErrNotExist) // the first thread stays
	}, time.Minute, time.Millisecond)
	require.NoError(t, in.Close())
	require.EqualError(t, c.Wait(), "exit status 3")
}

// Nothing of this process runs any more where it is killed outright: the kernel ends the
// child then.
func TestAChildDiesWithAParentThatIsKilledOutright(t *testing.T) {
	const file = "GODWIT_TEST_CHILD_FILE"
	if path := os.Getenv(file); path != "" { // the parent
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap '' INT TERM HUP; echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 100`, path)
		require.NoError(t, process.Run(t.Context(), cmd))
		return
	}
	path := filepath.Join(t.TempDir(), "pid")
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	parent.Env = append(os.Environ(), file+"="+path)
	require.NoError(t, parent.Start())
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, time.Minute, time.Millisecond)
	require.NoError(t, parent.Process.Kill())
	require.EqualError(t, parent.Wait(), "signal: killed")
	gone(t, []int{pid})
}

func TestAKilledChildSaysHowItEnded(t *testing.T) {
	for command, want := range map[string]string{"exit 3": "exit status 3", "sleep 1000": "signal: killed"} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		c, err := process.Start(t.Context(), cmd)
		require.NoError(t, err)
		if command == "exit 3" {
			_, err = io.ReadAll(out) // has ended by itself
			require.NoError(t, err)
		}
		_ = c.Kill()
		require.EqualError(t, c.Wait(), want)
	}
}

func TestChildrenAndTheirsEndWithTheGuard(t *testing.T) {
	var g process.Guard
	pids, ended := family(t, process.With(t.Context(), &g))
	g.Undo()
	require.Error(t, <-ended)
	gone(t, pids)
}
