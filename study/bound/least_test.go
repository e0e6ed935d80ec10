package bound

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// drawMemory is a memory that has seen some commands on a few buffers.
func drawMemory(t *rapid.T) *memory {
	a := New(mem.NewTopology("a"), []uint64{0, 24}, 0)
	const buffers = 8
	for i := range buffers {
		require.NoError(t, a.Create(mem.BufferID(i+1), uint64(2+2*(i%3)), true))
	}
	for range rapid.IntRange(5, 60).Draw(t, "commands") {
		var accs []mem.Access
		for range rapid.IntRange(1, 3).Draw(t, "accesses") {
			id := mem.BufferID(rapid.IntRange(1, buffers).Draw(t, "buffer"))
			mode := rapid.SampledFrom([]mem.Mode{mem.Read, mem.ReadWrite}).Draw(t, "mode")
			accs = append(accs, mem.Access{Buffer: id, Range: mem.Range{End: uint64(rapid.IntRange(1, 2).Draw(t, "end"))}, Mode: mode, Memory: 1})
		}
		require.NoError(t, a.Command(accs))
	}
	return a.mems[1]
}

// TestTheFlowsPricesProveTheMost: any prices prove a bound, and the flow's the
// highest, which is what the flow itself costs.
func TestTheFlowsPricesProveTheMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMemory(t)
		gaps, claims := m.gaps()
		if len(gaps) == 0 {
			t.Skip("nothing to lose")
		}
		p := newProblem(m, gaps, claims)
		best := p.round()
		require.InDelta(t, p.paid(), best, 1)
		for i := range p.prices {
			p.prices[i] = max(0, p.prices[i]+int64(rapid.IntRange(-scale, scale).Draw(t, "price")))
		}
		require.LessOrEqual(t, p.proven(), best)
	})
}

// paid is what the flow's choice of blocks costs, in bytes.
func (p *problem) paid() (cost float64) {
	for i, g := range p.gaps {
		cost += float64(p.costs[i]) * (1 - float64(p.flow.arcs[p.chords[i]].flow)/float64(g.size))
	}
	return cost
}

// TestTheFlowIsOne: what the network simplex method leaves is a flow within its
// limits, of what goes over the line.
func TestTheFlowIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMemory(t)
		gaps, claims := m.gaps()
		if len(gaps) == 0 {
			t.Skip("nothing to lose")
		}
		p := newProblem(m, gaps, claims)
		for r := range 5 {
			p.round()
			p.share(2 / float64(r+3))
			through := make([]int64, len(p.room)) // by piece of time
			for _, a := range p.flow.arcs {
				require.GreaterOrEqual(t, a.flow, int64(0))
				require.LessOrEqual(t, a.flow, a.limit)
				for i := a.tail; i < a.head; i++ {
					through[i] += a.flow
				}
			}
			for i, room := range p.room {
				require.EqualValues(t, room, through[i])
			}
			for i, c := range p.claims { // a claim counts once, however it is shared out
				var sum uint64
				for _, s := range p.shares[i] {
					sum += s
				}
				require.Equal(t, c.bytes, sum)
			}
		}
	})
}
