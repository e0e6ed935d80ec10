package migration

import (
	"fmt"
	"math"

	"godwit/mem"
)

// Plan fills dst with what has to happen before a command with these accesses
// may run. It changes no coherence state: a plan that is not committed never
// was. Accesses may name several buffers and memories, and may overlap. Spans are what has to
// lie in one block each; an access that is in none needs its own range.
//
// It fails, with dst empty, with mem.ErrInvalidBuffer where a buffer was
// released or never created, mem.ErrInvalidValue where a range, mode or memory
// is none, mem.ErrInvalidOperation where the same bytes would be written on two
// memories, and mem.ErrPoisoned, with the cause in its chain, where bytes to be
// read were lost by a command that failed. Bytes that were never written are
// read as they are: nothing is copied.
func (p *Planner) Plan(dst *Plan, accs []mem.Access, spans ...Span) error {
	dst.reset()
	dst.spans = append(dst.spans[:0], spans...)
	p.commandWaits.reset()
	err := p.accept(dst, accs)
	for i := 0; i < len(dst.Accesses) && err == nil; i++ {
		err = p.access(dst, &dst.Accesses[i])
	}
	if err == nil && !dst.lacks && len(spans) > 0 {
		var within bool
		within, err = p.within(spans)
		dst.lacks = !within
	}
	if err == nil && dst.lacks {
		p.wants(dst, accs, spans)
	}
	for i := range dst.Steps[:dst.loaded] { // for choose's sake only
		st := &dst.Steps[i]
		p.load(st, -st.loaded)
	}
	if err != nil {
		dst.reset()
		return err
	}
	if p.aligned {
		p.widen(dst)
	}
	dst.finish()
	p.Reroute(dst)
	dst.edits = p.edits
	return nil
}

// access plans one access: whether it lacks storage, the steps that bring what it reads and its memory lacks, and the
// waits for who used the rest.
func (p *Planner) access(dst *Plan, a *mem.Access) error {
	b := p.buffers[uint32(a.Buffer)]
	s := b.at(a.Memory)
	if s == nil {
		dst.lacks = true
	} else if in := s.blocks.Get(a.Range.Start); in.Value == 0 || in.Range.End < a.Range.End {
		dst.lacks = true
	}
	if b.count != 0 {
		if err := p.bringCount(dst, b, a); err != nil {
			return err
		}
	}
	dst.open(a)
	var stale run // the zero run, and none while nothing is stale
	for off := a.Range.Start; off < a.Range.End; {
		at := b.content.Get(off)
		part, v := mem.Range{Start: off, End: min(at.Range.End, a.Range.End)}, &at.Value
		lacking, by := a.Mode.Reads() && (v.poison != nil || !v.valid.Empty() && !v.valid.Has(a.Memory)), (*mapping)(nil)
		if lacking && a.Memory == mem.Host {
			part, by = b.firstMapped(part) // by: the host writes the bytes
		}
		off = part.End
		if lacking && by == nil {
			if v.poison != nil {
				return &LostError{Buffer: a.Buffer, What: fmt.Sprintf("bytes %v hold version %d", part, v.version), Poison: *v.poison}
			}
			if !stale.extend(part, v) {
				if !stale.r.Empty() {
					p.bring(dst, b, s, a, &stale)
				}
				stale = run{part, v.valid, v.version, v.version}
			}
			continue
		}
		if !stale.r.Empty() {
			p.bring(dst, b, s, a, &stale)
			stale = run{}
		}
		if s != nil {
			p.wait(dst, s, part, a.Mode, v.valid.Has(a.Memory))
		}
		if by != nil && !by.at.Succeeded() { // as for any bytes that need not come, and for the map
			dst.Waits = p.commandWaits.add(dst.Waits, 0, mem.Wait{Point: by.at, Kind: mem.Data})
		}
	}
	if !stale.r.Empty() {
		p.bring(dst, b, s, a, &stale)
	}
	return nil
}

// wait adds the command's waits for bytes that need not come. What failed on bytes that are
// worth nothing here (fresh is false) is nothing to the command. Who only reads waits for no
// reader, be there content or not.
func (p *Planner) wait(dst *Plan, s *store, r mem.Range, mode mem.Mode, fresh bool) {
	for off := r.Start; off < r.End; {
		at := s.hazards.Get(off)
		h := &at.Value
		off = at.Range.End
		switch {
		case mode == mem.Read && !fresh:
			if h.busy {
				dst.Waits = s.order(dst.Waits, 0, h, &p.commandWaits)
			} else if !h.writer.Reached() {
				dst.Waits = p.commandWaits.add(dst.Waits, 0, mem.Wait{Point: h.writer})
			}
		case mode == mem.Write || !fresh:
			dst.Waits = s.order(dst.Waits, 0, h, &p.commandWaits)
		case mode == mem.ReadWrite:
			dst.Waits = s.data(dst.Waits, 0, h, &p.commandWaits)
			dst.Waits = s.readers(dst.Waits, 0, h, &p.commandWaits)
		default:
			dst.Waits = s.data(dst.Waits, 0, h, &p.commandWaits)
		}
	}
}

// run is a contiguous stale range; one set of memories holds all of it.
type run struct {
	r              mem.Range
	valid          mem.MemorySet
	oldest, newest mem.Version
}

// extend adds the bytes r right behind the run, where they are held alike.
func (s *run) extend(r mem.Range, v *content) bool {
	if s.r.End != r.Start || s.r.Empty() || s.valid != v.valid {
		return false
	}
	s.r.End = r.End
	s.oldest, s.newest = min(s.oldest, v.version), max(s.newest, v.version)
	return true
}

// bring plans the steps of a run to where a is, whose store is to: one
// source, and as many steps as there are different waits, so that no byte waits for another's sake.
func (p *Planner) bring(dst *Plan, b *buffer, to *store, a *mem.Access, stale *run) {
	src := p.choose(dst, b, a, stale)
	from, legs := b.at(src.from), p.legs(src.from, a.Memory)
	late := b.count != 0 || to != nil && to.held != nil
	for off := stale.r.Start; off < stale.r.End; {
		st := dst.step()
		st.Buffer, st.From, st.To, st.legs = a.Buffer, src.from, a.Memory, legs
		st.After = src.after
		st.Reason = Reason{stale.oldest, stale.newest, stale.valid, src.choice}
		st.Range = mem.Range{Start: off, End: stale.r.End}
		p.gate(dst, st, from, to)
		if late {
			p.gateLate(dst, st, b, to)
		}
		st.to = int32(len(dst.arena))
		off = st.Range.End
		dst.add(st)
	}
}

// step returns a step behind the last one, to be filled in and added: it lies where it will
// stay.
func (d *Plan) step() *Step {
	n := len(d.Steps)
	if n == cap(d.Steps) {
		d.Steps = append(d.Steps, Step{})[:n]
	}
	st := &d.Steps[:n+1][n]
	*st = Step{After: -1, Export: -1, from: int32(len(d.arena))}
	return st
}

// add makes the step that step returned part of the plan, or of its last step.
func (d *Plan) add(st *Step) {
	if !d.lengthen(st) {
		d.Steps = d.Steps[:len(d.Steps)+1]
	}
}

// gate appends the waits of the bytes at the start of st.Range, and ends the
// range where other waits, or other blocks, begin.
func (p *Planner) gate(dst *Plan, st *Step, from, to *store) {
	p.stepWaits.reset()
	base := len(dst.arena)
	if st.After < 0 { // a relayed step waits for the one before instead
		h := from.hazards.Get(st.Range.Start)
		dst.arena = from.data(dst.arena, base, &h.Value, &p.stepWaits)
		st.Range.End = min(st.Range.End, h.Range.End)
	}
	end := uint64(math.MaxUint64) // of the block, or the gap
	if from != nil {
		end = from.blocks.Get(st.Range.Start).Range.End
	}
	if to != nil {
		end = min(end, to.blocks.Get(st.Range.Start).Range.End)
	}
	st.Range.End = min(st.Range.End, end)
	st.cut = st.Range.End == end
	if to != nil {
		h := to.hazards.Get(st.Range.Start)
		dst.arena = to.order(dst.arena, base, &h.Value, &p.stepWaits)
		st.Range.End = min(st.Range.End, h.Range.End)
	}
}

// lengthen lets the last step carry the bytes of st too, where st goes on right
// behind it, the same way and after the same waits.
func (d *Plan) lengthen(st *Step) bool {
	n := len(d.Steps)
	if st.kept || n == d.groups[len(d.groups)-1].step { // none in this group
		return false
	}
	last := &d.Steps[n-1]
	if last.Range.End != st.Range.Start || last.cut || !d.alike(last, st) {
		return false
	}
	last.Range.End, last.cut = st.Range.End, st.cut
	r := &last.Reason
	r.Oldest, r.Newest = min(r.Oldest, st.Reason.Oldest), max(r.Newest, st.Reason.Newest)
	r.Fresh = r.Fresh.Intersect(st.Reason.Fresh)
	d.arena = d.arena[:st.from]
	return true
}

// alike reports whether two steps differ in nothing but the range.
func (d *Plan) alike(a, b *Step) bool {
	if a.Buffer != b.Buffer || a.From != b.From || a.To != b.To || a.After != b.After || a.to-a.from != b.to-b.from || a.Late.heldTo() != b.Late.heldTo() {
		return false
	}
	for i := range a.to - a.from {
		if d.arena[a.from+i] != d.arena[b.from+i] {
			return false
		}
	}
	return true
}

// Reroute decides the ways of a plan again, once what storage it wanted is there and
// told of (Stored): whether a way is there is the storage's to say, and nobody can know it before.
// Steps that take the same bytes the same way, but by a queue that reaches both ends, name
// the first of them.
func (p *Planner) Reroute(dst *Plan) {
	gi := 0
	for i := range dst.Steps {
		for gi+1 < len(dst.groups) && dst.groups[gi+1].step <= i {
			gi++
		}
		st := &dst.Steps[i]
		st.Way, st.Export = p.way(st), -1
		if gi == 0 || st.Way == mem.Direct || st.After >= 0 || st.Late != nil {
			continue
		}
		first := dst.covering(gi, st.Buffer, st.Range, st.To, func(e *Step) bool {
			return e.From == st.From && e.Range == st.Range && e.After < 0 && e.Way == st.Way && e.Late == nil
		})
		if st.Export = first; first >= 0 && dst.Steps[first].Export >= 0 {
			st.Export = dst.Steps[first].Export
		}
	}
}
