package bufalloc

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// A full region has no hole; the one that growing brings is the first of its bin
// and starts where nodes[0] had its address.
func TestAFullRegionGrows(t *testing.T) {
	for _, size := range []uint64{1, 1000} {
		r := newRegion(t, 64, size, Options{})
		alloc(t, r, size, 1)
		require.NoError(t, r.Grow(1))
		require.NoError(t, r.Check())
		alloc(t, r, 1, 1)
		require.NoError(t, r.Check())
	}
}

func TestReserveGrowShrink(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 1000, 4096, Options{Strategy: s})
		if x, _ := s.info(); x.grid {
			_, err := r.Reserve(1000, 1)
			require.ErrorIs(t, err, mem.ErrInvalidOperation)
			require.ErrorIs(t, r.Grow(1), mem.ErrInvalidOperation)
			require.ErrorIs(t, r.Shrink(1), mem.ErrInvalidOperation)
			return
		}
		pin, err := r.Reserve(2000, 96)
		require.NoError(t, err)
		for _, x := range [][2]uint64{{1990, 20}, {2000, 1}, {2095, 2}, {1000, 4096}} {
			_, err := r.Reserve(x[0], x[1])
			require.ErrorIs(t, err, ErrInUse, "%v", x)
		}
		for _, x := range [][2]uint64{{999, 2}, {5096, 1}, {5095, 2}, {1000, 0}, {math.MaxUint64, 2}} {
			_, err := r.Reserve(x[0], x[1])
			require.ErrorIs(t, err, mem.ErrInvalidValue, "%v", x)
		}
		require.NoError(t, r.Check())
		require.ErrorIs(t, r.Shrink(3001), ErrInUse)
		require.ErrorIs(t, r.Shrink(4096), mem.ErrInvalidSize)
		require.ErrorIs(t, r.Shrink(0), mem.ErrInvalidSize)
		require.NoError(t, r.Shrink(3000))
		require.NoError(t, r.Check())
		require.Zero(t, r.Tail())
		require.Equal(t, uint64(1096), r.Size())
		_, err = r.Alloc(1001, 1)
		require.ErrorIs(t, err, mem.ErrNoMemory)
		require.NoError(t, r.Grow(2000))
		require.NoError(t, r.Grow(500))
		require.NoError(t, r.Check())
		require.Equal(t, uint64(2500), r.Tail())
		alloc(t, r, 2048, 1)
		require.ErrorIs(t, r.Grow(0), mem.ErrInvalidSize)
		require.ErrorIs(t, r.Grow(1<<63), mem.ErrInvalidSize)
		require.NoError(t, r.Free(pin))
		require.NoError(t, r.Check())
	})
	r := newRegion(t, math.MaxUint64-100, 50, Options{})
	require.ErrorIs(t, r.Grow(51), mem.ErrInvalidValue)
	require.NoError(t, r.Grow(50))
}
