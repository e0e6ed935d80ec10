package bufalloc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// Chunks of two classes come in turns and go class by class: beside their like
// they leave one hole, in the order of their coming they leave many.
func TestClassesLieTogether(t *testing.T) {
	holes := func(hint func(i int) mem.Hint) int {
		r := newRegion(t, 0, 1<<30, Options{})
		var held []Chunk
		for i := range 64 {
			c, err := r.AllocHint(4096, 1, hint(i))
			require.NoError(t, err)
			held = append(held, c)
		}
		for i := 0; i < len(held); i += 2 {
			require.NoError(t, r.Free(held[i]))
		}
		require.NoError(t, r.Check())
		return r.Stats().Holes
	}
	require.Greater(t, holes(func(int) mem.Hint { return 0 }), 20)
	require.LessOrEqual(t, holes(func(i int) mem.Hint { return mem.Together(uint32(i % 2)) }), 3)
	require.LessOrEqual(t, holes(func(i int) mem.Hint { return mem.Lives(uint64(64 + i%2*1_000_000 - i)) }), 3)
}

// Hints that prove wrong are followed no more until they are right again.
func TestHintsHaveToProveTrue(t *testing.T) {
	r := newRegion(t, 0, 1<<20, Options{})
	live := func(said mem.Hint, really int) {
		c, err := r.AllocHint(64, 1, said)
		require.NoError(t, err)
		for range really {
			x := alloc(t, r, 64, 1)
			require.NoError(t, r.Free(x))
		}
		require.NoError(t, r.Free(c))
	}
	live(mem.Lives(8), 4)
	require.GreaterOrEqual(t, r.lives.trust, believe)
	live(mem.Lives(1000), 4)
	require.Less(t, r.lives.trust, believe, "one lie outweighs what was proven so far")
	for range 20 {
		live(mem.Lives(1000), 4)
	}
	require.Zero(t, r.lives.trust)
	for range believe {
		live(mem.Lives(8), 4)
	}
	require.Equal(t, believe, r.lives.trust)
	require.NoError(t, r.Check())
}

func TestRequestsOfOneHintArePlacedTogetherAndRemembered(t *testing.T) {
	r := newRegion(t, 0, 1<<20, Options{})
	out := make([]Chunk, 2)
	require.NoError(t, r.AllocAll([]mem.Request{{Size: 64, Hint: mem.Together(3)}, {Size: 64, Hint: mem.Together(3)}}, out))
	require.Equal(t, mem.Together(3), r.lives.said[out[1].index].class)
	require.Zero(t, r.hint)
}
