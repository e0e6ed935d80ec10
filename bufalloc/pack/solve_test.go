package pack_test

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc/pack"
	"godwit/mem"
)

func TestMinimizeFindsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t, 7)
		r, err := pack.Minimize(context.Background(), items, pack.Options{})
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, items, r)
		if len(items) == 0 {
			return
		}
		if want := optimum(items); r.Height != want || !r.Proven {
			t.Fatalf("height %d (proven %v), brute force finds %d", r.Height, r.Proven, want)
		}
	})
}

func TestACapacityIsMetOrProvedTooSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t, 7)
		if len(items) == 0 {
			return
		}
		want := optimum(items)
		for capacity := max(want-min(want, 3), 1); capacity <= want+2; capacity++ {
			r, err := pack.Minimize(context.Background(), items, pack.Options{Capacity: capacity})
			mustHold(t, items, r)
			if err != nil || capacity >= want && r.Height > capacity || capacity < want && r.Bound <= capacity {
				t.Fatalf("capacity %d of %d: height %d, bound %d, %v", capacity, want, r.Height, r.Bound, err)
			}
		}
	})
}

// Guillotine cuts of a rectangle leave no byte unused at any time: the hardest
// feasible instances, with a known optimum.
func TestPerfectPackings(t *testing.T) {
	for seed := range uint64(20) {
		items := cut(rand.New(rand.NewPCG(seed, 1)), 0, 1000, 1000, 24)
		r, err := pack.Minimize(t.Context(), items, pack.Options{Capacity: 1000, Nodes: 2_000_000})
		require.NoError(t, err, "seed %d", seed)
		mustHold(t, items, r)
		require.True(t, r.Proven)
	}
}

// cut splits [lower, upper) x size into n items.
func cut(rng *rand.Rand, lower, upper, size uint64, n int) []pack.Item {
	if n == 1 || upper-lower < 2 || size < 2 {
		return []pack.Item{{Lower: lower, Upper: upper, Size: size}}
	}
	left := 1 + rng.IntN(n-1)
	if rng.IntN(2) == 0 {
		at := lower + 1 + rng.Uint64N(upper-lower-1)
		return append(cut(rng, lower, at, size, left), cut(rng, at, upper, size, n-left)...)
	}
	at := 1 + rng.Uint64N(size-1)
	return append(cut(rng, lower, upper, at, left), cut(rng, lower, upper, size-at, n-left)...)
}

// The node budgets are about three times what the search needs, so that a
// change that makes it much weaker shows.
func TestMiniMalloc(t *testing.T) {
	for name, nodes := range map[string]uint64{"A": 200_000, "B": 5_000, "C": 15_000, "D": 45_000} {
		t.Run(name, func(t *testing.T) {
			items := miniMalloc(t, name)
			r, err := pack.Minimize(t.Context(), items, pack.Options{Capacity: miniCapacity, Nodes: nodes})
			require.NoError(t, err)
			require.NoError(t, pack.Verify(items, r.Offsets))
			require.LessOrEqual(t, r.Height, uint64(miniCapacity))
		})
	}
}

func TestSoakMiniMalloc(t *testing.T) {
	soak(t)
	for _, name := range []string{"A", "B", "C", "D", "E"} {
		items := miniMalloc(t, name)
		r, err := pack.Minimize(t.Context(), items, pack.Options{Capacity: miniCapacity, Nodes: 20_000_000})
		require.NoError(t, err, name)
		require.LessOrEqual(t, r.Height, uint64(miniCapacity), name)
		mustHold(t, items, r)
	}
}

func TestSoakMinimizePyTorch(t *testing.T) {
	soak(t)
	for _, name := range []string{"resnet50-train", "gpt2-train", "llama-generate"} {
		items := pytorch(t, name)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := pack.Minimize(ctx, items, pack.Options{})
		cancel()
		require.NoError(t, err, name)
		require.NoError(t, pack.Verify(items, r.Offsets))
		require.Less(t, float64(r.Height), 1.01*float64(r.Bound), name)
	}
}

func soak(t *testing.T) {
	if os.Getenv("GODWIT_SOAK") == "" {
		t.Skip("GODWIT_SOAK is not set")
	}
}

func TestTheSameBudgetGivesTheSameResult(t *testing.T) {
	items := miniMalloc(t, "E")
	var want pack.Result
	for k := range 2 {
		r, err := pack.Minimize(t.Context(), items, pack.Options{Nodes: 50_000})
		require.NoError(t, err)
		require.LessOrEqual(t, r.Nodes, uint64(50_000))
		mustHold(t, items, r)
		if k == 0 {
			want = r
		}
		require.Equal(t, want, r)
	}
}

func TestAnEndedContextStillGivesAPlacement(t *testing.T) {
	items := miniMalloc(t, "A")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := pack.Minimize(ctx, items, pack.Options{})
	require.NoError(t, err)
	mustHold(t, items, r)
	r, err = pack.Greedy(ctx, items)
	require.NoError(t, err)
	mustHold(t, items, r)
}

func TestACapacityThatTakesMoreNodesStaysOpen(t *testing.T) {
	items := miniMalloc(t, "D")
	r, err := pack.Minimize(t.Context(), items, pack.Options{Capacity: miniCapacity, Nodes: 2000})
	require.NoError(t, err)
	require.Greater(t, r.Height, uint64(miniCapacity))
	require.LessOrEqual(t, r.Bound, uint64(miniCapacity))
	require.LessOrEqual(t, r.Nodes, uint64(2000))
	mustHold(t, items, r)
}

func TestACapacityBelowThePeakIsNotSearched(t *testing.T) {
	items := miniMalloc(t, "A")
	least := peak(items)
	r, err := pack.Minimize(t.Context(), items, pack.Options{Capacity: least - 1})
	require.NoError(t, err)
	require.Equal(t, least, r.Bound)
}

// Local repair alone, as for groups too large to search.
func TestRepairAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t, 40)
		greedy, err := pack.Greedy(context.Background(), items)
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, items, greedy)
		r, err := pack.Minimize(context.Background(), items, pack.Options{Exact: 1, Nodes: 3000})
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, items, r)
		if r.Height > greedy.Height {
			t.Fatalf("height %d, greedy alone %d", r.Height, greedy.Height)
		}
	})
}

// A chain of items too long for pairs to be compared one by one.
func TestGreedyOnManyItems(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	items := make([]pack.Item, 20_000)
	for i := range items {
		lower := rng.Uint64N(1 << 20)
		items[i] = pack.Item{Lower: lower, Upper: lower + 1 + rng.Uint64N(1<<9), Size: 1 + rng.Uint64N(1<<16), Align: 64}
	}
	r, err := pack.Greedy(t.Context(), items)
	require.NoError(t, err)
	require.NoError(t, pack.Verify(items, r.Offsets))
	require.Less(t, float64(r.Height), 1.5*float64(r.Bound))
}

func TestInvalidItems(t *testing.T) {
	good := pack.Item{Lower: 0, Upper: 1, Size: 1}
	for name, c := range map[string]struct {
		item pack.Item
		want error
	}{
		"empty lifetime":    {pack.Item{Lower: 3, Upper: 3, Size: 1}, mem.ErrInvalidValue},
		"reversed lifetime": {pack.Item{Lower: 3, Upper: 2, Size: 1}, mem.ErrInvalidValue},
		"no size":           {pack.Item{Lower: 0, Upper: 1}, mem.ErrInvalidSize},
		"odd alignment":     {pack.Item{Lower: 0, Upper: 1, Size: 1, Align: 3}, mem.ErrInvalidValue},
		"too large":         {pack.Item{Lower: 0, Upper: 1, Size: 1 << 62}, mem.ErrInvalidSize},
		"too aligned":       {pack.Item{Lower: 0, Upper: 1, Size: 1, Align: 1 << 63}, mem.ErrInvalidSize},
		"overflows":         {pack.Item{Lower: 0, Upper: 1, Size: ^uint64(0)}, mem.ErrInvalidSize},
	} {
		t.Run(name, func(t *testing.T) {
			items := []pack.Item{good, c.item}
			_, err := pack.Minimize(t.Context(), items, pack.Options{})
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, "item 1")
			_, err = pack.Greedy(t.Context(), items)
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, pack.Verify(items, []uint64{0, 0}), c.want)
		})
	}
	_, err := pack.Minimize(t.Context(), []pack.Item{good}, pack.Options{Exact: -1})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
}

func TestNoItems(t *testing.T) {
	r, err := pack.Minimize(t.Context(), nil, pack.Options{})
	require.NoError(t, err)
	require.True(t, r.Proven)
	require.NoError(t, pack.Verify(nil, r.Offsets))
}
