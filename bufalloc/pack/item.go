package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"godwit/mem"
)

// Item is something to be placed: Size bytes, held during the half-open span
// of time [Lower, Upper). Time has no unit: only the order of the numbers
// counts, and an item that ends at t does not overlap one that starts at t.
type Item struct {
	Lower, Upper uint64 // lifetime, Lower < Upper
	Size         uint64 // bytes, at least 1
	Align        uint64 // the offset is a multiple of it: a power of two; 0 means 1
}

// ErrOverlap: two items alive at the same time share a byte.
var ErrOverlap = mem.Sentinel("items overlap", mem.MemCopyOverlap)

// maxBytes bounds the sum of all sizes and alignments, so that no sum of
// offsets in this package can overflow an int64.
const maxBytes = math.MaxInt64 / 4

// validate checks every item and the bound on their sum.
func validate(items []Item) error {
	sum := uint64(0)
	for i, it := range items {
		switch {
		case it.Lower >= it.Upper:
			return fmt.Errorf("pack: item %d lives in [%d, %d): a lifetime must not be empty: %w", i, it.Lower, it.Upper, mem.ErrInvalidValue)
		case it.Size == 0:
			return fmt.Errorf("pack: item %d has size 0: %w", i, mem.ErrInvalidSize)
		case it.Align&(it.Align-1) != 0:
			return fmt.Errorf("pack: item %d has alignment %d, not a power of two: %w", i, it.Align, mem.ErrInvalidValue)
		case it.Size > maxBytes || it.Align > maxBytes || sum+it.Size+it.Align > maxBytes:
			return fmt.Errorf("pack: item %d of %d bytes, alignment %d: all sizes and alignments must sum to at most %d: %w", i, it.Size, it.Align, uint64(maxBytes), mem.ErrInvalidSize)
		}
		sum += it.Size + it.Align
	}
	return nil
}

// edge is an end of an item's lifetime.
type edge struct {
	time  uint64
	item  int32
	start bool
}

// edges returns both ends of every lifetime in order of time, ends before
// starts at equal times.
func edges(items []Item) []edge {
	es := make([]edge, 0, 2*len(items))
	for i, it := range items {
		es = append(es, edge{it.Lower, int32(i), true}, edge{it.Upper, int32(i), false})
	}
	slices.SortFunc(es, func(a, b edge) int {
		if a.time == b.time && a.start != b.start {
			if b.start {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.item, b.item))
	})
	return es
}
