package bufalloc

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestReserve(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 1000, 4096, Options{Strategy: s})
		if x, _ := s.info(); x.grid {
			_, err := r.Reserve(1000, 1)
			require.ErrorIs(t, err, mem.ErrInvalidOperation)
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
		require.NoError(t, r.Free(pin))
		require.NoError(t, r.Check())
	})
}
