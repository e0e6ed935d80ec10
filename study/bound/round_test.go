package bound

import (
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// TestRoundIsTheLeastOfAllCopies searches all ways to copy one byte between up to four memories
// while commands use it, round after round: no way has fewer bytes a round in the long run, and
// some way has as few.
func TestRoundIsTheLeastOfAllCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memories := rapid.IntRange(1, 4).Draw(t, "memories")
		var commands [][]mem.Access
		for range rapid.IntRange(1, 8).Draw(t, "commands") {
			commands = append(commands, []mem.Access{{
				Buffer: 1, Range: mem.Range{End: 1},
				Memory: mem.MemoryID(rapid.IntRange(0, memories-1).Draw(t, "memory")),
				Mode:   mem.Mode(rapid.IntRange(0, 2).Draw(t, "mode")),
			}})
		}
		require.Equal(t, leastCopies(commands, memories), Round(func(m mem.MemoryID) mem.MemoryID { return m }, commands))
	})
}

// leastCopies is the least number of copies a round of one byte, by dynamic programming over
// the sets of memories that hold it, from the best set there is: over enough rounds, the last ones.
func leastCopies(commands [][]mem.Access, memories int) uint64 {
	const rounds = 12
	sets := 1 << memories
	cost := make([]int, sets)
	cost[0] = math.MaxInt / 2
	least := func() int {
		n := math.MaxInt
		for _, c := range cost {
			n = min(n, c)
		}
		return n
	}
	before := 0
	for round := range rounds {
		if round == rounds/2 {
			before = least()
		}
		for _, c := range commands {
			next := make([]int, sets)
			for i := range next {
				next[i] = math.MaxInt / 2
			}
			a := c[0]
			for from, have := range cost {
				for to := range sets {
					if to&from != from || a.Mode.Reads() && to>>a.Memory&1 == 0 {
						continue
					}
					end := to
					if a.Mode.Writes() {
						end = 1 << a.Memory
					}
					next[end] = min(next[end], have+bits.OnesCount(uint(to&^from)))
				}
			}
			cost = next
		}
	}
	return uint64(least()-before) / (rounds - rounds/2)
}

func TestRoundCountsEachPiece(t *testing.T) {
	access := func(m mem.MemoryID, mode mem.Mode, start, end uint64) mem.Access {
		return mem.Access{Buffer: 1, Memory: m, Mode: mode, Range: mem.Range{Start: start, End: end}}
	}
	self := func(m mem.MemoryID) mem.MemoryID { return m }
	commands := [][]mem.Access{
		{access(1, mem.Write, 0, 100)},
		{access(2, mem.Read, 50, 150)}, // 50 bytes; the rest nobody writes
		{access(2, mem.Read, 0, 60), access(3, mem.Read, 0, 10)},
	}
	require.EqualValues(t, 50+50+10, Round(self, commands))
	require.Zero(t, Round(func(m mem.MemoryID) mem.MemoryID { return 0 }, commands), "one store")
}
