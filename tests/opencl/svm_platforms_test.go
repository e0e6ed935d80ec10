//go:build cgo

package opencl_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

// oclgrind, as a driver, is a library of its package: a second platform, of OpenCL
// 1.2, so without shared virtual memory.
const oclgrind = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"

// twoPlatforms is set in the child of TestTwoPlatformsOneOfThemWithoutSVM, whose
// OpenCL loader sees both.
const twoPlatforms = "GODWIT_TEST_TWO_PLATFORMS"

// pocl is the file that names PoCL's library.
const pocl = "/etc/OpenCL/vendors/pocl.icd"

// TestTwoPlatformsOneOfThemWithoutSVM: a pointer is refused on the device that has
// no such memory, with the reason; a buffer made of it goes there as any other.
func TestTwoPlatformsOneOfThemWithoutSVM(t *testing.T) {
	need(t)
	if os.Getenv(twoPlatforms) != "" {
		onTwoPlatforms(t)
		return
	}
	for _, f := range []string{oclgrind, pocl} {
		if _, err := os.Stat(f); err != nil {
			t.Skipf("it wants PoCL and Oclgrind: %v", err)
		}
	}
	dir := t.TempDir()
	text, err := os.ReadFile(pocl)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pocl.icd"), text, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "oclgrind.icd"), []byte(oclgrind+"\n"), 0o600))
	cmd := exec.Command(os.Args[0], "-test.run=^TestTwoPlatformsOneOfThemWithoutSVM$", "-test.v")
	cmd.Env = append(os.Environ(), twoPlatforms+"=1", "OCL_ICD_VENDORS="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "SKIP")
}

func onTwoPlatforms(t *testing.T) {
	const onPoCL, onOclgrind, onTCE = 0, 1, 2
	h := openSVM(t, func() (devs []devices.Device, err error) {
		for _, platform := range []string{"Portable", "Oclgrind"} {
			d, err := devices.Open(context.Background(), "opencl", devices.Config{Params: map[string]string{"platform": platform, "count": "1"}})
			if err != nil {
				return nil, err
			}
			devs = append(devs, d...)
		}
		s, err := tce.New(tce.Options{Name: "t", Memory: 1 << 20})
		return append(devs, s), err
	})
	const size = 4096
	p := h.alloc(size, 0)
	h.ends(h.q[onPoCL].EnqueueSVMFill(h.ctx, p, []byte{1}, size))
	for what, f := range map[string]func() (runtime.Event, error){
		"launch": func() (runtime.Event, error) { return h.increment(onOclgrind, p, 16) },
		"fill":   func() (runtime.Event, error) { return h.q[onOclgrind].EnqueueSVMFill(h.ctx, p, []byte{1}, 16) },
		"read":   func() (runtime.Event, error) { return h.q[onOclgrind].EnqueueSVMRead(h.ctx, p, make([]byte, 16)) },
	} {
		_, err := f()
		require.ErrorIs(t, err, mem.ErrInvalidOperation, what)
		require.ErrorContains(t, err, "Oclgrind Simulator has no shared virtual memory (the platform has none for it)", what)
	}
	bytes, err := h.c.SVMBytes(p+1024, 1024)
	require.NoError(t, err)
	alias, err := h.c.CreateBuffer(1024, runtime.UseHostPtr, bytes)
	require.NoError(t, err)
	want := make([]byte, size)
	for i := range want {
		want[i] = 1
	}
	h.ends(h.q[onOclgrind].EnqueueFill(h.ctx, alias, []byte{9}, 0, 512))
	read := make([]byte, 1024)
	h.ends(h.q[onOclgrind].EnqueueRead(h.ctx, alias, 0, read))
	for i := range 512 {
		want[1024+i] = 9
	}
	require.Equal(t, want[1024:2048], read)
	require.Equal(t, uint64(512), h.c.Stats().BytesMoved, "what Oclgrind had not filled")
	h.ends(h.q[onTCE].EnqueueLaunch(h.ctx, runtime.Launch{Kernel: h.inc, Global: []uint64{1}, Args: []runtime.Arg{runtime.Buf(alias), runtime.Uint64(1024)}}))
	h.ends(h.increment(onPoCL, p+1024, 600))
	h.ends(h.increment(onTCE, p+1500, 100))
	require.Equal(t, uint64(512+1024+600+100), h.c.Stats().BytesMoved, "and to tce, of that to the host for PoCL, and of that back to tce")
	for i := range want {
		if i >= 1024 && i < 2048 {
			want[i]++
		}
		if i >= 1024 && i < 1624 {
			want[i]++
		}
		if i >= 1500 && i < 1600 {
			want[i]++
		}
	}
	got := h.mapped(onPoCL, p, size, runtime.SVMMapRead)
	require.Equal(t, want, got)
	h.unmap(onPoCL, p)
	require.NoError(t, alias.Release())
	require.NoError(t, h.c.SVMFree(p))
	h.close()
}
