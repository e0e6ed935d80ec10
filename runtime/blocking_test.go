package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// TestABlockingCallWhoseContextEndsSaysSo: the command was accepted, and its memory is in
// use until it has ended; who takes the bytes for read would read what is not there.
func TestABlockingCallWhoseContextEndsSaysSo(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	b := h.create(4, 0, []byte{1, 2, 3, 4})
	for _, call := range []func(context.Context, *runtime.Buffer, uint64, []byte, ...runtime.Event) (runtime.Event, error){q.BlockingRead, q.BlockingWrite} {
		gate := h.gate()
		gone, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		e, err := call(gone, b, 0, make([]byte, 4), gate)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, e.IsZero(), "it is accepted all the same")
		require.NoError(t, gate.SetStatus(runtime.Complete))
		require.NoError(t, e.Wait(ctx))
		require.NoError(t, e.Release())

		gate = h.gate()
		require.NoError(t, gate.SetStatus(-7))
		e, err = call(ctx, b, 0, make([]byte, 4), gate)
		require.NoError(t, err, "a failure is the event's to tell")
		require.ErrorIs(t, e.Wait(ctx), mem.ErrDependency)
	}
	require.NoError(t, b.Release())
}
