package runtime_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/internal/history"
	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// svmDevices are one of each kind: a cpu device with memory of its own, one that
// shares the host's, and a tce.
func svmDevices(t testing.TB) []devices.Device {
	own := must(cpu.New(cpu.Options{Name: "own", Memory: 4 << 20, Workers: 1}))
	shares := must(cpu.New(cpu.Options{Name: "shares", SharesHost: true, Workers: 1}))
	sim := must(tce.New(tce.Options{Name: "sim", Memory: 4 << 20}))
	return []devices.Device{own, shares, sim}
}

const own, shares, sim = 0, 1, 2

// svmHouse is a context over svmDevices with the kernels of history.Pointers.
type svmHouse struct {
	*house
	kernel map[string]*runtime.Kernel
}

func svmBuild(t testing.TB) *svmHouse {
	h := &svmHouse{house: build(t, runtime.Options{Devices: svmDevices(t), SVMSize: 1 << 24}, runtime.QueueOptions{}), kernel: map[string]*runtime.Kernel{}}
	p := must(h.c.Build(soon(t), history.Pointers))
	for _, name := range p.Kernels() {
		h.kernel[name] = must(p.Kernel(name))
	}
	return h
}

func (h *svmHouse) alloc(size uint64, f runtime.SVMFlags) runtime.Pointer {
	h.t.Helper()
	p := must(h.c.SVMAllocNamed("cells", size, 0, f))
	h.t.Cleanup(func() { _ = h.c.SVMFree(p) })
	return p
}

// ends waits for a command that must succeed.
func (h *svmHouse) ends(e runtime.Event, err error) {
	h.t.Helper()
	require.NoError(h.t, err)
	require.NoError(h.t, e.Wait(soon(h.t)))
	require.NoError(h.t, e.Release())
	require.NoError(h.t, h.c.Check())
}

// mapped is a blocking map.
func (h *svmHouse) mapped(q int, p runtime.Pointer, size uint64, f svm.MapFlags) []byte {
	h.t.Helper()
	b, e, err := h.q[q].EnqueueSVMMap(soon(h.t), p, size, f)
	h.ends(e, err)
	return b
}

func (h *svmHouse) unmap(q int, p runtime.Pointer) {
	h.t.Helper()
	h.ends(h.q[q].EnqueueSVMUnmap(soon(h.t), p))
}

func TestAPointerGoesAroundDevicesAndTheHost(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{1}, 4096))
	h.ends(h.q[sim].EnqueueLaunch(ctx, history.Increment(h.kernel["increment"], runtime.SVM(p+1024).Range(0, 1024), 1024)))
	want := append(append(bytes.Repeat([]byte{1}, 1024), bytes.Repeat([]byte{2}, 1024)...), bytes.Repeat([]byte{1}, 2048)...)
	// Only what a command reads moves: 1 KiB to the sim, half of the block here.
	b := h.mapped(shares, p+512, 2048, runtime.SVMMapRead|runtime.SVMMapWrite)
	require.Equal(t, want[512:2560], b)
	require.Equal(t, uint64(1024+2048), h.c.Stats().BytesMoved)
	for i := range b {
		b[i], want[512+i] = 7, 7
	}
	h.unmap(shares, p+512)
	err := h.c.SVMGuard(func() { b[3] = 1 })
	require.ErrorIs(t, err, svm.ErrFault)
	require.ErrorContains(t, err, "EnqueueSVMUnmap on queue shares")
	require.ErrorContains(t, err, "cells")
	got := make([]byte, 4096)
	h.ends(h.q[sim].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, want, got)
	h.ends(h.q[own].EnqueueSVMMigrate(ctx, []runtime.SVMRange{{p, 0}}, 0))
	moved := h.c.Stats().BytesMoved
	h.ends(h.q[own].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, want, got)
	require.Equal(t, moved, h.c.Stats().BytesMoved)

	// A map that invalidates brings nothing.
	b = h.mapped(own, p, 4096, runtime.SVMMapWriteInvalidate)
	require.Equal(t, moved, h.c.Stats().BytesMoved)
	copy(b, noise(4096))
	h.unmap(own, p)
	h.ends(h.q[sim].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, noise(4096), got)
	require.NoError(t, h.c.SVMFree(p))
	require.ErrorContains(t, h.c.SVMGuard(func() { b[0] = 1 }), "freed by SVMFree")
	require.Contains(t, h.c.SVMExplain(p), "freed by SVMFree")
}

// sink keeps loads from being optimised away.
var sink byte

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>3 + i)
	}
	return b
}

func TestFineGrainIsTheHostsMemoryInPlace(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(256, runtime.SVMFineGrain|runtime.SVMAtomics)
	b := must(h.c.SVMBytes(p, 256))
	copy(b, noise(256))
	h.ends(h.q[shares].EnqueueLaunch(ctx, history.Increment(h.kernel["increment"], runtime.SVM(p), 256)))
	want := noise(256)
	for i := range want {
		want[i]++
	}
	require.Equal(t, want, b)
	h.ends(h.q[shares].EnqueueSVMMemcpy(ctx, p, p+128, 128))
	require.Equal(t, want[128:], b[:128])
	buf := h.create(128, runtime.UseHostPtr, b[:128])
	h.ends(h.q[shares].EnqueueFill(ctx, buf, []byte{9}, 0, 128))
	h.ends(h.q[shares].EnqueueLaunch(ctx, history.Increment(h.kernel["increment"], runtime.Buf(buf), 128)))
	require.Equal(t, bytes.Repeat([]byte{10}, 128), b[:128])
	require.Zero(t, h.c.Stats().BytesMoved)
	for _, q := range []int{own, sim} {
		_, err := h.q[q].EnqueueSVMFill(ctx, p, []byte{1}, 256)
		require.ErrorIs(t, err, mem.ErrInvalidOperation)
		require.ErrorContains(t, err, "fine-grained")
		require.False(t, h.devs[q].Info().SVM.Fine)
	}
	require.NoError(t, buf.Release())
}
