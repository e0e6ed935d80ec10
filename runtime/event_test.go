package runtime_test

import (
	"context"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/mem"
	"godwit/runtime"
)

func TestUserEventsEndOnceAndCarryTheirStatus(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	e := h.gate()
	s := must(e.Status())
	require.Equal(t, runtime.Submitted, s)
	require.NoError(t, e.Err())
	require.ErrorIs(t, e.SetStatus(runtime.Running), mem.ErrInvalidValue)
	first := h.ok(q.EnqueueMarker(ctx, e))
	second := h.ok(q.EnqueueMarker(ctx, first))
	require.NoError(t, e.SetStatus(-1234))
	require.ErrorIs(t, e.SetStatus(runtime.Complete), mem.ErrInvalidOperation)
	s = must(e.Status())
	require.Equal(t, runtime.ExecStatus(-1234), s)
	require.ErrorIs(t, runtime.WaitAll(ctx, first, second), mem.ErrDependency)
	require.ErrorContains(t, second.Err(), "-1234", "the first cause reaches all dependants")
	s = must(second.Status())
	require.Equal(t, runtime.ExecStatus(mem.ExecStatusErrorInWaitList), s)
	require.ErrorIs(t, first.SetStatus(runtime.Complete), mem.ErrInvalidEvent, "it is no user event")
	require.Error(t, q.Finish(ctx))
}

func TestAReleasedEventIsAnErrorAlsoInItsRecordsNextLife(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	old := h.ok(q.EnqueueMarker(ctx))
	require.NoError(t, old.Retain())
	require.NoError(t, old.Release())
	require.NoError(t, old.Wait(ctx))
	require.NoError(t, old.Release())
	next := h.ok(q.EnqueueMarker(ctx)) // the same record
	require.NotEqual(t, old, next)
	for name, err := range map[string]error{
		"wait": old.Wait(ctx), "release": old.Release(), "retain": old.Retain(), "err": old.Err(), "set": old.SetStatus(0),
		"zero wait": runtime.Event{}.Wait(ctx), "zero release": runtime.Event{}.Release(),
	} {
		require.ErrorIs(t, err, mem.ErrInvalidEvent, name)
		require.Equal(t, mem.InvalidEvent, mem.StatusOf(err), name)
	}
	_, err := old.Status()
	require.ErrorIs(t, err, mem.ErrInvalidEvent)
	_, err = old.Times()
	require.ErrorIs(t, err, mem.ErrInvalidEvent)
	require.NoError(t, next.Wait(ctx))
}

func TestTimesAreKeptWhereAskedFor(t *testing.T) {
	d := must(cpu.New(cpu.Options{}))
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true}))
	ctx := soon(t)
	for _, profiling := range []bool{false, true} {
		q := must(c.NewQueue(d, runtime.QueueOptions{Profiling: profiling}))
		gate := must(c.NewUserEvent())
		e := must(q.EnqueueHostCall(ctx, func(context.Context) error { time.Sleep(time.Millisecond); return nil }, gate))
		_, err := e.Times()
		require.ErrorIs(t, err, runtime.ErrProfiling, "it has not ended")
		require.NoError(t, gate.SetStatus(runtime.Complete))
		require.NoError(t, e.Wait(ctx))
		times, err := e.Times()
		if !profiling {
			require.ErrorIs(t, err, runtime.ErrProfiling)
			require.Equal(t, mem.ProfilingInfoNotAvailable, mem.StatusOf(err))
			continue
		}
		require.NoError(t, err)
		require.LessOrEqual(t, times.Queued, times.Submitted)
		require.LessOrEqual(t, times.Submitted, times.Started)
		require.GreaterOrEqual(t, times.Ended-times.Started, uint64(time.Millisecond))
	}
	require.NoError(t, c.Close(ctx))
}

// TestAGatedEventIsSmall: see BenchmarkLiveEvents.
func TestAGatedEventIsSmall(t *testing.T) {
	const n = 100_000
	d, ctx := null.New(devices.Config{}), soon(t)
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true}))
	q := must(c.NewQueue(d, outOfOrder))
	gate := must(c.NewUserEvent())
	var err error
	events := make([]runtime.Event, n)
	live := func() uint64 {
		goruntime.GC()
		var s goruntime.MemStats
		goruntime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := live()
	for i := range events {
		if events[i], err = q.EnqueueMarker(ctx, gate); err != nil {
			t.Fatal(err)
		}
	}
	require.LessOrEqual(t, float64(live()-before)/n, 128.0)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, c.Close(ctx))
}
