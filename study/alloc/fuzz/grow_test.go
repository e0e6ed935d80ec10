package fuzz

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc"
	"godwit/study/alloc/replay"
)

// A growth knows what its genome does.
func TestAGrowthCountsWhatItsGenomeExpresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 300).Draw(t, "limit")
		genome := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "genome")
		g := &growth{}
		for i := 0; i+geneBytes <= len(genome) && len(g.ops) < limit; i += geneBytes {
			g.add(genome[i:i+geneBytes], limit)
		}
		ops := express(genome, limit)
		require.Equal(t, ops, g.ops)
		held := make(map[uint32]uint64)
		var sum, peak, largest uint64
		for _, op := range ops {
			sum -= held[op.Slot]
			held[op.Slot] = op.Size / unit
			sum += op.Size / unit
			peak, largest = max(peak, sum), max(largest, op.Size/unit)
		}
		require.Equal(t, []uint64{sum, peak}, []uint64{g.sum, g.peak})
		if len(g.ops) < limit {
			require.Equal(t, largest, g.largest)
		}
	})
}

// What has grown keeps its beginning, ends within the limit, and needs no more room
// at its peak.
func TestGrowingKeepsThePeak(t *testing.T) {
	s := &searcher{o: Options{Subject: replay.Of(bufalloc.Fit), Ops: 200}}
	s.rng = newRand(s.o)
	for range 200 {
		parent := s.random()
		child := s.grow(parent)
		before, after := &growth{}, &growth{}
		for i := 0; i < len(parent); i += geneBytes {
			before.add(parent[i:i+geneBytes], s.o.Ops)
		}
		for i := 0; i < len(child); i += geneBytes {
			after.add(child[i:i+geneBytes], s.o.Ops)
		}
		assert.LessOrEqual(t, after.peak, before.peak)
		assert.LessOrEqual(t, len(express(child, s.o.Ops)), s.o.Ops)
	}
}
