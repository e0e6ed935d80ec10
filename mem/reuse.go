package mem

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
