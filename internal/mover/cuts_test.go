package mover

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// TestCutsAreTheRange: whatever its size and chunk, a chain's chunks are its range, each byte once, none
// longer than a chunk, and each route counts its own.
func TestCutsAreTheRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := ring{
			way: rapid.SampledFrom([]mem.Way{mem.Ring, mem.Windows, mem.Linked}).Draw(t, "way"), n: 1,
			size: rapid.Uint64Range(1, 64*pageSize).Draw(t, "size"), chunk: pageSize * rapid.Uint64Range(1, 20).Draw(t, "pages"),
		}
		x.mixed = x.way == mem.Windows && rapid.Bool().Draw(t, "mixed")
		x.planCuts()
		var bytes [routes]uint64
		var turns [routes]int
		seen := make(map[uint64]uint64) // end by start
		for _, c := range x.chain.cuts {
			require.Positive(t, c.size)
			require.LessOrEqual(t, c.size, x.chunk)
			require.Equal(t, turns[c.route], c.turn)
			require.NotContains(t, seen, c.off)
			turns[c.route]++
			bytes[c.route] += c.size
			seen[c.off] = c.off + c.size
		}
		at := uint64(0)
		for range x.chain.cuts {
			require.Contains(t, seen, at)
			at = seen[at]
		}
		require.Equal(t, x.size, at)
		if !x.mixed {
			require.Zero(t, bytes[pushed]+bytes[pulled])
			return
		}
		require.Zero(t, bytes[straight])
		slots, stages := x.wantsSlots()
		require.EqualValues(t, max(turns[pushed], turns[pulled]), slots)
		if x.size > x.chunk && x.size >= 2*pageSize {
			require.InDelta(t, bytes[pushed], bytes[pulled], 2*pageSize, "the halves")
			require.Equal(t, 2, stages)
		}
	})
}
