package pack

import (
	"fmt"

	"github.com/google/btree"

	"godwit/mem"
)

// Verify checks a placement without trusting anything that made it: one offset
// per item, each a multiple of its alignment, and no two items that are alive
// at the same time share a byte. It sweeps over time with the live items in a
// tree by offset, O(n log n). The error names the items and the rule: it wraps
// ErrOverlap, mem.ErrMisaligned, mem.ErrInvalidValue or mem.ErrInvalidSize.
func Verify(items []Item, offsets []uint64) error {
	if len(items) != len(offsets) {
		return fmt.Errorf("pack: %d items but %d offsets: %w", len(items), len(offsets), mem.ErrInvalidValue)
	}
	if err := validate(items); err != nil {
		return err
	}
	for i, it := range items {
		if it.Align > 1 && offsets[i]%it.Align != 0 {
			return fmt.Errorf("pack: item %d at offset %d is not aligned to %d: %w", i, offsets[i], it.Align, mem.ErrMisaligned)
		}
		if offsets[i]+it.Size < it.Size {
			return fmt.Errorf("pack: item %d at offset %d with %d bytes ends beyond 2^64: %w", i, offsets[i], it.Size, mem.ErrInvalidValue)
		}
	}
	live := btree.NewG(16, func(a, b int32) bool {
		if offsets[a] != offsets[b] {
			return offsets[a] < offsets[b]
		}
		return a < b
	})
	for _, e := range edges(items) {
		if !e.start {
			live.Delete(e.item)
			continue
		}
		clash := int32(-1)
		// Live items are disjoint so far: only the two neighbours can clash.
		live.DescendLessOrEqual(e.item, func(o int32) bool {
			if offsets[o]+items[o].Size > offsets[e.item] {
				clash = o
			}
			return false
		})
		live.AscendGreaterOrEqual(e.item, func(o int32) bool {
			if offsets[e.item]+items[e.item].Size > offsets[o] {
				clash = o
			}
			return false
		})
		if clash >= 0 {
			a, b := items[clash], items[e.item]
			return fmt.Errorf("pack: at time %d item %d at [%d, %d) and item %d at [%d, %d): %w", e.time,
				clash, offsets[clash], offsets[clash]+a.Size, e.item, offsets[e.item], offsets[e.item]+b.Size, ErrOverlap)
		}
		live.ReplaceOrInsert(e.item)
	}
	return nil
}
