package migration

import "godwit/mem"

// Unaligned ends. Some devices copy whole words, and only their ends byte by
// byte, which is slow (mem.Link.Align). So an end is moved out to the next word
// where the bytes that come along do no harm: the source holds them, all of
// them, so that they are no older than what they replace; the host, where they go
// there, has nothing of the buffer mapped for writing (a map that invalidates
// leaves the host's bytes stale until the unmap, while the host writes them);
// nobody has to be waited for on their account but those that the step waits for
// anyway; what the step waits for as Data they would wait for as Data too, or they
// would be lost there with it for a failure that is not theirs (C9); and no other
// step of the plan brings them. They count as riding along. Where that is not so
// the end stays, and the device splits the copy.

// widen does so for every step of a plan over links with an alignment.
func (p *Planner) widen(dst *Plan) {
	for i := range dst.Steps {
		st := &dst.Steps[i]
		align := p.topo.Link(st.From, st.To).Align
		if align <= 1 || st.After >= 0 || st.Late != nil {
			continue
		}
		b := p.buffers[uint32(st.Buffer)]
		if len(b.serves) > 0 {
			continue // steps of a count lie anywhere in the plan
		}
		r := st.Range
		lower := r.Start &^ (align - 1)
		if lower < r.Start && p.harmless(dst, b, i, mem.Range{Start: lower, End: r.Start}) {
			st.Range.Start = lower
		}
		upper, ok := mem.AlignUp(r.End, align)
		upper = min(upper, b.content.Size())
		if ok && upper > r.End && p.harmless(dst, b, i, mem.Range{Start: r.End, End: upper}) {
			st.Range.End = upper
		}
		st.RideAlong += st.Range.Size() - r.Size()
	}
}

// harmless reports whether step i may bring the bytes of extra beside its range.
func (p *Planner) harmless(dst *Plan, b *buffer, i int, extra mem.Range) bool {
	st := &dst.Steps[i]
	for _, j := range []int{i - 1, i + 1} { // accesses are in order, and so are a group's steps
		if j >= 0 && j < len(dst.Steps) {
			if o := &dst.Steps[j]; o.Buffer == st.Buffer && o.To == st.To && o.Range.Overlaps(extra) {
				return false
			}
		}
	}
	from, to := b.at(st.From), b.at(st.To)
	return b.mayRide(st, from, extra) && p.waitsAlike(dst, st, from, to, extra)
}

// mayRide reports whether bytes beside those of a step are as good at its source as
// at its destination, and whether nobody uses them there whom the planner cannot see.
func (b *buffer) mayRide(st *Step, from *store, extra mem.Range) bool {
	if b.hostWrites(st.To) {
		return false
	}
	for r, v := range b.content.In(extra) {
		if !v.valid.Has(st.From) || from.partly(r) {
			return false // the destination's may be newer
		}
		if st.To == mem.Host && v.valid.Has(mem.Host) {
			return false // the host may be reading them
		}
	}
	return true
}

// partly reports whether a store holds some of r only as far as a count said.
func (s *store) partly(r mem.Range) bool {
	if s.held == nil {
		return false
	}
	for _, c := range s.held.In(r) {
		if *c != nil {
			return true
		}
	}
	return false
}

// waitsAlike reports whether a step waits for all that copying the bytes of extra
// would have to wait for, and as Data for nobody else than each of them. What comes
// into a store that the planner does not know yet waits for nobody.
func (p *Planner) waitsAlike(dst *Plan, st *Step, from, to *store, extra mem.Range) bool {
	base := len(dst.arena)
	defer func() { dst.arena = dst.arena[:base] }()
	have := dst.arena[st.from:st.to:st.to]
	p.stepWaits.reset()
	for _, h := range from.hazards.In(extra) {
		if !onlyData(have, h.writer) {
			return false
		}
		dst.arena = from.data(dst.arena, base, h, &p.stepWaits)
	}
	if to != nil {
		for _, h := range to.hazards.In(extra) {
			dst.arena = to.order(dst.arena, base, h, &p.stepWaits)
		}
	}
	for _, w := range dst.arena[base:] {
		covered := false
		for _, h := range have {
			covered = covered || h.Kind >= w.Kind && (h.Point == w.Point || w.Kind == mem.Order && w.Point.Before(h.Point))
		}
		if !covered {
			return false
		}
	}
	return true
}

// onlyData reports whether waits have no Data wait but one for p, unless it has
// succeeded meanwhile.
func onlyData(waits []mem.Wait, p mem.Point) bool {
	for _, w := range waits {
		if w.Kind == mem.Data && w.Point != p && !w.Point.Succeeded() {
			return false
		}
	}
	return true
}
