package pack

import (
	"cmp"

	"github.com/google/btree"
)

// hole is a free range of offsets.
type hole struct{ off, end int64 }

// timeline places every item in order of time as an online best fit would, in
// O(n log n) whatever the overlaps: the placement that is there when there is
// no time for a better one. Boxes must be those of sections(items).
func timeline(items []Item, boxes []box) []int64 {
	bySize := btree.NewG(16, func(a, b hole) bool {
		return cmp.Or(cmp.Compare(a.end-a.off, b.end-b.off), cmp.Compare(a.off, b.off)) < 0
	})
	byOff := btree.NewG(16, func(a, b hole) bool { return a.off < b.off })
	add := func(h hole) {
		if h.off < h.end {
			bySize.ReplaceOrInsert(h)
			byOff.ReplaceOrInsert(h)
		}
	}
	drop := func(h hole) {
		bySize.Delete(h)
		byOff.Delete(h)
	}
	add(hole{0, 1<<63 - 1})
	offset := make([]int64, len(items))
	for _, e := range edges(items) {
		b := &boxes[e.item]
		if e.start {
			// A hole of size+align-1 bytes always serves; smaller ones are
			// tried, a few of them, for the exact fit.
			var got hole
			at, tries := int64(-1), 8
			bySize.AscendGreaterOrEqual(hole{0, b.size}, func(h hole) bool {
				tries--
				if p := alignUp(h.off, b.align); p+b.size <= h.end {
					got, at = h, p
				}
				return at < 0 && tries > 0
			})
			if at < 0 {
				bySize.AscendGreaterOrEqual(hole{0, b.size + b.align - 1}, func(h hole) bool {
					got, at = h, alignUp(h.off, b.align)
					return false
				})
			}
			drop(got)
			add(hole{got.off, at})
			add(hole{at + b.size, got.end})
			offset[e.item] = at
			continue
		}
		h := hole{offset[e.item], offset[e.item] + b.size}
		byOff.AscendGreaterOrEqual(hole{off: h.end}, func(n hole) bool {
			if n.off == h.end {
				h.end = n.end
			}
			return false
		})
		if h.end > offset[e.item]+b.size {
			drop(hole{offset[e.item] + b.size, h.end})
		}
		off := h.off
		byOff.DescendLessOrEqual(hole{off: off}, func(n hole) bool {
			if n.end == off {
				h.off = n.off
			}
			return false
		})
		if h.off < off {
			drop(hole{h.off, off})
		}
		add(h)
	}
	return offset
}
