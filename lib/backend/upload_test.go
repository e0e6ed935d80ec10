package backend_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/lib/backend"
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
	require.Equal(t, uint64(10*1024), h.StagingHeld())
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
	require.Equal(t, uint64(10*1024), h.StagingHeld(), "nothing new was needed")
	_, err = h.UploadStaged(ctx, b, 0, make([]byte, 1001))
	require.Error(t, err)
	_, err = h.Upload(ctx, b, 0, make([]byte, 1001))
	require.ErrorIs(t, err, mem.ErrInvalidSize)
	require.NoError(t, b.Release())
}

func TestUploadsOfManyPiecesArriveWhole(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"cpu", "tce", "cl"} {
		t.Run(name, func(t *testing.T) {
			m := backend.NewManager(backend.Options{})
			defer func() { require.NoError(t, m.Close(ctx)) }()
			h, err := m.Default(name)
			if errors.Is(err, mem.ErrDeviceNotFound) {
				t.Skip(err)
			}
			require.NoError(t, err)
			const n = 9<<20 + 123
			b, err := h.Context().CreateBuffer(n+5, 0, nil)
			require.NoError(t, err)
			data, got := make([]byte, n), make([]byte, n)
			for i, put := range []func(context.Context, *runtime.Buffer, uint64, []byte) (runtime.Event, error){h.UploadStaged, h.UploadPinned, h.Upload} {
				for j := range data {
					data[j] = byte(j>>12 + j + i)
				}
				e, err := put(ctx, b, 5, data)
				require.NoError(t, err)
				want := append([]byte(nil), data...)
				if i < 2 {
					clear(data) // staged: it is ours again
				}
				require.NoError(t, e.Wait(ctx))
				require.NoError(t, e.Release())
				e, err = h.Queue().EnqueueRead(ctx, b, 5, got)
				require.NoError(t, err)
				require.NoError(t, e.Wait(ctx))
				require.NoError(t, e.Release())
				require.True(t, bytes.Equal(want, got), "way %d", i)
			}
			require.Positive(t, h.StagingHeld())
			require.NoError(t, b.Release())
		})
	}
}

func TestEverythingIsReachableFromAHandle(t *testing.T) {
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	require.NoError(t, err)
	bounded, err := h.BoundedPool()
	require.NoError(t, err)
	again, err := h.BoundedPool()
	require.NoError(t, err)
	require.Same(t, bounded, again)
	loan, err := bounded.Get(ctx, h.Queue(), 1000, 0)
	require.NoError(t, err)
	require.NoError(t, bounded.Put(loan))
	a, err := h.Allocator()
	require.NoError(t, err)
	x, err := a.Allocate(ctx, 5000, "x")
	require.NoError(t, err)
	figures, ok := a.Stats()
	require.True(t, ok, "the context has the stack")
	require.EqualValues(t, 5000, figures.Allocated.Current)
	require.NoError(t, x.Release())
	p, err := h.PinnedPool()
	require.NoError(t, err)
	same, err := h.PinnedPool()
	require.NoError(t, err)
	require.Same(t, p, same)
	pinned, err := p.Get(ctx, h.Queue(), 1000)
	require.NoError(t, err)
	require.Len(t, pinned.Bytes(), 1000)
	require.NoError(t, p.Put(pinned))
	require.NotEmpty(t, p.Locking().Why, "an integrated device needs none")
	require.NoError(t, m.Close(ctx))
}
