package eviction_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/eviction"
	"godwit/mem"
)

// TestARoundGoesOnFromItsBegin: what the next round needs first stays, of blocks alike.
func TestARoundGoesOnFromItsBegin(t *testing.T) {
	p := eviction.NewRound(4, func(m mem.MemoryID) mem.MemoryID { return m })
	for n, b := range []mem.BufferID{1, 2, 3, 4} {
		p.Command(n, mem.Access{Buffer: b, Memory: 1, Range: mem.Range{End: 8}, Mode: mem.Read})
	}
	score := func(b mem.BufferID, fresh, back, used uint64) float64 {
		return p.Score(100, &eviction.Candidate{Buffer: b, Memory: 1, Range: mem.Range{End: 8}, Fresh: fresh, Back: back, Used: used})
	}
	p.At(2)
	require.Less(t, score(2, 8, 0, 99), score(1, 8, 0, 99), "2 was used last, and is needed last")
	require.Less(t, score(1, 8, 0, 99), score(4, 8, 0, 99), "1 is needed in the next round")
	p.At(0)
	require.Less(t, score(4, 8, 0, 99), score(1, 8, 0, 99))
	require.Less(t, score(1, 8, 0, 99), score(1, 8, 8, 99), "to be written back costs")
	require.Zero(t, score(9, 0, 0, 50), "no content, and no command of the round")
	require.Less(t, score(9, 8, 0, 10), score(9, 8, 0, 90), "what no command of the round uses goes by its age")
	require.Equal(t, eviction.Belady, p.Name())
}
