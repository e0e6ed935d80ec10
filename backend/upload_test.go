package backend_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/backend"
	"godwit/mem"
	"godwit/runtime"
)

func TestStagedUploadsAreCopiesAndStagingIsUsedAgain(t *testing.T) {
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	defer func() { require.NoError(t, m.Close(ctx)) }()
	h, err := m.Default("tce")
	require.NoError(t, err)
	b, err := h.Context().CreateBuffer(1000, 0, nil)
	require.NoError(t, err)
	gate, err := h.Context().NewUserEvent()
	require.NoError(t, err)
	first, err := h.Queue().EnqueueBarrier(ctx, gate)
	require.NoError(t, err)
	require.NoError(t, first.Release())
	data := make([]byte, 1000)
	for i := range 10 { // none can end before the gate opens
		for j := range data {
			data[j] = byte(i)
		}
		e, err := h.UploadStaged(ctx, b, 0, data)
		require.NoError(t, err)
		require.NoError(t, e.Release())
	}
	require.Equal(t, uint64(10_000), h.StagingHeld())
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, gate.Release())
	require.NoError(t, h.Queue().Finish(ctx))
	got := make([]byte, 1000)
	e, err := h.Queue().EnqueueRead(ctx, b, 0, got)
	require.NoError(t, err)
	require.NoError(t, e.Wait(ctx))
	require.NoError(t, e.Release())
	require.Equal(t, byte(9), got[0])
	require.Equal(t, byte(9), got[999])
	for range 100 {
		e, err := h.UploadStaged(ctx, b, 0, data)
		require.NoError(t, err)
		require.NoError(t, e.Wait(ctx))
		require.NoError(t, e.Release())
	}
	require.Equal(t, uint64(10_000), h.StagingHeld(), "nothing new was needed")
	_, err = h.UploadStaged(ctx, b, 0, make([]byte, 1001))
	require.Error(t, err)
	_, err = h.Upload(ctx, b, 0, make([]byte, 1001))
	require.ErrorIs(t, err, mem.ErrInvalidSize)
	require.NoError(t, b.Release())
}
