package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// TestWhoeverSeesAFailureFindsItSettled looks at commands that fail without
// waiting for them: from the moment a failure shows, the planner must know it,
// and so must Finish.
func TestWhoeverSeesAFailureFindsItSettled(t *testing.T) {
	devs, fs := failing(1)
	fs[0].slow = 2 * time.Millisecond // the moment in which it could go wrong
	h := build(t, runtime.Options{Devices: devs}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	b := h.buffer(64, nil)
	hook := everything
	for range 10 {
		fs[0].fail.Store(&hook)
		e := h.ok(q.EnqueueFill(ctx, b, []byte{1}, 0, 64))
		for s := runtime.Submitted; s > runtime.Complete; {
			s = must(e.Status())
			require.NoError(t, ctx.Err())
		}
		fs[0].fail.Store(nil)
		segments := must(b.Segments())
		require.NotNil(t, segments[0].Poison, "the failure shows, the poison does not")
		require.ErrorIs(t, q.Finish(context.Background()), errInjected)
		_, err := q.EnqueueRead(ctx, b, 0, make([]byte, 8))
		require.ErrorIs(t, err, mem.ErrPoisoned)
		require.NoError(t, e.Release())
	}
}
