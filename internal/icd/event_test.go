//go:build cgo

package icd

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func (l *lab) event(enqueue func(out unsafe.Pointer) int32) uintptr {
	l.Helper()
	var e uintptr
	require.Zero(l, enqueue(at(&e)))
	require.NotZero(l, e)
	l.Cleanup(func() { release(e) })
	return e
}

func (l *lab) status(e uintptr) int32 {
	return word[int32](l, func(room uint64, value, size unsafe.Pointer) int32 {
		return gwGetEventInfo(e, 0x11D3, room, value, size)
	})
}

// A user event's failure reaches what waits for it, and nothing else.
func TestAFailedUserEventFailsWhatWaits(t *testing.T) {
	l := newLab(t)
	q := l.make(gwCreateCommandQueue(l.ctx, l.devs[0], 1))
	m := l.ints(1, 2)
	gate := l.make(gwCreateUserEvent(l.ctx))
	one := int32(7)
	e := l.event(func(out unsafe.Pointer) int32 { return gwEnqueueFillBuffer(q, m, at(&one), 4, 0, 4, 1, at(&gate), out) })
	free := l.event(func(out unsafe.Pointer) int32 { return gwEnqueueMarkerWithWaitList(l.queues[1], 0, nil, out) })
	require.Zero(t, gwSetUserEventStatus(gate, -5))
	require.Equal(t, clExecStatusErrorInWaitList, gwWaitForEvents(1, at(&e)))
	require.EqualValues(t, -5, l.status(gate))
	require.Negative(t, l.status(e))
	require.Zero(t, gwWaitForEvents(1, at(&free)))
	require.Zero(t, l.status(free))
	require.Equal(t, clExecStatusErrorInWaitList, gwEnqueueReadBuffer(q, m, 1, 4, 4, at(&one), 1, at(&e), nil))
	require.Equal(t, []int32{2}, func() []int32 {
		got := make([]int32, 1)
		require.Zero(t, gwEnqueueReadBuffer(q, m, 1, 4, 4, at(&got[0]), 0, nil, nil))
		return got
	}(), "bytes that nobody was to write are as they were")
}

// In an out-of-order queue a marker waits for what is before it, a barrier also
// holds back what comes after it.
func TestBarriersAndMarkersOutOfOrder(t *testing.T) {
	l := newLab(t)
	q := l.make(gwCreateCommandQueue(l.ctx, l.devs[0], 1))
	gate := l.make(gwCreateUserEvent(l.ctx))
	m := l.ints(1, 2)
	v := int32(9)
	held := l.event(func(out unsafe.Pointer) int32 { return gwEnqueueFillBuffer(q, m, at(&v), 4, 0, 4, 1, at(&gate), out) })
	marker := l.event(func(out unsafe.Pointer) int32 { return gwEnqueueMarker(q, out) })
	free := l.event(func(out unsafe.Pointer) int32 { return gwEnqueueFillBuffer(q, m, at(&v), 4, 4, 4, 0, nil, out) })
	require.Zero(t, gwWaitForEvents(1, at(&free)), "nothing holds it back")
	require.EqualValues(t, 2, l.status(marker))
	require.Zero(t, gwEnqueueBarrier(q))
	after := l.event(func(out unsafe.Pointer) int32 { return gwEnqueueFillBuffer(q, m, at(&v), 4, 4, 4, 0, nil, out) })
	require.EqualValues(t, 2, l.status(after))
	require.Zero(t, gwSetUserEventStatus(gate, 0))
	all := [...]uintptr{held, marker, after}
	require.Zero(t, gwWaitForEvents(3, at(&all[0])))
}

func TestProfilingTimesAreInOrder(t *testing.T) {
	l := newLab(t)
	q := l.make(gwCreateCommandQueue(l.ctx, l.devs[0], 2))
	m := l.ints(make([]int32, 1<<16)...)
	v := int32(3)
	for range 3 {
		e := l.event(func(out unsafe.Pointer) int32 { return gwEnqueueFillBuffer(q, m, at(&v), 4, 0, 1<<18, 0, nil, out) })
		require.Zero(t, gwFinish(q))
		var times [5]uint64
		for i := range times {
			times[i] = word[uint64](l, func(room uint64, value, size unsafe.Pointer) int32 {
				return gwGetEventProfilingInfo(e, 0x1280+uint32(i), room, value, size)
			})
		}
		require.IsNonDecreasing(t, times[:])
		require.Positive(t, times[3]-times[2])
		require.Equal(t, clInvalidValue, gwGetEventProfilingInfo(e, 0x1290, 8, nil, nil))
	}
}

// Programs ask for times when all is done, of thousands of commands.
func TestProfilingTimesAreKeptForMany(t *testing.T) {
	l := newLab(t)
	q := l.make(gwCreateCommandQueue(l.ctx, l.devs[0], 2))
	var all [5000]uintptr
	for i := range all {
		require.Zero(t, gwEnqueueMarkerWithWaitList(q, 0, nil, at(&all[i])))
	}
	require.Zero(t, gwWaitForEvents(uint32(len(all)), at(&all[0])))
	for _, e := range all {
		var ended uint64
		require.Zero(t, gwGetEventProfilingInfo(e, 0x1283, 8, at(&ended), nil))
		require.NotZero(t, ended)
		release(e)
	}
}

func TestMistakesWithEventsAreErrors(t *testing.T) {
	l := newLab(t)
	q := l.queues[0]
	marker := l.event(func(out unsafe.Pointer) int32 { return gwEnqueueMarkerWithWaitList(q, 0, nil, out) })
	set := l.make(gwCreateUserEvent(l.ctx))
	require.Zero(t, gwSetUserEventStatus(set, 0))
	for name, c := range map[string][2]int32{
		"status of a command":  {gwSetUserEventStatus(marker, 0), clInvalidEvent},
		"status twice":         {gwSetUserEventStatus(set, 0), clInvalidOperation},
		"callback of what":     {gwSetEventCallback(marker, 3, at(new(int)), nil), clInvalidValue},
		"marker without event": {gwEnqueueMarker(q, nil), clInvalidValue},
		"wait for no events":   {gwEnqueueWaitForEvents(q, 0, nil), clInvalidValue},
	} {
		require.Equal(t, c[1], c[0], name)
	}
}
