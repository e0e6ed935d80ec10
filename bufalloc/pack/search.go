package pack

import (
	"slices"
)

// outcome is how a search ended.
type outcome int8

const (
	failed  outcome = iota // proved: no placement fits
	found                  // the offsets are in search.offset
	stopped                // out of nodes or time
)

// entry is an unplaced box within a frame of the search.
type entry struct {
	raw  int64 // lowest offset above everything placed below it
	eff  int64 // lower bound of its final offset: raw, or higher if it was skipped
	idx  int32 // index into search.boxes
	skip bool  // its key is below that of the last box placed
}

// search looks for a placement of one component within cap.
type search struct {
	boxes  []box // in preference order, immutable
	m      int
	cap    int64
	offset []int64 // by index into boxes
	top    []int64 // scratch, by section
	cross  []int32 // unplaced boxes alive on both sides of the border before section s
	frames [][]entry
	memo   *memo
	bud    *budget
	left   uint64 // placements that this run may still try
}

func newSearch(boxes []box, m int, mm *memo) *search {
	s := &search{boxes: boxes, m: m, memo: mm,
		offset: make([]int64, len(boxes)), top: make([]int64, m), cross: make([]int32, m+1)}
	for i := range boxes {
		for b := boxes[i].lo + 1; b < boxes[i].hi; b++ {
			s.cross[b]++
		}
	}
	return s
}

// run searches within capacity for at most nodes placements.
func (s *search) run(bud *budget, capacity int64, nodes uint64) outcome {
	s.bud, s.cap, s.left = bud, capacity, nodes
	root := s.frame(0, len(s.boxes))
	for i := range s.boxes {
		root = append(root, entry{idx: int32(i)})
	}
	return s.descend(0, root, 0, -1)
}

func (s *search) frame(depth, n int) []entry {
	for len(s.frames) <= depth {
		s.frames = append(s.frames, make([]entry, 0, n))
	}
	return s.frames[depth][:0]
}

// descend places all of list, sorted by (eff, idx), above the last box placed.
func (s *search) descend(depth int, list []entry, lastOff int64, lastIdx int32) outcome {
	if len(list) == 0 {
		return found
	}
	key, k := s.memo.key(list)
	if s.memo.failed(key, k) {
		return failed
	}
	// A box at or above the lowest end that any other could reach would leave
	// room below for that other to slide into.
	minTop := int64(1<<63 - 1)
	for i := range list {
		minTop = min(minTop, list[i].raw+s.boxes[list[i].idx].size)
	}
	for i := range list {
		e := &list[i]
		if e.eff >= minTop {
			break
		}
		if e.skip || e.raw >= minTop {
			continue
		}
		if s.left == 0 || !s.bud.spend() {
			return stopped
		}
		s.left--
		switch s.place(depth+1, list, e) {
		case found:
			return found
		case stopped:
			return stopped
		}
	}
	s.memo.store(key, k)
	return failed
}

// place puts c at its raw offset and solves what remains.
func (s *search) place(depth int, list []entry, c *entry) outcome {
	b := &s.boxes[c.idx]
	off, top := c.raw, c.raw+b.size
	child := s.frame(depth, len(s.boxes))
	skipped := 0
	lo, hi := int32(1<<30), int32(0)
	for i := range list {
		e := list[i]
		if e.idx == c.idx {
			continue
		}
		o := &s.boxes[e.idx]
		lo, hi = min(lo, o.lo), max(hi, o.hi)
		if e.raw < top && o.overlaps(b) {
			e.raw = alignUp(top, o.align)
			e.eff = max(e.eff, e.raw)
		}
		e.skip = e.raw < off || e.raw == off && e.idx < c.idx
		if e.skip {
			if e.raw+o.size <= off {
				return failed // it could still slide below c
			}
			skipped++
			e.eff = max(e.eff, off)
		}
		child = append(child, e)
	}
	s.frames[depth] = child
	s.offset[c.idx] = off
	if len(child) == 0 {
		return found
	}
	if skipped > 0 && !s.support(child) {
		return failed
	}
	sortEntries(child)
	if !s.fits(child, lo, hi) {
		return failed
	}
	split := false
	for x := b.lo + 1; x < b.hi; x++ {
		s.cross[x]--
		if s.cross[x] == 0 && x > lo && x < hi {
			split = true
		}
	}
	var r outcome
	if split {
		r = s.parts(depth, child, off, c.idx, lo, hi)
	} else {
		r = s.descend(depth, child, off, c.idx)
	}
	for x := b.lo + 1; x < b.hi; x++ {
		s.cross[x]++
	}
	return r
}

// support raises the bound of each skipped box to the lowest end of a box that
// it could rest on.
func (s *search) support(list []entry) bool {
	for i := range list {
		e := &list[i]
		if !e.skip {
			continue
		}
		b := &s.boxes[e.idx]
		low := int64(1<<63 - 1)
		for j := range list {
			f := &list[j]
			o := &s.boxes[f.idx]
			if t := f.eff + o.size; t < low && o.overlaps(b) && j != i {
				low = t
			}
		}
		if low == 1<<63-1 {
			return false
		}
		e.eff = max(e.eff, alignUp(low, b.align))
	}
	return true
}

func sortEntries(list []entry) {
	for i := 1; i < len(list); i++ {
		e := list[i]
		j := i
		for j > 0 && (list[j-1].eff > e.eff || list[j-1].eff == e.eff && list[j-1].idx > e.idx) {
			list[j] = list[j-1]
			j--
		}
		list[j] = e
	}
}

// fits stacks the boxes of every section in order of their bounds.
func (s *search) fits(list []entry, lo, hi int32) bool {
	clear(s.top[lo:hi])
	for i := range list {
		e := &list[i]
		b := &s.boxes[e.idx]
		limit := s.cap - b.size
		if e.eff > limit {
			return false
		}
		for x, t := range s.top[b.lo:b.hi] {
			t = max(t, e.eff)
			if t > limit {
				return false
			}
			s.top[int(b.lo)+x] = t + b.size
		}
	}
	return true
}

// parts solves each of the independent pieces of list by itself.
func (s *search) parts(depth int, list []entry, lastOff int64, lastIdx int32, lo, hi int32) outcome {
	type span struct {
		lo, hi int32
		n      int
	}
	var spans []span
	for x := lo; x < hi; {
		y := x + 1
		for y < hi && s.cross[y] != 0 {
			y++
		}
		n := 0
		for i := range list {
			if b := &s.boxes[list[i].idx]; b.lo >= x && b.hi <= y {
				n++
			}
		}
		if n > 0 {
			spans = append(spans, span{x, y, n})
		}
		x = y
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.n - b.n })
	for _, p := range spans {
		part := s.frame(depth+1, len(s.boxes))
		for i := range list {
			if b := &s.boxes[list[i].idx]; b.lo >= p.lo && b.hi <= p.hi {
				part = append(part, list[i])
			}
		}
		s.frames[depth+1] = part
		if r := s.descend(depth+1, part, lastOff, lastIdx); r != found {
			return r
		}
	}
	return found
}
