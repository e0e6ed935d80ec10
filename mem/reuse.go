package mem

import "slices"

// Reuse lets Resource.AllocAll give bytes again that were freed after points which
// have not been reached: in stream order, so that whoever frees and asks again at
// once need not wait for a device. It is the caller's, to be used again and again;
// a nil Reuse takes free bytes only.
type Reuse struct {
	// May reports whether the new user may wait for a point; nil is always. A point
	// that only ends once the new user has done something, such as a user event
	// that the same program sets later, must not be waited for.
	May func(Point) bool
	// Busy is filled by AllocAll: what the first use of each block must wait for,
	// however it ends, where the block is not free yet. Points may come twice. Who
	// frees such a block frees it after those of its points too that have not been
	// reached.
	Busy []Busy
}

// Busy says that the block which AllocAll gave for reqs[Index] is in use until the
// point.
type Busy struct {
	Index int
	Point Point
}

// Takes reports whether bytes that are in use until the points may be given: all
// of these have been reached, or may be waited for. It may be asked of nil.
func (r *Reuse) Takes(points []Point) bool {
	for _, p := range points {
		if !p.Reached() && (r == nil || r.May != nil && !r.May(p)) {
			return false
		}
	}
	return true
}

// Add says that block i is in use until the points that have not been reached.
func (r *Reuse) Add(i int, points []Point) {
	if r == nil {
		return
	}
	for _, p := range points {
		if !p.Reached() {
			r.Busy = append(r.Busy, Busy{i, p})
		}
	}
}

// Len is how many entries Busy has; 0 of nil.
func (r *Reuse) Len() int {
	if r == nil {
		return 0
	}
	return len(r.Busy)
}

// Cut forgets all but the first n entries of Busy: those of blocks that are taken
// back.
func (r *Reuse) Cut(n int) {
	if r != nil {
		r.Busy = r.Busy[:n]
	}
}

// Shift adds by to the indices of the entries from the n-th on: for layers that
// pass on a part of what they were asked for.
func (r *Reuse) Shift(n, by int) {
	if r == nil {
		return
	}
	for i := n; i < len(r.Busy); i++ {
		r.Busy[i].Index += by
	}
}

// BusyRanges are addresses that were freed and may have been given again while
// points that use them have not been reached. The zero value is empty. It is not
// safe for concurrent use. Steady state allocates nothing on the Go heap.
type BusyRanges struct {
	list  []busyRange
	spare [][]Point
}

type busyRange struct {
	space uint64
	r     Range
	after []Point
}

// Add lists the addresses r of a space until the points, which it copies, have been
// reached.
func (b *BusyRanges) Add(space uint64, r Range, after []Point) {
	var keep []Point
	if n := len(b.spare); n > 0 {
		keep, b.spare = b.spare[n-1], b.spare[:n-1]
	}
	b.list = append(b.list, busyRange{space, r, append(keep, after...)})
}

// Reap forgets what nobody has to wait for any more.
func (b *BusyRanges) Reap() {
	kept := b.list[:0]
	for _, e := range b.list {
		if slices.ContainsFunc(e.after, func(p Point) bool { return !p.Reached() }) {
			kept = append(kept, e)
			continue
		}
		clear(e.after)
		b.spare = append(b.spare, e.after[:0])
	}
	clear(b.list[len(kept):])
	b.list = kept
}

// Empty reports whether nothing is listed.
func (b *BusyRanges) Empty() bool { return len(b.list) == 0 }

// Takes reports whether reuse takes what is busy of a range.
func (b *BusyRanges) Takes(reuse *Reuse, space uint64, r Range) bool {
	for i := range b.list {
		if e := &b.list[i]; e.space == space && e.r.Overlaps(r) && !reuse.Takes(e.after) {
			return false
		}
	}
	return true
}

// Tell adds to reuse what block i, at a range, must wait for.
func (b *BusyRanges) Tell(reuse *Reuse, i int, space uint64, r Range) {
	for k := range b.list {
		if e := &b.list[k]; e.space == space && e.r.Overlaps(r) {
			reuse.Add(i, e.after)
		}
	}
}

// Points appends what is waited for in a range.
func (b *BusyRanges) Points(dst []Point, space uint64, r Range) []Point {
	for i := range b.list {
		if e := &b.list[i]; e.space == space && e.r.Overlaps(r) {
			for _, p := range e.after {
				if !p.Reached() {
					dst = append(dst, p)
				}
			}
		}
	}
	return dst
}
