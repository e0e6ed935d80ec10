package pack_test

import (
	"context"
	"testing"

	"godwit/bufalloc/pack"
)

// FuzzPack reads items of four bytes each (start, length, size, alignment) and
// holds everything the package returns against the rules: every placement
// verifies, none is below the proven bound, and a capacity is met where the height is.
func FuzzPack(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 1, 0})
	f.Add([]byte{0, 2, 5, 0, 1, 2, 4, 1, 2, 2, 3, 3, 0, 9, 2, 2})
	f.Add([]byte("offline packing of items with lifetimes"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var items []pack.Item
		for ; len(data) >= 4 && len(items) < 24; data = data[4:] {
			lower := uint64(data[0] % 16)
			items = append(items, pack.Item{Lower: lower, Upper: lower + 1 + uint64(data[1]%16), Size: 1 + uint64(data[2]%32), Align: 1 << (data[3] % 5)})
		}
		ctx := context.Background()
		best, err := pack.Minimize(ctx, items, pack.Options{Nodes: 20_000})
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, items, best)
		r, err := pack.Greedy(ctx, items)
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, items, r)
		if r.Height < best.Bound {
			t.Fatalf("greedy reaches %d, below the proven bound %d", r.Height, best.Bound)
		}
		r, err = pack.Minimize(ctx, items, pack.Options{Nodes: 2000, Exact: 1})
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, items, r)
		if r.Height < best.Bound {
			t.Fatalf("repair reaches %d, below the proven bound %d", r.Height, best.Bound)
		}
		if best.Height == 0 {
			return
		}
		r, err = pack.Minimize(ctx, items, pack.Options{Nodes: 20_000, Capacity: best.Height})
		mustHold(t, items, r)
		if err != nil || r.Bound > best.Height {
			t.Fatalf("capacity %d is said to be infeasible but is not: %v", best.Height, err)
		}
		r, err = pack.Minimize(ctx, items, pack.Options{Nodes: 20_000, Capacity: best.Height - 1})
		mustHold(t, items, r)
		if err != nil || best.Proven && r.Height < best.Height {
			t.Fatalf("capacity %d is below the proven optimum: %d, %v", best.Height-1, r.Height, err)
		}
	})
}
