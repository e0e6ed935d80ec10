package runtime_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
	"godwit/svm"
)

// What is given up ends given up, or is poisoned (C11).

// told calls what it was given once, after the next command was accepted.
type told struct {
	trace.Recorder
	next atomic.Pointer[func()]
}

func (s *told) Command(r *trace.CommandRecord) {
	s.Recorder.Command(r)
	if f := s.next.Swap(nil); f != nil {
		go (*f)()
	}
}

// stubborn is a device whose queues refuse every command while no is set.
type stubborn struct {
	*tce.Device
	sink told
	no   atomic.Bool
}

// accepted has f called when the next command was accepted.
func (d *stubborn) accepted(f func()) { d.sink.next.Store(&f) }

func (d *stubborn) Unwrap() devices.Device { return d.Device }

func (d *stubborn) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return devicetest.Tap(d.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if d.no.Load() {
			return mem.Point{}, errInjected
		}
		return q.Submit(cmd, waits)
	})
}

// stubbornHouse is a context with such a device and a buffer of content 7 there: one
// of its own, or over shared virtual memory.
func stubbornHouse(t *testing.T, overSVM bool) (*house, *stubborn, *runtime.Buffer, runtime.Pointer) {
	inner := must(tce.New(tce.Options{Memory: 1 << 20}))
	d := &stubborn{Device: inner}
	h := build(t, runtime.Options{Devices: []devices.Device{d}, SVMSize: 1 << 24, Trace: &d.sink}, outOfOrder)
	var b *runtime.Buffer
	var p runtime.Pointer
	if overSVM {
		p = must(h.c.SVMAlloc(8192, 0, 0))
		over := must(h.c.SVMBytes(p, 8192))
		b = h.create(8192, runtime.UseHostPtr, over)
		t.Cleanup(func() { _, _ = h.c.SVMFree(p), b.Release() })
	} else {
		b = h.buffer(8192, nil)
	}
	h.done(h.fill(0, b, 7))
	return h, d, b, p
}

// afterwards tests that nothing of b is mapped: what a device writes is what the
// host reads.
func (h *house) afterwards(b *runtime.Buffer, v byte) {
	h.t.Helper()
	ctx := soon(h.t)
	require.Zero(h.t, b.Maps())
	require.NoError(h.t, h.c.Check())
	host := must(h.c.Device(mem.Host))
	q := h.queue(host, runtime.QueueOptions{})
	want := bytes.Repeat([]byte{v}, int(b.Size()))
	got := make([]byte, b.Size())
	h.done(h.ok(q.EnqueueRead(ctx, b, 0, got)))
	require.Equal(h.t, want, got, "the content is what it was")
	h.done(h.fill(0, b, v+1))
	h.done(h.ok(q.EnqueueRead(ctx, b, 0, got)))
	require.Equal(h.t, bytes.Repeat([]byte{v + 1}, len(got)), got, "the host's bytes are nobody's any more")
	m, err := h.q[0].Map(ctx, b, 0, b.Size(), runtime.MapWrite)
	require.NoError(h.t, err, "what was given up is in nobody's way")
	h.done(h.ok(h.q[0].EnqueueUnmap(ctx, m)))
	require.NoError(h.t, q.Close())
	require.NoError(h.t, h.c.Check())
}

func TestAMapThatIsGivenUpIsGoneWhateverItsDriverSays(t *testing.T) { // C11
	for _, overSVM := range []bool{false, true} {
		for _, flags := range []runtime.MapFlags{runtime.MapRead, runtime.MapWrite, runtime.MapInvalidate} {
			for _, fails := range []bool{false, true} {
				h, d, b, _ := stubbornHouse(t, overSVM)
				gate := h.gate()
				short, cancel := context.WithCancel(context.Background())
				d.accepted(func() {
					d.no.Store(true)
					if fails {
						_ = gate.SetStatus(-77)
					}
					cancel()
				})
				_, err := h.q[0].Map(short, b, 0, 5000, flags, gate)
				require.ErrorIs(t, err, runtime.ErrMap)
				require.NotErrorIs(t, err, errInjected, "nothing had to be asked of the driver")
				d.no.Store(false)
				if !fails {
					require.NoError(t, gate.SetStatus(runtime.Complete))
				}
				h.afterwards(b, 7)
			}
		}
	}
}

func TestABlockingMapOfAPointerThatIsGivenUpIsGone(t *testing.T) { // C11
	h, d, b, p := stubbornHouse(t, true)
	gate := h.gate()
	short, cancel := context.WithCancel(context.Background())
	d.accepted(func() { d.no.Store(true); cancel() })
	_, e, err := h.q[0].SVMMap(short, p, 5000, runtime.SVMMapWrite, gate)
	require.ErrorIs(t, err, runtime.ErrMap)
	require.False(t, e.IsZero())
	require.NoError(t, e.Release())
	d.no.Store(false)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.afterwards(b, 7)
}

func TestAMappingThatIsAbandonedIsMappedNoMore(t *testing.T) { // C11
	for _, overSVM := range []bool{false, true} {
		h, _, b, _ := stubbornHouse(t, overSVM)
		m := must(h.q[0].Map(soon(t), b, 0, 5000, runtime.MapWrite))
		require.NoError(t, m.Abandon())
		require.ErrorIs(t, m.Abandon(), mem.ErrInvalidValue)
		_, err := h.q[0].EnqueueUnmap(soon(t), m)
		require.ErrorIs(t, err, mem.ErrInvalidValue)
		h.afterwards(b, 7)
	}
	require.ErrorIs(t, runtime.Mapping{}.Abandon(), mem.ErrInvalidValue)
}

// Of a free whose map fails nobody knows what the host has written.
func TestAFreeWhoseMapFailsPoisonsWhatWasMapped(t *testing.T) { // C11
	h, _, b, p := stubbornHouse(t, true)
	ctx, gate := soon(t), h.gate()
	_, _, err := h.q[0].EnqueueMap(ctx, b, 0, 4096, runtime.MapInvalidate, gate)
	require.NoError(t, err)
	e := must(h.q[0].EnqueueSVMFree(ctx, []runtime.Pointer{p}))
	require.NoError(t, gate.SetStatus(-77))
	require.ErrorIs(t, e.Wait(ctx), mem.ErrDependency)
	_, err = h.q[0].EnqueueRead(ctx, b, 0, make([]byte, 8))
	require.ErrorIs(t, err, mem.ErrPoisoned)
	got := make([]byte, 4096)
	h.done(h.ok(h.q[0].EnqueueRead(ctx, b, 4096, got)))
	require.Equal(t, bytes.Repeat([]byte{7}, 4096), got)
	require.NoError(t, h.c.Check())
}

// What is enqueued behind a free runs after its maps have ended, whenever that is: they are
// in nobody's way from then on, as those that are unmapped.
func TestWhatIsEnqueuedAfterAFreeFindsNothingMapped(t *testing.T) {
	h, _, b, p := stubbornHouse(t, true)
	ctx, gate := soon(t), h.gate()
	m := must(h.q[0].Map(ctx, b, 0, 4096, runtime.MapInvalidate))
	copy(m.Bytes(), bytes.Repeat([]byte{3}, 4096))
	free := must(h.q[0].EnqueueSVMFree(ctx, []runtime.Pointer{p}, gate))
	fill := must(h.q[0].EnqueueFill(ctx, b, []byte{5}, 0, 16))
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.done(free)
	h.done(fill)
	got := make([]byte, 4096)
	h.done(h.ok(h.q[0].EnqueueRead(ctx, b, 0, got)))
	require.Equal(t, append(bytes.Repeat([]byte{5}, 16), bytes.Repeat([]byte{3}, 4080)...), got)
	require.NoError(t, h.c.Check())
}

// The handle says which of several maps from one start is ended.
func TestTheHandleOfAMapOverAPointerSaysWhichOneEnds(t *testing.T) {
	h, _, b, p := stubbornHouse(t, true)
	ctx := soon(t)
	short := must(h.q[0].Map(ctx, b, 0, 16, runtime.MapRead))
	long := must(h.q[0].Map(ctx, b, 0, 8192, runtime.MapRead))
	_, e, err := h.q[0].EnqueueSVMMap(ctx, p, 16, runtime.SVMMapRead)
	require.NoError(t, err)
	h.done(e)
	touch := func(m runtime.Mapping, i int) error {
		return h.c.SVMGuard(func() { sink = m.Bytes()[i] })
	}
	h.done(h.ok(h.q[0].EnqueueUnmap(ctx, short)))
	require.NoError(t, touch(long, 5000), "what the other mapped stays mapped")
	_, err = h.q[0].EnqueueUnmap(ctx, short)
	require.ErrorIs(t, err, mem.ErrInvalidValue, "once")
	h.done(h.ok(h.q[0].EnqueueSVMUnmap(ctx, p)))
	require.NoError(t, touch(long, 5000), "a pointer ends maps that were made of it")
	_, err = h.q[0].EnqueueSVMUnmap(ctx, p)
	require.ErrorIs(t, err, svm.ErrMapped)
	h.done(h.ok(h.q[0].EnqueueUnmap(ctx, long)))
	require.ErrorIs(t, touch(long, 5000), svm.ErrFault)
	m := must(h.q[0].Map(ctx, b, 0, 8, runtime.MapWrite))
	h.done(h.ok(h.q[0].EnqueueUnmap(ctx, m)))
	require.NoError(t, h.c.Check())
}
