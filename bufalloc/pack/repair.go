package pack

import (
	"cmp"
	"slices"

	"godwit/internal/heap"
)

// conflict is a placed neighbour and what it would cost to push it out.
type conflict struct {
	block
	cost int64
}

// repairer bends a placement below a limit by local search. A box that has no
// room takes the place where it displaces the least; whatever it overlaps there
// is pushed out and placed again in its turn. A box grows dearer each time it
// is pushed out, so that no two boxes displace each other for ever. This is the
// ejection idea of local search for packing problems; the growing weights are
// those of the breakout method (Morris, AAAI 1993).
type repairer struct {
	*layout
	unit   int64            // bytes that cost one
	span   int64            // sections that cost one
	weight []int64          // by box
	queue  heap.Heap[int32] // boxes without a place, the dearest first
	byOff  []conflict
	byTop  []conflict
}

func newRepairer(l *layout) *repairer {
	// Both parts of a cost stay below 2^13, so that no sum of costs overflows.
	r := &repairer{layout: l, unit: 1, span: 1, weight: make([]int64, len(l.boxes))}
	r.queue.Before = func(a, b *int32) bool { return r.before(*a, *b) }
	for i := range l.boxes {
		r.unit = max(r.unit, l.boxes[i].size>>12)
		r.span = max(r.span, int64(l.boxes[i].hi)>>12)
	}
	return r
}

// cost is the price of pushing out box i: it grows with the box's size and
// lifetime, since a long-lived box needs room that is free all that time and
// draws others after it.
func (r *repairer) cost(i int32) int64 {
	b := &r.boxes[i]
	return r.weight[i] * (b.size/r.unit + 1) * (int64(b.hi-b.lo)/r.span + 1)
}

// run tries to bring every box below limit in at most budget moves. It starts
// from the present layout, of which it leaves only parts when it fails.
func (r *repairer) run(limit int64, bud *budget, moves uint64) bool {
	r.queue.Items = r.queue.Items[:0]
	for i := range r.boxes {
		r.weight[i] = 1
	}
	for i := range r.boxes {
		if off := r.offset[i]; off < 0 || off+r.boxes[i].size > limit {
			if off >= 0 {
				r.take(int32(i))
			}
			r.queue.Push(int32(i))
		}
	}
	for ; len(r.queue.Items) > 0 && moves > 0; moves-- {
		if !bud.spend() {
			return false
		}
		i := r.queue.Pop()
		off := r.cheapest(i, limit)
		if off < 0 {
			return false // larger than the limit
		}
		b := &r.boxes[i]
		for _, j := range r.near {
			if o := r.offset[j]; o < off+b.size && off < o+r.boxes[j].size {
				r.take(j)
				r.weight[j]++
				r.queue.Push(j)
			}
		}
		r.put(i, off)
	}
	return len(r.queue.Items) == 0
}

// cheapest returns the offset below limit where box i displaces the least, the
// lowest of equals, and -1 if it is too large. It leaves i's placed neighbours
// in r.near.
//
// The cost at p is that of the neighbours that begin before p+size less that of
// those that end at or before p; it changes only at the ends of neighbours.
func (r *repairer) cheapest(i int32, limit int64) int64 {
	b := &r.boxes[i]
	if b.size > limit {
		return -1
	}
	r.near = r.index.query(b.lo, b.hi, r.near[:0])
	r.byOff = r.byOff[:0]
	for _, j := range r.near {
		r.byOff = append(r.byOff, conflict{block{r.offset[j], r.offset[j] + r.boxes[j].size}, r.cost(j)})
	}
	r.byTop = append(r.byTop[:0], r.byOff...)
	slices.SortFunc(r.byOff, func(a, b conflict) int { return cmp.Compare(a.off, b.off) })
	slices.SortFunc(r.byTop, func(a, b conflict) int { return cmp.Compare(a.top, b.top) })
	best, at := int64(1<<63-1), int64(-1)
	// Resting on 0 or on the end of a neighbour, then hanging below one.
	s := sweep{r: r, limit: limit, size: b.size}
	s.try(0, &best, &at)
	for k := range r.byTop {
		s.try(alignUp(r.byTop[k].top, b.align), &best, &at)
	}
	s = sweep{r: r, limit: limit, size: b.size}
	for k := range r.byOff {
		s.try((r.byOff[k].off-b.size)&^(b.align-1), &best, &at)
	}
	s.try((limit-b.size)&^(b.align-1), &best, &at)
	return at
}

// sweep computes costs at rising offsets.
type sweep struct {
	r            *repairer
	limit, size  int64
	begun, ended int // neighbours counted so far
	cost         int64
}

func (s *sweep) try(p int64, best, at *int64) {
	if p < 0 || p+s.size > s.limit {
		return
	}
	for s.begun < len(s.r.byOff) && s.r.byOff[s.begun].off < p+s.size {
		s.cost += s.r.byOff[s.begun].cost
		s.begun++
	}
	for s.ended < len(s.r.byTop) && s.r.byTop[s.ended].top <= p {
		s.cost -= s.r.byTop[s.ended].cost
		s.ended++
	}
	if s.cost < *best || s.cost == *best && p < *at {
		*best, *at = s.cost, p
	}
}

// before orders the queue: the box that is dearest to displace is placed first. Costs change only while a box is
// placed, so the queue stays in order.
func (r *repairer) before(a, b int32) bool {
	x, y := r.cost(a), r.cost(b)
	return x > y || x == y && a < b
}
