package pairs_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/pairs"
)

func TestATableHoldsWhatWasPutThere(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 70} {
		tab := pairs.Make[int](n)
		require.Nil(t, tab.Peek(0, n-1))
		want := make(map[[2]int]int)
		for i := 0; i < n*n; i += 7 {
			*tab.At(i/n, i%n) = i + 1
			want[[2]int{i / n, i % n}] = i + 1
		}
		last := [2]int{-1, 0}
		for at, v := range tab.All() {
			require.True(t, at[0] > last[0] || at[0] == last[0] && at[1] > last[1], "in order")
			require.Less(t, at[1], n)
			require.Equal(t, want[at], *v)
			require.Equal(t, want[at], tab.Get(at[0], at[1]))
			delete(want, at)
			last = at
		}
		require.Empty(t, want)
	}
}

// TestAnEntryIsMadeOnce, whoever asks for it first.
func TestAnEntryIsMadeOnce(t *testing.T) {
	tab := pairs.Make[int](3)
	var at [8]*int
	var all sync.WaitGroup
	for i := range at {
		all.Go(func() { at[i] = tab.At(2, 1) })
	}
	all.Wait()
	for _, p := range at {
		require.Same(t, at[0], p)
	}
}
