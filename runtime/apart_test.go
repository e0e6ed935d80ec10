package runtime_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// TestARecordingApartLeavesItsQueuesAlone: they go on meanwhile, and others may take their places in a replay.
func TestARecordingApartLeavesItsQueuesAlone(t *testing.T) {
	h, k := graphHouse(t)
	ctx, q := soon(t), h.q[0]
	x, y := h.buffer(64, bytes.Repeat([]byte{1}, 64)), h.buffer(64, nil)
	rec := must(h.c.RecordApart(q, h.q[1]))
	apart := rec.Queues()
	first := must(apart[0].EnqueueLaunch(ctx, add(k, y, x, 1)))
	h.fill(0, x, 5)
	require.NoError(t, q.Finish(ctx), "q runs what it is given")
	second := must(apart[0].EnqueueLaunch(ctx, add(k, y, y, 10))) // in order, behind the first
	third := must(apart[1].EnqueueMarker(ctx))
	g := must(rec.Finish(ctx))
	for _, e := range []runtime.Event{first, second, third} {
		require.NoError(t, e.Release())
	}
	_, err := apart[0].EnqueueMarker(ctx)
	require.ErrorIs(t, err, mem.ErrInvalidQueue, "the recording is over")

	loose := h.queue(must(h.c.Device(1)), runtime.QueueOptions{OutOfOrder: true})
	straight := h.queue(must(h.c.Device(1)), runtime.QueueOptions{})
	for i, on := range [][]*runtime.Queue{nil, {straight, h.q[1]}, {loose, h.q[1]}, nil} {
		h.fill(0, x, byte(i))
		require.NoError(t, q.Finish(ctx))
		e := h.ok(g.Replay(ctx, h.q[1], runtime.Bindings{Queues: on}))
		require.NoError(t, e.Wait(ctx))
		h.has(q, y, byte(i+11))
	}
	require.EqualValues(t, 1, g.Figures().Plain, "only where the order of the queue is another's to keep: %s", g.Figures().Why)

	gate := h.gate()
	held := h.ok(loose.EnqueueFill(ctx, x, []byte{9}, 0, 64, gate))
	rec = must(h.c.RecordApart(loose))
	h.ok(rec.Queues()[0].EnqueueMarker(ctx))
	g = must(rec.Finish(ctx))
	points := make([]runtime.Event, 1)
	h.ok(g.Replay(ctx, straight, runtime.Bindings{Events: points}))
	require.NoError(t, points[0].Wait(ctx), "a recorded marker waits for its list alone")
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, held.Wait(ctx))
}

// TestALaunchOfAGraphIsChangedForGood is SetLaunch.
func TestALaunchOfAGraphIsChangedForGood(t *testing.T) {
	h, k := graphHouse(t)
	ctx, q := soon(t), h.q[0]
	x, y := h.buffer(64, bytes.Repeat([]byte{1}, 64)), h.buffer(64, nil)
	rec := must(h.c.RecordApart(q))
	h.ok(rec.Queues()[0].EnqueueLaunch(ctx, add(k, y, x, 1)))
	h.ok(rec.Queues()[0].EnqueueMarker(ctx))
	g := must(rec.Finish(ctx))
	for _, n := range []uint32{3, 4} {
		require.NoError(t, g.SetLaunch(0, add(k, y, x, n)))
		for range 2 {
			require.NoError(t, h.ok(g.Replay(ctx, q, runtime.Bindings{})).Wait(ctx))
			h.has(q, y, byte(n+1))
		}
	}
	require.Zero(t, g.Figures().Plain, g.Figures().Why)
	wide := add(k, y, x, 1)
	wide.Global = []uint64{0}
	few := add(k, y, x, 1)
	few.Args = few.Args[:2]
	for name, tc := range map[string]struct {
		call func() error
		want error
	}{
		"no such command":      {func() error { return g.SetLaunch(2, add(k, y, x, 1)) }, mem.ErrInvalidOperation},
		"a negative one":       {func() error { return g.SetLaunch(-1, add(k, y, x, 1)) }, mem.ErrInvalidOperation},
		"no launch":            {func() error { return g.SetLaunch(1, add(k, y, x, 1)) }, mem.ErrInvalidOperation},
		"another buffer":       {func() error { return g.SetLaunch(0, add(k, x, x, 1)) }, mem.ErrInvalidOperation},
		"a wrong index space":  {func() error { return g.SetLaunch(0, wide) }, mem.ErrGlobalSize},
		"too few arguments":    {func() error { return g.SetLaunch(0, few) }, mem.ErrKernelArgs},
		"a graph of nobody's":  {func() error { return new(runtime.Graph).SetLaunch(0, few) }, mem.ErrInvalidValue},
		"a queue too many":     {func() error { return replayOn(ctx, g, q, q, q) }, mem.ErrInvalidValue},
		"a queue of another":   {func() error { return replayOn(ctx, g, q, h.q[1]) }, mem.ErrInvalidDevice},
		"no queue":             {func() error { return replayOn(ctx, g, q, nil) }, mem.ErrInvalidQueue},
		"one of the recording": {func() error { return replayOn(ctx, g, q, rec.Queues()[0]) }, mem.ErrInvalidQueue},
		"a close of it":        {rec.Queues()[0].Close, mem.ErrInvalidQueue},
		"one queue twice":      {func() error { _, err := h.c.RecordApart(q, q); return err }, mem.ErrInvalidOperation},
	} {
		require.ErrorIs(t, tc.call(), tc.want, name)
	}
	require.NoError(t, h.ok(g.Replay(ctx, q, runtime.Bindings{})).Wait(ctx))
	h.has(q, y, 5)
}

func replayOn(ctx context.Context, g *runtime.Graph, q *runtime.Queue, on ...*runtime.Queue) error {
	_, err := g.Replay(ctx, q, runtime.Bindings{Queues: on})
	return err
}
