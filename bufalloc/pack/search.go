package pack

import (
	"math"
	"slices"
)

// The exact search places boxes bottom up, one by one.
//
// Canonical placements. Take a placement whose sum of offsets is the least. No
// box can slide down in it, so each rests on another, or on 0. Ordered by key
// = (offset, index), each box stands at its raw offset, the lowest above those
// before it that share a section with it. So it is enough to place boxes in
// rising order of keys, each at its raw offset (the canonical solutions and the
// monotonic floor of MiniMalloc). After a box is placed, those whose key is
// lower are skipped: they cannot be placed where they are. From the same choice
// of placement follow the prunings:
//
//   - dominance: when a skipped box could still slide below the last one, the
//     state has no canonical completion (MiniMalloc's spatial dominance);
//   - support: a skipped box can be placed only when another unplaced one that
//     shares a section comes to lie below it, so that its offset is at least the
//     lowest end of such a box; without one the state fails;
//   - twins: of boxes that are alike in all but index the lowest comes first.
//
// Bounds. With a lower bound for the offset of each unplaced box, the boxes of
// one section are jobs with release times on one machine; stacking them in the
// order of their bounds gives the least end there can be. It must fit the
// capacity in all sections (MiniMalloc's section inference takes the lowest
// bound for all).
//
// Memory. What can follow depends only on the unplaced boxes, their raw
// offsets and which of them are skipped. States that failed are remembered.

// outcome is how a search ended.
type outcome int8

const (
	failed  outcome = iota // proved: no placement fits
	found                  // the offsets are in search.offset
	stopped                // out of nodes or time
)

// none is a bound that nothing reaches.
const none = int64(math.MaxInt64)

// entry is an unplaced box within a frame of the search.
type entry struct {
	raw  int64 // lowest offset above everything placed below it
	eff  int64 // lower bound of its final offset: raw, or higher if skipped
	idx  int32 // index into search.boxes
	skip bool  // its key is below that of the last box placed
}

// before is the order of a frame's list.
func (e *entry) before(f *entry) bool {
	return e.eff < f.eff || e.eff == f.eff && e.idx < f.idx
}

// search looks for a placement of one component. The boxes stand in order of
// preference, which decides between equal offsets.
type search struct {
	boxes  []box     // immutable
	in     [][]int32 // by section, the boxes alive in it; immutable
	twin   []int32   // by box, the one before it that is alike, or -1; immutable
	cap    int64
	offset []int64   // by box; of no meaning while not placed
	placed []bool    // by box
	eff    []int64   // by box, scratch of place
	moved  []entry   // scratch of place
	top    []int64   // by section, scratch of fits
	rem    []int64   // by section, bytes of unplaced boxes
	frames [][]entry // by depth
	last   int32     // the section that failed last: it is checked first
	memo   *memo
	bud    *budget
	left   uint64 // placements that this run may still try
}

func newSearch(boxes []box, m int, mm *memo) *search {
	n := len(boxes)
	s := &search{
		boxes: boxes, memo: mm,
		in: make([][]int32, m), twin: make([]int32, n),
		offset: make([]int64, n), placed: make([]bool, n), eff: make([]int64, n),
		top: make([]int64, m), rem: loads(boxes, m),
	}
	type kind struct {
		lo, hi      int32
		size, align int64
	}
	alike := make(map[kind]int32)
	for i := range boxes {
		b := &boxes[i]
		for x := b.lo; x < b.hi; x++ {
			s.in[x] = append(s.in[x], int32(i))
		}
		k := kind{b.lo, b.hi, b.size, b.align}
		s.twin[i] = -1
		if t, ok := alike[k]; ok {
			s.twin[i] = t
		}
		alike[k] = int32(i)
	}
	return s
}

// run searches within capacity for at most nodes placements.
func (s *search) run(bud *budget, capacity int64, nodes uint64) outcome {
	s.bud, s.cap, s.left = bud, capacity, nodes
	clear(s.placed)
	root := s.frame(0)
	for i := range s.boxes {
		root = append(root, entry{idx: int32(i)})
	}
	s.frames[0] = root
	return s.descend(0, root, span{0, int32(len(s.in))})
}

// span is a run of sections.
type span struct{ lo, hi int32 }

func (s *search) frame(depth int) []entry {
	for len(s.frames) <= depth {
		s.frames = append(s.frames, make([]entry, 0, max(4, len(s.boxes)-len(s.frames))))
	}
	return s.frames[depth][:0]
}

// descend places all of list, whose boxes are those unplaced within in.
func (s *search) descend(depth int, list []entry, in span) outcome {
	hash, k := s.memo.key(list)
	if s.memo.failed(hash, k) {
		return failed
	}
	// A box at or above the end that another could reach would leave room for
	// that one to slide into; and every section must go on at or below what
	// leaves room for all of its boxes.
	limit := none
	for i := range list {
		limit = min(limit, list[i].raw+s.boxes[list[i].idx].size)
	}
	limit = min(limit, s.cap-slices.Max(s.rem[in.lo:in.hi])+1)
	for i := range list {
		e := &list[i]
		if e.eff >= limit {
			break
		}
		if t := s.twin[e.idx]; e.skip || t >= 0 && !s.placed[t] {
			continue
		}
		if s.left == 0 || !s.bud.spend() {
			return stopped
		}
		s.left--
		if !s.bound(list, e, in) {
			continue
		}
		if r := s.place(depth+1, list, e); r != failed {
			return r
		}
	}
	s.memo.store(hash, k)
	return failed
}

// bound computes, into s.eff, the bounds of list once c is placed, and tells
// whether they leave hope.
func (s *search) bound(list []entry, c *entry, in span) bool {
	b := &s.boxes[c.idx]
	off, top := c.raw, c.raw+b.size
	s.moved = s.moved[:0]
	for i := range list {
		e := &list[i]
		o := &s.boxes[e.idx]
		eff := e.eff
		switch {
		case o.lo < b.hi && b.lo < o.hi && e.raw < top:
			eff = max(eff, alignUp(top, o.align))
		case e.raw < off || e.raw == off && e.idx < c.idx:
			eff = max(eff, off)
			s.moved = append(s.moved, *e)
		}
		s.eff[e.idx] = eff
	}
	for i := range s.moved {
		e := &s.moved[i]
		low := s.support(list, c, e.idx)
		if low == none {
			return false
		}
		s.eff[e.idx] = max(s.eff[e.idx], low)
	}
	return s.last < in.lo || s.last >= in.hi || s.hope(s.last, c)
}

// support returns the lowest offset at which an unplaced box other than c could
// carry box i.
func (s *search) support(list []entry, c *entry, i int32) int64 {
	b := &s.boxes[i]
	low := none
	for j := range list {
		f := &list[j]
		if f.eff >= low { // bounds only rise, and nothing has size 0
			break
		}
		o := &s.boxes[f.idx]
		if t := s.eff[f.idx] + o.size; t < low && o.overlaps(b) && f.idx != i && f.idx != c.idx {
			low = t
		}
	}
	if low == none {
		return none
	}
	return alignUp(low, b.align)
}

// hope checks one section with the lowest of its bounds, which is quick.
func (s *search) hope(x int32, c *entry) bool {
	low, sum := none, int64(0)
	for _, i := range s.in[x] {
		if !s.placed[i] && i != c.idx {
			low = min(low, s.eff[i])
			sum += s.boxes[i].size
		}
	}
	return sum == 0 || low+sum <= s.cap
}

// place puts c at its raw offset and solves what remains, with the bounds that
// bound left in s.eff.
func (s *search) place(depth int, list []entry, c *entry) outcome {
	child, in := s.next(depth, list, c)
	b := &s.boxes[c.idx]
	s.offset[c.idx] = c.raw
	if len(child) == 0 {
		return found
	}
	if !s.fits(child, in) {
		return failed
	}
	s.placed[c.idx] = true
	for x := b.lo; x < b.hi; x++ {
		s.rem[x] -= b.size
	}
	r := s.descend(depth, child, in)
	for x := b.lo; x < b.hi; x++ {
		s.rem[x] += b.size
	}
	s.placed[c.idx] = false
	return r
}

// next makes the list without c and with the bounds of s.eff, in order, and the
// span of what is left. Boxes whose bound has not changed are in order already.
func (s *search) next(depth int, list []entry, c *entry) ([]entry, span) {
	b := &s.boxes[c.idx]
	top := c.raw + b.size
	in := span{math.MaxInt32, 0}
	child, moved := s.frame(depth), s.moved[:0]
	for i := range list {
		e := list[i]
		if e.idx == c.idx {
			continue
		}
		o := &s.boxes[e.idx]
		in.lo, in.hi = min(in.lo, o.lo), max(in.hi, o.hi)
		if e.raw < top && o.overlaps(b) {
			e.raw = alignUp(top, o.align)
		}
		e.skip = e.raw < c.raw || e.raw == c.raw && e.idx < c.idx
		if eff := s.eff[e.idx]; eff != e.eff {
			e.eff = eff
			moved = append(moved, e)
			continue
		}
		child = append(child, e)
	}
	sortEntries(moved)
	k, j := len(child)-1, len(moved)-1
	child = append(child, moved...)
	for w := len(child) - 1; j >= 0; w-- {
		if k >= 0 && moved[j].before(&child[k]) {
			child[w] = child[k]
			k--
		} else {
			child[w] = moved[j]
			j--
		}
	}
	s.moved, s.frames[depth] = moved, child
	return child, in
}

func sortEntries(list []entry) {
	for i := 1; i < len(list); i++ {
		e, j := list[i], i
		for ; j > 0 && e.before(&list[j-1]); j-- {
			list[j] = list[j-1]
		}
		list[j] = e
	}
}

// fits stacks the boxes of every section in order of their bounds.
func (s *search) fits(list []entry, in span) bool {
	clear(s.top[in.lo:in.hi])
	for i := range list {
		eff := list[i].eff
		b := &s.boxes[list[i].idx]
		limit := s.cap - b.size
		if eff > limit {
			s.last = b.lo
			return false
		}
		tops := s.top[b.lo:b.hi]
		for x, t := range tops {
			t = max(t, eff)
			if t > limit {
				s.last = b.lo + int32(x)
				return false
			}
			tops[x] = t + b.size
		}
	}
	return true
}
