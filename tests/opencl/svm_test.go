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
	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// The memories of an svmHouse: two openings of OpenCL devices, a cpu, a tce.
const (
	first, second, simCPU, simTCE = 0, 1, 2, 3
)

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

// TestAListOfPointersIsFollowedOnEveryDevice builds a list over two blocks on the
// host and follows it on OpenCL devices and simulated ones in turn: arguments
// inside a block, links that no argument names, changes seen by the next.
func TestAListOfPointersIsFollowedOnEveryDevice(t *testing.T) {
	need(t)
	h := openSVM(t, house("off", true))
	a, b, out := h.alloc(4096, 0), h.alloc(8192, 0), h.alloc(64, 0)
	head, middle, last := a+512, b+8000, a+64
	for round, q := range []int{first, second, simTCE, second, simCPU, first, first, simTCE} {
		if round == 0 {
			bytes := h.mapped(q, a, 4096, runtime.SVMMapWriteInvalidate)
			put(bytes[512:], uint64(middle), 1)
			put(bytes[64:], 0, 4)
			h.unmap(q, a)
			node := make([]byte, 16)
			put(node, uint64(last), 2)
			h.ends(h.q[q].EnqueueSVMWrite(h.ctx, middle, node))
		}
		h.ends(h.q[q].EnqueueLaunch(h.ctx, runtime.Launch{
			Kernel: h.follow, Global: []uint64{1},
			Args: []runtime.Arg{runtime.SVM(head), runtime.SVM(out+8).Range(0, 16)},
			SVM:  []runtime.Arg{runtime.SVM(middle).Range(0, 16)},
		}))
		sum := uint64(7)
		if round > 0 {
			sum = 3000
		}
		got := h.mapped(q, out, 64, runtime.SVMMapRead)
		require.Equal(t, sum, binary.LittleEndian.Uint64(got[8:]), "on queue %d", q)
		require.Equal(t, uint64(head), binary.LittleEndian.Uint64(got[16:]))
		h.unmap(q, out)
		if round == 0 || round == 6 { // what comes and goes so far is between the host and OpenCL: nothing
			before := h.c.Stats().BytesMoved
			h.ends(h.increment(first, b, 8))
			h.ends(h.increment(second, b, 8))
			require.Equal(t, before, h.c.Stats().BytesMoved, "two that follow the host's pointers share its memory")
		}
	}
	require.Positive(t, h.c.Stats().BytesMoved, "the simulated devices have memories of their own")
	for _, p := range []runtime.Pointer{a, b, out} {
		require.NoError(t, h.c.SVMFree(p))
	}
	h.close()
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

// TestFineGrainIsTheHostsOnOpenCLDevicesToo: no map is needed, and nothing moves.
func TestFineGrainIsTheHostsOnOpenCLDevicesToo(t *testing.T) {
	need(t)
	h := openSVM(t, house("off", true))
	p := h.alloc(4096, runtime.SVMFineGrain|runtime.SVMAtomics)
	view, err := h.c.SVMBytes(p, 4096)
	require.NoError(t, err)
	for i := range view {
		view[i] = byte(i)
	}
	h.ends(h.increment(first, p+1, 10))
	h.ends(h.increment(second, p+1, 10))
	require.Equal(t, []byte{0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 11}, view[:12])
	require.Zero(t, h.c.Stats().BytesMoved)
	_, err = h.increment(simTCE, p, 10)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.NoError(t, h.c.SVMFree(p))
	h.close()
}
