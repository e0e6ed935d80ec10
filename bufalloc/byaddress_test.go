package bufalloc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// firstByWalk is what first fit finds, by a walk over all nodes.
func firstByWalk(r *Region, size, align uint64) uint32 {
	for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
		if n := &r.nodes[i]; !n.live() && holds(n, size, align) {
			return i
		}
	}
	return 0
}

func TestTheTreeFindsTheFirstHole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(newRegion0(t, 1<<16, Tight))
		f := p.r.placer.(*firstFit)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			require.NoError(t, p.step(rapid.Byte().Draw(t, "op"), rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")))
			size, align := uint64(rapid.IntRange(1, 1<<13).Draw(t, "size")), uint64(1)<<rapid.IntRange(0, 10).Draw(t, "align")
			i, _, _ := f.find(p.r, size, align)
			require.Equal(t, firstByWalk(p.r, size, align), i)
		}
	})
}

func newRegion0(t *rapid.T, size uint64, s Strategy) *Region {
	r, err := NewRegion(0, size, Options{Strategy: s})
	require.NoError(t, err)
	return r
}

// What Tight does in a region it does in every larger one, so that the smallest that
// works is safe; and it works in every region that reaches to its highest chunk.
func TestTightDoesTheSameInEveryRegion(t *testing.T) {
	require.True(t, Tight.Monotone())
	require.False(t, Fit.Monotone())
	type op struct{ size, slot uint64 }
	play := func(t *rapid.T, ops []op, region uint64) (addrs []uint64, ok bool, high uint64) {
		r := newRegion0(t, region, Tight)
		held := map[uint64]Chunk{}
		for _, o := range ops {
			if c, live := held[o.slot]; live {
				require.NoError(t, r.Free(c))
				delete(held, o.slot)
				continue
			}
			c, err := r.Alloc(o.size, 1)
			if err != nil {
				return addrs, false, 0
			}
			held[o.slot] = c
			at, err := r.Addr(c)
			require.NoError(t, err)
			addrs = append(addrs, at)
		}
		return addrs, true, r.Stats().HighWater
	}
	rapid.Check(t, func(t *rapid.T) {
		var ops []op
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			ops = append(ops, op{uint64(rapid.IntRange(1, 1000).Draw(t, "size")), uint64(rapid.IntRange(0, 30).Draw(t, "slot"))})
		}
		want, ok, high := play(t, ops, 1<<40)
		require.True(t, ok)
		got, ok, _ := play(t, ops, high+rapid.Uint64Range(0, 2*high).Draw(t, "more"))
		require.True(t, ok)
		require.Equal(t, want, got)
		if less := rapid.Uint64Range(0, high-1).Draw(t, "less"); less > 0 {
			got, ok, _ = play(t, ops, less)
			require.False(t, ok)
			for i := range got {
				require.Equal(t, want[i], got[i])
			}
		}
	})
}
