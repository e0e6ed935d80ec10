package yardstick

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// check tests the tiling, the bins and the bitmaps.
func (a *Allocator) check(t *testing.T, live map[uint32]uint64) {
	t.Helper()
	var at uint64
	chunks, holes := 0, 0
	for i, p := a.nodes[0].next, uint32(0); i != 0; p, i = i, a.nodes[i].next {
		n := a.nodes[i]
		require.Equal(t, at, n.addr)
		require.Equal(t, p, n.prev)
		at += n.size
		if n.a == used {
			require.Equal(t, live[i], n.size)
			chunks++
		} else {
			require.False(t, p != 0 && a.nodes[p].a != used, "neighbouring holes")
			holes++
		}
	}
	require.Equal(t, a.size, at)
	require.Len(t, live, chunks)
	for bin, h := range a.head {
		o, s := bin>>subBits, bin&(1<<subBits-1)
		if (h != 0) != (a.sub[o]>>s&1 == 1) || (a.sub[o] != 0) != (a.top>>o&1 == 1) {
			t.Fatalf("bin %d starts with hole %d: bitmaps %#x, %#x", bin, h, a.top, a.sub[o])
		}
		for p := uint32(0); h != 0; p, h = h, a.nodes[h].b {
			require.EqualValues(t, bin, binOf(a.nodes[h].size))
			require.Equal(t, p, a.nodes[h].a)
			holes--
		}
	}
	require.Zero(t, holes)
}

func TestRandomUseKeepsTheTilingAndTheBins(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	a := New(1<<14, 4)
	live := make(map[uint32]uint64)
	var order []uint32
	failed := 0
	for range 3000 {
		if len(order) > 0 && rng.IntN(5) < 2 {
			k := rng.IntN(len(order))
			a.Free(order[k])
			delete(live, order[k])
			order = append(order[:k], order[k+1:]...)
		} else {
			size := rng.Uint64N(1<<rng.UintN(14)) + 1
			if i := a.Alloc(size); i == None {
				failed++
			} else {
				live[i] = size
				order = append(order, i)
			}
		}
		a.check(t, live)
	}
	require.Positive(t, failed)
	for _, i := range order {
		a.Free(i)
	}
	a.check(t, nil)
	require.Equal(t, uint32(None), a.Alloc(1<<14+1))
	require.Equal(t, uint32(None), a.Alloc(1<<63+1))
	i := a.Alloc(1 << 14)
	require.NotZero(t, i)
	require.Zero(t, a.Addr(i))
	a.Reset()
	a.check(t, nil)
}

func TestNodesAreAsLargeAsBufallocs(t *testing.T) {
	require.EqualValues(t, 32, unsafe.Sizeof(node{}))
}
