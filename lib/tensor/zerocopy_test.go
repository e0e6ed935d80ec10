package tensor_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/lib/tensor"
	"godwit/runtime"
)

func TestZeroCopyIsTheSliceItselfWhereTheDeviceSharesIt(t *testing.T) {
	everywhere(t, func(b *bench) {
		data := []float32{1, 2, 3, 4, 5, 6}
		before := b.h.Context().Stats()
		x := up(b, data, tensor.Shape(2, 3), tensor.ZeroCopy())
		require.NoError(b, x.Ready(b.ctx))
		if !b.h.SharesStorage() {
			require.Equal(b, []float32{1, 2, 3, 4, 5, 6}, down[float32](b, x))
			require.NoError(b, x.Release())
			return
		}
		m, err := b.h.Queue().Map(b.ctx, x.Buffer(), 0, 24, runtime.MapRead)
		require.NoError(b, err)
		require.Equal(b, unsafe.Pointer(&data[0]), unsafe.Pointer(&m.Bytes()[0]), "one storage")
		e, err := b.h.Queue().EnqueueUnmap(b.ctx, m)
		require.NoError(b, err)
		require.NoError(b, e.Release())
		require.NoError(b, tensor.ScaleInto(b.ctx, x, x, 10))
		require.NoError(b, b.h.Queue().Finish(b.ctx))
		require.Equal(b, []float32{10, 20, 30, 40, 50, 60}, data, "a kernel wrote to the slice")
		require.Equal(b, before.BytesMoved, b.h.Context().Stats().BytesMoved)
		require.Zero(b, b.h.Pool().Stats().Misses, "no buffer was made")
		require.NoError(b, x.Release())
	})
}

func TestPinnedStagesWhateverTheDeviceIs(t *testing.T) {
	everywhere(t, func(b *bench) {
		data := make([]float32, 3<<20)
		for i := range data {
			data[i] = float32(i)
		}
		x := up(b, data, tensor.Pinned(), tensor.Async())
		first := data[5]
		clear(data)
		got := down[float32](b, x)
		require.Equal(b, first, got[5])
		require.Equal(b, float32(3<<20-1), got[3<<20-1])
		require.GreaterOrEqual(b, b.h.StagingHeld(), uint64(4<<20))
		require.NoError(b, x.Release())
	})
}
