package pack_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"godwit/bufalloc/pack"
)

// optimum finds the smallest height of a placement by brute force: in some
// order of the items, each at the lowest offset above all those before it that
// are alive with it. For any placement the order by offset gives one at most as
// high, so that trying all orders misses nothing.
func optimum(items []pack.Item) uint64 {
	best := ^uint64(0)
	offsets := make([]uint64, len(items))
	var placed []int
	var try func(height uint64)
	try = func(height uint64) {
		if height >= best {
			return
		}
		if len(placed) == len(items) {
			best = height
			return
		}
		for i, it := range items {
			if slices.Contains(placed, i) {
				continue
			}
			at := uint64(0)
			for _, j := range placed {
				if o := items[j]; o.Lower < it.Upper && it.Lower < o.Upper {
					at = max(at, offsets[j]+o.Size)
				}
			}
			if a := max(it.Align, 1); at%a != 0 {
				at += a - at%a
			}
			offsets[i] = at
			placed = append(placed, i)
			try(max(height, at+it.Size))
			placed = placed[:len(placed)-1]
		}
	}
	try(0)
	return best
}

// drawItems draws up to n items with few distinct times, so that many overlap,
// and small sizes, so that exact fits are common.
func drawItems(t *rapid.T, n int) []pack.Item {
	times := rapid.Uint64Range(2, 10).Draw(t, "times")
	sizes := rapid.Uint64Range(1, 12).Draw(t, "sizes")
	aligned := rapid.Bool().Draw(t, "aligned")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pack.Item {
		lower := rapid.Uint64Range(0, times-1).Draw(t, "lower")
		it := pack.Item{
			Lower: lower,
			Upper: rapid.Uint64Range(lower+1, times).Draw(t, "upper"),
			Size:  rapid.Uint64Range(1, sizes).Draw(t, "size"),
		}
		if aligned {
			it.Align = rapid.SampledFrom([]uint64{0, 1, 2, 4, 8}).Draw(t, "align")
		}
		return it
	}), 0, n).Draw(t, "items")
}

// clashes tells whether a placement breaks a rule, by comparing all pairs.
func clashes(items []pack.Item, offsets []uint64) bool {
	for i, a := range items {
		if a.Align > 1 && offsets[i]%a.Align != 0 {
			return true
		}
		for j, b := range items[:i] {
			if a.Lower < b.Upper && b.Lower < a.Upper && offsets[i] < offsets[j]+b.Size && offsets[j] < offsets[i]+a.Size {
				return true
			}
		}
	}
	return false
}

// mustHold fails the test where a result breaks a rule of its own.
func mustHold(t rapid.TB, items []pack.Item, r pack.Result) {
	t.Helper()
	if err := pack.Verify(items, r.Offsets); err != nil {
		t.Fatalf("result does not verify: %v", err)
	}
	if clashes(items, r.Offsets) {
		t.Fatalf("Verify passed offsets %v that clash", r.Offsets)
	}
	height := uint64(0)
	for i, it := range items {
		height = max(height, r.Offsets[i]+it.Size)
	}
	switch least := peak(items); {
	case r.Height != height:
		t.Fatalf("height %d, offsets say %d", r.Height, height)
	case r.Bound < least || r.Bound > r.Height:
		t.Fatalf("bound %d outside [peak %d, height %d]", r.Bound, least, r.Height)
	case r.Proven != (r.Height == r.Bound):
		t.Fatalf("proven is %v at height %d, bound %d", r.Proven, r.Height, r.Bound)
	}
}

// peak is the largest sum of sizes alive when some item comes to life.
func peak(items []pack.Item) (most uint64) {
	change := make(map[uint64]int64)
	for _, it := range items {
		change[it.Lower] += int64(it.Size)
		change[it.Upper] -= int64(it.Size)
	}
	live := int64(0)
	for _, t := range slices.Sorted(maps.Keys(change)) {
		live += change[t]
		most = max(most, uint64(live))
	}
	return most
}
