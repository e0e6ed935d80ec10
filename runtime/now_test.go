package runtime_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// Read and Write are what EnqueueRead and EnqueueWrite are, waited for, and leave no event.
func TestReadsAndWritesWithoutEvents(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{})
	ctx := soon(t)
	b := h.create(64, 0, nil)
	want, got := []byte{1, 2, 3, 4}, make([]byte, 4)
	require.NoError(t, h.q[0].Write(ctx, b, 8, want))
	require.NoError(t, h.q[1].Read(ctx, b, 8, got))
	require.Equal(t, want, got)

	require.ErrorIs(t, h.q[0].Read(ctx, b, 61, got), mem.ErrInvalidValue)
	require.ErrorIs(t, h.q[0].Write(ctx, b, 61, got), mem.ErrInvalidValue)
	require.ErrorIs(t, h.q[0].Read(ctx, nil, 0, got), mem.ErrInvalidBuffer)
	sealed := h.create(64, runtime.HostNoAccess, nil)
	require.ErrorIs(t, h.q[0].Read(ctx, sealed, 0, got), mem.ErrInvalidOperation)
	require.ErrorIs(t, h.q[0].Write(ctx, sealed, 0, got), mem.ErrInvalidOperation)

	gate := h.gate()
	failed := make(chan error, 1)
	go func() { failed <- h.q[0].Write(ctx, b, 8, []byte{9, 9, 9, 9}, gate) }()
	require.NoError(t, gate.SetStatus(-7))
	err := <-failed
	require.ErrorIs(t, err, mem.ErrDependency)
	require.False(t, errors.Is(err, mem.ErrInvalidValue))
	require.Equal(t, mem.Status(-14), mem.StatusOf(err))
	require.ErrorIs(t, h.q[1].Read(ctx, b, 8, got), mem.ErrPoisoned)
	require.NoError(t, h.q[1].Write(ctx, b, 8, want))
	require.NoError(t, h.q[0].Read(ctx, b, 8, got))
	require.Equal(t, want, got)
	require.NoError(t, b.Release())
	require.NoError(t, sealed.Release())
}
