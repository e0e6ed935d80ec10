package storage

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"godwit/devices"
)

// residentLocked is how much of this process the system says is locked, in bytes.
func residentLocked(t *testing.T) uint64 {
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "VmLck: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("no VmLck in /proc/self/status")
	return 0
}

func TestLockedMemoryIsLockedAndUnlockedAgain(t *testing.T) {
	before := residentLocked(t)
	m := NewLocked("locked", devices.NodeAny)
	large := take(t, m, 1<<20)
	if l := m.Locking(); l.Unlocked > 0 {
		require.Contains(t, l.Why, "mlock")
		t.Skip(l.Why)
	}
	small := take(t, m, 100)
	require.Equal(t, before+1<<20+slabSize, residentLocked(t), "one mapping and one slab")
	require.Equal(t, devices.Locking{Locked: 1<<20 + slabSize}, m.Locking())
	view, err := m.View(large, 4096, 10)
	require.NoError(t, err)
	copy(view, "page-lock")
	require.NoError(t, m.Check())
	require.NoError(t, m.FreeAfter(large, nil))
	require.NoError(t, m.FreeAfter(small, nil))
	m.Trim(0)
	require.Equal(t, devices.Locking{}, m.Locking())
	require.Equal(t, before, residentLocked(t))
	require.NoError(t, m.Close())
}

// TestWhereTheLimitIsTinyMemoryIsGivenUnlockedAndSaysSo runs in a process of its own,
// without the right to lock more.
func TestWhereTheLimitIsTinyMemoryIsGivenUnlockedAndSaysSo(t *testing.T) {
	const child = "GODWIT_TEST_MEMLOCK"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "PASS: "+t.Name())
		return
	}
	runtime.LockOSThread() // for good: capabilities are a thread's
	limit := unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit))
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	require.NoError(t, unix.Capset(&header, &none[0]))
	m := NewLocked("locked", devices.NodeAny)
	b := take(t, m, 1<<20)
	l := m.Locking()
	require.Equal(t, uint64(1<<20), l.Unlocked)
	require.Zero(t, l.Locked)
	require.Contains(t, l.Why, "1 MiB not page-locked")
	require.Contains(t, l.Why, "64 KiB (RLIMIT_MEMLOCK")
	view, err := m.View(b, 0, 1<<20)
	require.NoError(t, err)
	view[1<<20-1] = 1 // it is memory all the same
	require.NoError(t, m.FreeAfter(b, nil))
	require.Zero(t, m.Locking().Unlocked)
	require.NoError(t, m.Close())
}

func TestSetsOfNodesAreRead(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-1": {0, 1}, "0-1,4,6-7": {0, 1, 4, 6, 7}, "": nil, "x": nil, "1-x": nil, "1023-1025": {1023}} {
		require.Equal(t, want, parseNodes(text), "%q", text)
	}
}
