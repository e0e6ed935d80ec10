package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

const outOfResources = runtime.ExecStatus(mem.OutOfResources)

// C7: a context in which every second command fails, and whose events are
// released, stays as small as it was.
func TestFailuresThatNobodyAsksForCostNoMemory(t *testing.T) {
	devs := memories(1)
	c := must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})) // which records nothing
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	q := must(c.NewQueue(devs[0], outOfOrder))
	b := must(c.CreateBuffer(8, 0, make([]byte, 8)))
	defer func() { require.NoError(t, b.Release()) }()
	ctx := soon(t)
	round := func() {
		gate := must(c.NewUserEvent())
		e := must(q.EnqueueFill(ctx, b, []byte{1}, 0, 8, gate))
		good := must(q.EnqueueMarker(ctx))
		require.NoError(t, gate.SetStatus(outOfResources))
		require.Error(t, e.Wait(ctx))
		require.NoError(t, errors.Join(e.Release(), good.Release(), gate.Release()))
	}
	for range 500 {
		round()
	}
	heap := func() uint64 {
		var m goruntime.MemStats
		goruntime.GC()
		goruntime.GC()
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 20_000 {
		round()
	}
	grown := int64(heap()) - int64(before)
	require.Less(t, grown, int64(2<<20), "40,000 failures; each kept its cause: 4.8 MB")
}

// A cause stays while an event names the point, and reaches who waits for the event.
func TestTheCauseStaysWhileAnEventNamesThePoint(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx := soon(t)
	gate := h.gate()
	kept := h.ok(h.q[0].EnqueueMarker(ctx, gate))
	require.NoError(t, gate.SetStatus(outOfResources))
	cause := kept.Wait(ctx)
	require.Error(t, cause)
	point := must(kept.Point())
	fail := func(times int) {
		for range times {
			g := h.gate()
			e := h.ok(h.q[0].EnqueueMarker(ctx, g))
			require.NoError(t, g.SetStatus(outOfResources))
			_ = e.Wait(ctx)
			require.NoError(t, errors.Join(g.Release(), e.Release()))
		}
	}
	fail(1000)
	require.Equal(t, cause, kept.Err())
	late := h.ok(h.q[0].EnqueueMarker(ctx, kept))
	require.Equal(t, errors.Unwrap(cause), errors.Unwrap(late.Wait(ctx)))
	require.Equal(t, mem.OutOfResources, mem.StatusOf(gate.Err()), "a user event's too")
	require.NoError(t, errors.Join(late.Release(), kept.Release()))
	fail(1000)
	require.ErrorIs(t, point.Err(), mem.ErrFailed, "nobody names it now")
	require.False(t, point.Succeeded())
}
