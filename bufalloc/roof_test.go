package bufalloc_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
)

// TestARegionAtTheEndOfTheAddressesPlacesAsOneAtZero does, by the roof too.
func TestARegionAtTheEndOfTheAddressesPlacesAsOneAtZero(t *testing.T) {
	const size = 1 << 20
	const base = math.MaxUint64 - size - 4095
	low, err := bufalloc.NewRegion(0, size, bufalloc.Options{})
	require.NoError(t, err)
	high, err := bufalloc.NewRegion(base, size, bufalloc.Options{})
	require.NoError(t, err)
	var a, b []bufalloc.Chunk
	dice := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		if k := len(a); k > 0 && dice.IntN(20) < 9 {
			i := dice.IntN(k)
			require.NoError(t, low.Free(a[i]))
			require.NoError(t, high.Free(b[i]))
			a[i], b[i] = a[k-1], b[k-1]
			a, b = a[:k-1], b[:k-1]
			continue
		}
		n := 1 + dice.Uint64N(8<<10)
		x, err := low.Alloc(n, 1)
		y, again := high.Alloc(n, 1)
		require.Equal(t, err == nil, again == nil)
		if err == nil {
			at, err := low.Addr(x)
			require.NoError(t, err)
			there, err := high.Addr(y)
			require.NoError(t, err)
			require.Equal(t, at, there-high.Base())
			a, b = append(a, x), append(b, y)
		}
	}
}
