package migration

import (
	"fmt"

	"godwit/eviction"
	"godwit/mem"
)

// Regrow: a new block takes the place of those that it overlaps. Whoever carries it out
//
//  1. has the new block, whose space may be in use by others until some points;
//  2. does what Leaves says, where the new block does not hold all that the old ones do:
//     the rest leaves like a victim, but for its block;
//  3. submits the copies of Regrow, from the old blocks into the new one;
//  4. once all are accepted: asks for the points that use the old blocks (Points), says
//     so (Regrown), and frees the old blocks after these.
//
// Stopping before 4 is no error and needs no undoing: a copy that was accepted is a reader
// of an old block (CommitStep), and the new one is freed after it.
//
// The content is what it was, and where it was. From 4 on it hangs on the copies: they are
// promises like steps'. Where one fails, its memory holds these bytes no more, and those
// that nobody else holds are poisoned with its cause: the old block is gone.

// Leaves fills dst with what has to be done so that what w's blocks hold beside it can
// leave, and reports whether it can. Nothing changes.
func (p *Planner) Leaves(dst *Eviction, w *Want, room Room) bool {
	p.begin(dst)
	b := p.buffers[uint32(w.Buffer)]
	s, in := b.at(w.Memory), w.Range
	for k := range p.blocksIn(s, in) {
		for _, part := range [2]mem.Range{{Start: k.r.Start, End: in.Start}, {Start: in.End, End: k.r.End}} {
			if part.Empty() {
				continue
			}
			v := p.victim(k)
			v.Range, v.Part = part, true
			v.Fresh, v.Back = b.worth(s, part)
			if p.addVictim(dst, v, room) != eviction.Goes {
				return false
			}
		}
	}
	p.planBacks(dst)
	return true
}

// Keep makes a want hold all that the blocks hold that it overlaps.
func (p *Planner) Keep(w *Want) {
	b := p.buffers[uint32(w.Buffer)]
	w.Range = w.Span
	for k := range p.blocksIn(b.at(w.Memory), w.Span) {
		w.Range = hull(w.Range, k.r)
	}
}

// Widen makes a want hold the whole buffer, where what it is made for is half of the buffer or
// more, and it takes the place of other blocks or holds all that the one block there does not. It
// reports whether it is wider now. A window that large cannot slide far: the whole is less than
// another exchange would need, with the old and the new block, and no exchange follows it. Two
// blocks side by side would be exchanged by the first window that lies in both, when more of them
// has to be copied, and would hold no less.
func (p *Planner) Widen(w *Want) bool {
	b := p.buffers[uint32(w.Buffer)]
	size := b.content.Size()
	if w.Range.Size() == size || w.Span.Size() < size-size/2 || size > p.opts.largest(w.Memory) {
		return false
	}
	if !p.Exchanges(w) && !b.holdsRest(w) {
		return false
	}
	w.Range = mem.Range{End: size}
	return true
}

// Again makes a want hold what a block of the buffer held that had to leave, where what it is made for
// is half of that or more, and nothing of it is there: who grew a block before its room was
// needed would exchange it again, and where memory is short have others leave for two blocks in place of one. It
// reports whether it is wider now.
func (p *Planner) Again(w *Want) bool {
	b := p.buffers[uint32(w.Buffer)]
	was := b.was
	if !was.Contains(w.Range) || was == w.Range || w.Span.Size() < was.Size()-was.Size()/2 || was.Size() > p.opts.largest(w.Memory) ||
		!b.byRange(w.Memory) || !p.empty(b, w.Memory, was) {
		return false
	}
	w.Range = was
	return true
}

// holdsRest reports whether one block holds all of the buffer that a want does not.
func (b *buffer) holdsRest(w *Want) bool {
	s := b.at(w.Memory)
	switch size := b.content.Size(); {
	case s == nil || s.n != 1:
		return false
	case w.Range.Start == 0:
		return s.covers(mem.Range{Start: w.Range.End, End: size})
	case w.Range.End == size:
		return s.covers(mem.Range{End: w.Range.Start})
	}
	return false
}

// Exchanges reports whether there are blocks that overlap a wanted one.
func (p *Planner) Exchanges(w *Want) bool {
	return !p.empty(p.buffers[uint32(w.Buffer)], w.Memory, w.Range)
}

// Regrow fills dst with the copies from the blocks that a wanted one overlaps into it: what
// is valid there. They wait for who wrote it, each byte for no others (C9), and until whose
// space it was has ended. Nothing changes.
func (p *Planner) Regrow(dst *Plan, w *Want, until []mem.Point) {
	dst.reset()
	b := p.buffers[uint32(w.Buffer)]
	s, in := b.at(w.Memory), w.Range
	if b.host != nil {
		b.host.retire()
	}
	dst.groups = append(dst.groups, group{w.Buffer, w.Memory, in.End, 0})
	for r, v := range b.content.In(in) {
		taken := b.unmapped(v.version)
		for off := r.Start; off < r.End; {
			st := dst.step()
			st.Buffer, st.From, st.To, st.Way = w.Buffer, w.Memory, w.Memory, mem.Direct
			st.Reason = Reason{v.version, v.version, v.valid, forExchange}
			end := s.blocks.Get(off).Range.End
			st.Range = mem.Range{Start: off, End: min(r.End, end)}
			p.stepWaits.reset()
			moves := p.gateMove(dst, st, b, s, v, taken)
			for _, at := range until {
				if !at.Reached() {
					dst.arena = p.stepWaits.add(dst.arena, int(st.from), mem.Wait{Point: at})
				}
			}
			st.to = int32(len(dst.arena))
			off = st.Range.End
			st.cut = st.kept || off == end
			st.drops = st.kept && v.valid.Has(w.Memory) && v.valid != mem.SetOf(w.Memory)
			if moves {
				dst.add(st)
			} else {
				dst.arena = dst.arena[:st.from]
			}
		}
	}
	dst.finish()
	dst.edits = p.edits
}

// gateMove appends the waits of the bytes at the start of st.Range, ends the range where
// others begin, and reports whether they are to be copied. Where an unmap that may yet be
// taken back counts on bytes of the block, they are copied as they are, whatever the
// content is: after who wrote there last, and as Data after whom they hang on.
func (p *Planner) gateMove(dst *Plan, st *Step, b *buffer, s *store, v *content, taken bool) bool {
	base := int(st.from)
	h := s.hazards.Get(st.Range.Start)
	st.Range.End = min(st.Range.End, h.Range.End)
	if taken {
		for _, u := range b.host.undos {
			by, here := u.bindOf(s.memory, &st.Range)
			if !here {
				continue
			}
			st.kept = true
			if !by.writer.IsZero() && !by.writer.Succeeded() {
				dst.arena = p.stepWaits.add(dst.arena, base, mem.Wait{Point: by.writer, Kind: mem.Data})
			}
		}
	}
	if st.kept {
		if w := h.Value.writer; !w.Reached() {
			dst.arena = p.stepWaits.add(dst.arena, base, mem.Wait{Point: w})
		}
		return true
	}
	partly := false // up to an earlier count, so that the rest is all that has to come
	if s.held != nil {
		c := s.held.Get(st.Range.Start)
		partly = c.Value != nil
		st.Range.End = min(st.Range.End, c.Range.End)
	}
	if partly || v.valid.Has(s.memory) {
		dst.arena = s.data(dst.arena, base, &h.Value, &p.stepWaits)
		return true
	}
	return false
}

// unmapped reports whether a version is that of an unmap that may yet be taken back.
func (b *buffer) unmapped(v mem.Version) bool {
	if b.host == nil {
		return false
	}
	for _, u := range b.host.undos {
		if u.version == v {
			return true
		}
	}
	return false
}

// bindOf says on whom it hangs that a memory holds the start of r of what is kept, cuts r to
// where that is so, or is not, and reports whether it does.
func (u *undo) bindOf(m mem.MemoryID, r *mem.Range) (promise, bool) {
	in := u.r.Intersect(*r)
	switch {
	case in.Empty():
		return promise{}, false
	case in.Start > r.Start:
		r.End = in.Start
		return promise{}, false
	}
	at := r.Start - u.r.Start
	was := u.was.Get(at)
	r.End = min(r.End, was.Range.End+u.r.Start)
	if !was.Value.valid.Has(m) {
		return promise{}, false
	}
	for i := range u.bound {
		if u.bound[i].memory == m {
			by := u.bound[i].by.Get(at)
			r.End = min(r.End, by.Range.End+u.r.Start)
			return by.Value, true
		}
	}
	return promise{}, true
}

// Regrown says that a wanted block has taken the place of those that it overlapped: what
// they had beside it has left (Evicted), and the copies that Regrow planned were accepted,
// to end at the points. Its space is in use until others' points. The caller frees the old
// blocks. It panics like CommitStep, and where content would be valid in no block.
func (p *Planner) Regrown(w *Want, class mem.Class, copies *Plan, points []mem.Point, until ...mem.Point) {
	p.current(copies)
	b := p.buffers[uint32(w.Buffer)]
	in, s := w.Range, b.at(w.Memory)
	gone, used := in, uint64(0)
	for k := range p.blocksIn(s, in) {
		gone, used = hull(gone, k.r), max(used, k.used)
	}
	p.exchange(b, w, class).used = used
	s.hazards.Set(gone, hazard{})
	s.holdOnly(gone, copies.Steps)
	s.seed(in, until)
	b.orphan(w.Memory, gone)
	p.edits++
	p.stats.Regrows++
	for i := range copies.Steps {
		st := &copies.Steps[i]
		s.wrote(st.Range, points[i], true, 0)
		p.stats.BytesRegrown += st.Range.Size()
		if st.kept {
			s.hold(st.Range, nil)
			b.rebound(s.memory, st.Range, points[i])
		}
	}
	for _, part := range [2]mem.Range{{Start: gone.Start, End: in.Start}, {Start: in.End, End: gone.End}} {
		for r, c := range b.content.In(part) {
			if c.valid.Has(w.Memory) {
				panic(fmt.Sprintf("migration: %s on %s: bytes %v lose their block, and are valid there", bufferName(w.Buffer), p.topo.Name(w.Memory), r))
			}
		}
	}
}

// holdOnly forgets what a store holds partly of r, but for what the steps copy as it is.
func (s *store) holdOnly(r mem.Range, steps []Step) {
	if s.held == nil {
		return
	}
	for i := range steps {
		s.held.Set(mem.Range{Start: r.Start, End: steps[i].Range.Start}, nil)
		r.Start = steps[i].Range.End
	}
	s.held.Set(r, nil)
}

// exchange puts the wanted block in the place of those that it overlaps. For a moment there
// are both.
func (p *Planner) exchange(b *buffer, w *Want, class mem.Class) *block {
	f := &p.footprints[w.Memory]
	f.add(w.Range.Size(), 0)
	f.now -= w.Range.Size()
	s := b.at(w.Memory)
	s.n++ // it never has none
	p.removeBlocks(b, s, w.Range)
	k := p.addBlock(b, uint32(w.Buffer), w.Memory, w.Range, w.Span, class)
	s.n--
	return k
}

// Drops reports whether a memory holds the latest content of a copy's bytes no more once its
// block is exchanged, though it did: the bytes are copied as they are, for the sake of an
// unmap that may be taken back, and what they are then is not known. The host holds them.
func (s *Step) Drops() bool { return s.drops }

// rebound notes that what unmaps keep of a memory's bytes hangs on a copy into its new
// block from now on. The unmaps' own version, which the host has, is not in it for certain (Step.Drops).
func (b *buffer) rebound(m mem.MemoryID, r mem.Range, at mem.Point) {
	for _, u := range b.host.undos {
		part := u.r.Intersect(r)
		if part.Empty() {
			continue
		}
		if u.was.Get(part.Start - u.r.Start).Value.valid.Has(m) {
			u.boundOf(m).Set(part.Shift(-u.r.Start), promise{at, true})
		}
	}
	b.content.Update(r, func(_ mem.Range, c content) content {
		if rest := c.valid.Without(m); !rest.Empty() {
			c.valid = rest
		}
		return c
	})
}
