package bufalloc

import (
	"cmp"
	"slices"

	"godwit/mem"
)

// Holes appends the holes that there would be if the chunks of gone were freed, in
// ascending order; those of gone that are not live make none. It sorts gone, and
// looks at every chunk and hole. The region does not change.
func (r *Region) Holes(dst []mem.Range, gone []Chunk) []mem.Range {
	gone = r.sorted(gone)
	first, k := len(dst), 0
	for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
		n := &r.nodes[i]
		if n.live() {
			if k == len(gone) || gone[k].index != i {
				continue
			}
			k++
		}
		if last := len(dst) - 1; last >= first && dst[last].End == n.addr {
			dst[last].End = n.end()
			continue
		}
		dst = append(dst, mem.Range{Start: n.addr, End: n.end()})
	}
	return dst
}

// HolesOf appends those of Holes that the chunks of gone would be part of. It looks at
// these and what is beside them.
func (r *Region) HolesOf(dst []mem.Range, gone []Chunk) []mem.Range {
	first := len(dst)
	for _, c := range r.sorted(gone) {
		n := &r.nodes[c.index]
		hole := mem.Range{Start: n.addr, End: n.end()}
		if last := len(dst) - 1; last >= first && dst[last].End == n.addr {
			hole.Start, dst = dst[last].Start, dst[:last]
		} else if b := &r.nodes[n.prev]; n.prev != anchor && !b.live() {
			hole.Start = b.addr
		}
		if b := &r.nodes[n.next]; n.next != anchor && !b.live() {
			hole.End = b.end()
		}
		dst = append(dst, hole)
	}
	return dst
}

// sorted is the live chunks of gone, by address.
func (r *Region) sorted(gone []Chunk) []Chunk {
	gone = slices.DeleteFunc(gone, func(c Chunk) bool {
		_, err := r.node(c, "hole")
		return err != nil
	})
	slices.SortFunc(gone, func(a, b Chunk) int { return cmp.Compare(r.nodes[a.index].addr, r.nodes[b.index].addr) })
	return gone
}

// Pack reports whether requests find room in holes: the largest first, each in the
// smallest hole that takes it (best fit decreasing), in multiples of the granularity.
// The holes are used up.
func Pack(holes []mem.Range, reqs []mem.Request, granule uint64) bool {
	granule = max(granule, 1)
	last := -1
	for range reqs {
		next := -1
		for i := range reqs { // the largest that comes behind last
			if behind(reqs, i, last) && (next < 0 || behind(reqs, next, i)) {
				next = i
			}
		}
		last = next
		if !packOne(holes, reqs[next], granule) {
			return false
		}
	}
	return true
}

// behind orders requests by size, the largest first, then by number.
func behind(reqs []mem.Request, i, last int) bool {
	if last < 0 {
		return true
	}
	a, b := reqs[i].Size, reqs[last].Size
	return a < b || a == b && i > last
}

func packOne(holes []mem.Range, q mem.Request, granule uint64) bool {
	best, at := -1, uint64(0)
	need, ok := mem.AlignUp(q.Size, granule)
	if !ok {
		return false
	}
	for i, h := range holes {
		start, ok := mem.AlignUp(h.Start, max(q.Align, granule))
		if !ok || start > h.End || h.End-start < need || best >= 0 && h.Size() >= holes[best].Size() {
			continue
		}
		best, at = i, start
	}
	if best < 0 {
		return false
	}
	holes[best].Start = at + need
	return true
}
