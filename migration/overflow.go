package migration

import (
	"godwit/internal/rangemap"
	"godwit/mem"
)

// overflow holds the readers that do not fit into the hazards of one store: lists
// of points, newest first. A list never changes, so that segments that were cut
// apart share it and equal segments stay equal; a longer one shares its tail.
//
// Lists that no segment uses any more are found by marking, when the cells run
// out and as many were handed out as there are segments and cells; so a reader
// costs a constant, and steady state allocates nothing on the Go heap.
type overflow struct {
	cells []cell     // [0] is nobody's, so that 0 ends a list
	free  int32      // unused cells, linked by next
	given int        // cells handed out since the last marking
	waits []mem.Wait // scratch of prune, and
	index waitIndex
}

type cell struct {
	point mem.Point
	next  int32
	n     int32 // length of the list from here
	base  int32 // its length when it was last pruned
	used  bool  // while marking
}

// add returns the list with p in front. A list that has grown to twice what was
// left of it is pruned first.
func (l *overflow) add(list int32, p mem.Point) int32 {
	if c := l.at(list); c.n >= 2*c.base+8 {
		list = l.prune(list)
	}
	c := l.at(list)
	i := l.cell()
	l.cells[i] = cell{point: p, next: list, n: c.n + 1, base: c.base}
	return i
}

// at is the first cell of a list; the empty list has a zero one.
func (l *overflow) at(list int32) cell {
	if list == 0 {
		return cell{}
	}
	return l.cells[list]
}

// cell takes an unused cell.
func (l *overflow) cell() int32 {
	l.given++
	if i := l.free; i != 0 {
		l.free = l.cells[i].next
		return i
	}
	if len(l.cells) == 0 {
		l.cells = append(l.cells, cell{})
	}
	l.cells = append(l.cells, cell{})
	return int32(len(l.cells) - 1)
}

// prune returns the list less the points that were reached or, on an in-order
// queue, come before another.
func (l *overflow) prune(list int32) int32 {
	l.waits = l.waits[:0]
	l.index.reset()
	for i := list; i != 0; i = l.cells[i].next {
		if p := l.cells[i].point; !p.Reached() {
			l.waits = l.index.add(l.waits, 0, mem.Wait{Point: p})
		}
	}
	out := int32(0)
	for n, w := range l.waits {
		i := l.cell()
		l.cells[i] = cell{point: w.Point, next: out, n: int32(n + 1), base: int32(len(l.waits))}
		out = i
	}
	return out
}

// collect makes the cells unused that no list of the hazards reaches, where it
// is time. It must not run while a list is being made.
func (l *overflow) collect(hazards *rangemap.Map[hazard]) {
	if l.free != 0 || l.given == 0 || l.given < 32+max(len(l.cells)/2, hazards.Len()) {
		return
	}
	for _, h := range hazards.All() {
		for i := h.more; i != 0 && !l.cells[i].used; i = l.cells[i].next {
			l.cells[i].used = true
		}
	}
	for i := len(l.cells) - 1; i > 0; i-- {
		if c := &l.cells[i]; c.used {
			c.used = false
		} else {
			*c = cell{next: l.free}
			l.free = int32(i)
		}
	}
	l.given = 0
}
