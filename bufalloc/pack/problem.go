package pack

import (
	"cmp"
	"slices"
)

// box is an item in the units of the search: sections instead of times.
type box struct {
	lo, hi int32 // sections [lo, hi)
	id     int32 // index into the caller's items
	size   int64
	align  int64
}

// overlaps tells whether two boxes share a section, which is exactly whether
// their items are alive at one time.
func (b *box) overlaps(c *box) bool { return b.lo < c.hi && c.lo < b.hi }

// sections turns lifetimes into spans of sections. A section is a maximal set
// of items alive at once: the time between the last start and the first end
// that follows it. All other instants hold a subset of a neighbour's items and
// constrain nothing. It returns one box per item, in the items' order, and the
// number of sections.
func sections(items []Item) ([]box, int) {
	boxes := make([]box, len(items))
	sec, started := int32(0), false
	for _, e := range edges(items) {
		b := &boxes[e.item]
		if e.start {
			it := items[e.item]
			*b = box{lo: sec, id: e.item, size: int64(it.Size), align: int64(max(it.Align, 1))}
			started = true
			continue
		}
		if started { // this end closes the section
			sec, started = sec+1, false
		}
		b.hi = sec
	}
	return boxes, int(sec)
}

// components splits boxes into groups that share no section, in order of time,
// each renumbered to start at section 0. Groups are packed independently: the
// same bytes serve all of them.
func components(boxes []box) [][]box {
	if len(boxes) == 0 {
		return nil
	}
	sorted := slices.Clone(boxes)
	slices.SortFunc(sorted, func(a, b box) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.id, b.id))
	})
	var groups [][]box
	first, end := 0, sorted[0].hi
	for i := 1; i <= len(sorted); i++ {
		if i < len(sorted) && sorted[i].lo < end {
			end = max(end, sorted[i].hi)
			continue
		}
		group := sorted[first:i:i]
		base := group[0].lo
		for k := range group {
			group[k].lo -= base
			group[k].hi -= base
		}
		groups = append(groups, group)
		if i < len(sorted) {
			first, end = i, sorted[i].hi
		}
	}
	return groups
}

// loads returns the sum of the sizes in each of m sections.
func loads(boxes []box, m int) []int64 {
	diff := make([]int64, m+1)
	for i := range boxes {
		diff[boxes[i].lo] += boxes[i].size
		diff[boxes[i].hi] -= boxes[i].size
	}
	for s := 1; s < m; s++ {
		diff[s] += diff[s-1]
	}
	return diff[:m]
}

// alignUp rounds x up to a multiple of a, a power of two.
func alignUp(x, a int64) int64 { return (x + a - 1) &^ (a - 1) }
