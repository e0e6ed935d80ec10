//go:build cgo

package opencl_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/internal/history"
	"godwit/runtime"
	"godwit/svm"
)

// The OpenCL devices of an svmHouse.
const first, second = 0, 1

// svmHouse is a context with a queue and the kernels on each of its devices.
type svmHouse struct {
	t      testing.TB
	c      *runtime.Context
	q      []*runtime.Queue
	follow *runtime.Kernel
	inc    *runtime.Kernel
	ctx    context.Context
}

func openSVM(t testing.TB, open func() ([]devices.Device, error)) *svmHouse {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	h := &svmHouse{t: t, ctx: ctx}
	devs, err := open()
	require.NoError(t, err)
	h.c, err = runtime.NewContext(runtime.Options{Name: "house", Devices: devs, OwnDevices: true, SVMSize: 1 << 24})
	require.NoError(t, err)
	p, err := h.c.Build(ctx, history.Pointers)
	require.NoError(t, err)
	h.follow, err = p.Kernel("follow")
	require.NoError(t, err)
	h.inc, err = p.Kernel("increment")
	require.NoError(t, err)
	for _, d := range devs {
		q, err := h.c.NewQueue(d, runtime.QueueOptions{Name: d.Info().Name})
		require.NoError(t, err)
		h.q = append(h.q, q)
	}
	return h
}

func (h *svmHouse) close() {
	require.NoError(h.t, h.c.Check())
	require.NoError(h.t, h.c.Close(h.ctx))
}

func (h *svmHouse) alloc(size uint64, f runtime.SVMFlags) runtime.Pointer {
	h.t.Helper()
	p, err := h.c.SVMAllocNamed("cells", size, 0, f)
	require.NoError(h.t, err)
	return p
}

// ends waits for a command that must succeed.
func (h *svmHouse) ends(e runtime.Event, err error) {
	h.t.Helper()
	require.NoError(h.t, err)
	require.NoError(h.t, e.Wait(h.ctx))
	require.NoError(h.t, e.Release())
	require.NoError(h.t, h.c.Check())
}

func (h *svmHouse) mapped(q int, p runtime.Pointer, size uint64, f svm.MapFlags) []byte {
	h.t.Helper()
	b, e, err := h.q[q].EnqueueSVMMap(h.ctx, p, size, f)
	h.ends(e, err)
	return b
}

func (h *svmHouse) unmap(q int, p runtime.Pointer) {
	h.t.Helper()
	h.ends(h.q[q].EnqueueSVMUnmap(h.ctx, p))
}

// increment is a launch over n bytes at p.
func (h *svmHouse) increment(q int, p runtime.Pointer, n uint64, wait ...runtime.Event) (runtime.Event, error) {
	return h.q[q].EnqueueLaunch(h.ctx, history.Increment(h.inc, runtime.SVM(p).Range(0, n), n), wait...)
}

func put(b []byte, v ...uint64) {
	for i, w := range v {
		binary.LittleEndian.PutUint64(b[8*i:], w)
	}
}

// twice opens one OpenCL device two times.
func twice() (devs []devices.Device, err error) {
	for range 2 {
		d, err := devices.Open(context.Background(), "opencl", devices.Config{Params: map[string]string{"device": "0", "count": "1"}})
		if err != nil {
			return devs, err
		}
		devs = append(devs, d...)
	}
	return devs, nil
}

// TestTwoOpeningsOfOneDeviceShareItsSVM: buffers are apart, a pointer is one.
func TestTwoOpeningsOfOneDeviceShareItsSVM(t *testing.T) {
	need(t)
	h := openSVM(t, twice)
	p := h.alloc(1<<16, 0)
	h.ends(h.q[0].EnqueueSVMFill(h.ctx, p, []byte{1}, 1<<16))
	for i := range 10 {
		h.ends(h.increment(i%2, p+runtime.Pointer(i), 1))
	}
	got := h.mapped(1, p, 1<<16, runtime.SVMMapRead)
	for i := range 12 {
		want := byte(2)
		if i >= 10 {
			want = 1
		}
		require.Equal(t, want, got[i])
	}
	h.unmap(1, p)
	require.Zero(t, h.c.Stats().BytesMoved)
	buf, err := h.c.CreateBuffer(16, 0, make([]byte, 16))
	require.NoError(t, err)
	for q := range 2 {
		h.ends(h.q[q].EnqueueLaunch(h.ctx, runtime.Launch{Kernel: h.inc, Global: []uint64{1}, Args: []runtime.Arg{runtime.Buf(buf), runtime.Uint64(16)}}))
	}
	require.Equal(t, uint64(16+16), h.c.Stats().BytesMoved, "to the first, and from there to the second")
	require.NoError(t, buf.Release())
	require.NoError(t, h.c.SVMFree(p))
	h.close()
}

// TestAFreeLeavesTheKernelsThatAreUnderWay: a launch enqueued before runs on the
// pages it named, which nobody may touch afterwards.
func TestAFreeLeavesTheKernelsThatAreUnderWay(t *testing.T) {
	need(t)
	h := openSVM(t, house("off", true))
	p := h.alloc(8192, 0)
	h.ends(h.q[first].EnqueueSVMFill(h.ctx, p, []byte{1}, 8192))
	view, err := h.c.SVMBytes(p, 8192)
	require.NoError(t, err)
	require.ErrorIs(t, h.c.SVMGuard(func() { view[0] = 7 }), svm.ErrFault)
	gate, err := h.c.NewUserEvent()
	require.NoError(t, err)
	e, err := h.increment(second, p, 4096, gate)
	require.NoError(t, err)
	require.NoError(t, h.c.SVMFree(p))
	require.ErrorIs(t, h.c.SVMGuard(func() { view[4096] = 7 }), svm.ErrFault, "only what was named is lent")
	require.NoError(t, gate.SetStatus(0))
	h.ends(e, nil)
	err = h.c.SVMGuard(func() { view[0] = 7 })
	require.ErrorIs(t, err, svm.ErrFault)
	require.ErrorContains(t, err, "freed by SVMFree")
	require.NoError(t, gate.Release())
	h.close()
}
