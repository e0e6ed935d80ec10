package migration

import (
	"slices"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// Unmaps whose map may yet fail. An unmap of a range mapped for writing is a write
// on the host, planned before anybody knows whether the host gets to write. Where
// the map fails, the host has written nothing and the unmap fails with it: the
// content is what it was before. So what the unmap replaces is kept beside it until
// the map is known to have succeeded, and put back where the unmap is told to have
// failed for its map's sake and nothing has overwritten its version since.
//
// That is sound since a step of the unmap's version, to wherever, waits for the
// unmap as Data, and so never starts: who held the old content holds it still.
// Later writers there wait for such a step all the same, since it has taken the
// place of those that it waited for.
//
// What is kept is kept up to date: failures of who wrote it, storage that is given
// up, and other unmaps that are taken back, whose version it may hold. Memories
// that hold the old content only as far as a count says are not kept.

// undo is what one unmap has replaced. The offsets of its maps are those of r.
type undo struct {
	r       mem.Range
	at, on  mem.Point   // of the unmap, and of the map
	version mem.Version // of the unmap
	was     rangemap.Map[content]
	bound   []promises // for every memory that may hold some of it
}

// promises say on whose success it hangs that a memory holds bytes.
type promises struct {
	memory mem.MemoryID
	by     rangemap.Map[promise]
}

// promise is the writer of a hazard; the zero one is kept.
type promise struct {
	writer mem.Point
	step   bool
}

// CommitUnmap is Commit for an unmap of a range that the host has mapped for
// writing; on is the point of the map, which need not have ended. Where the map
// fails, and the command with it, Fail makes the content what it was before.
func (p *Planner) CommitUnmap(plan *Plan, at, on mem.Point) mem.Version {
	if on.Succeeded() {
		return p.Commit(plan, at)
	}
	first := len(p.keeping)
	for _, a := range plan.Accesses {
		if a.Mode.Writes() {
			p.keeping = append(p.keeping, p.buffers[uint32(a.Buffer)].keep(a.Range, at, on))
		}
	}
	version := p.Commit(plan, at)
	for _, u := range p.keeping[first:] {
		u.version = version
	}
	clear(p.keeping[first:])
	p.keeping = p.keeping[:first]
	return version
}

// keep notes what r is worth now.
func (b *buffer) keep(r mem.Range, at, on mem.Point) *undo {
	h := b.use()
	h.retire()
	u := h.spare()
	u.r, u.at, u.on, u.was = r, at, on, rangemap.Make(r.Size(), b.content.Get(r.Start).Value)
	for part, c := range b.content.In(r) {
		u.was.Set(part.Shift(-r.Start), *c)
		for m := range c.valid.All() {
			u.bind(b.at(m), part)
		}
	}
	h.undos = append(h.undos, u)
	return u
}

// bind notes on whom it hangs that a store holds part of the buffer.
func (u *undo) bind(s *store, part mem.Range) {
	to := u.boundOf(s.memory)
	for r, h := range s.hazards.In(part) {
		if !h.writer.Succeeded() {
			to.Set(r.Shift(-u.r.Start), promise{h.writer, h.step})
		}
	}
	if s.held == nil {
		return
	}
	for r, c := range s.held.In(part) {
		if *c != nil {
			u.drop(r.Shift(-u.r.Start), s.memory, false, nil)
		}
	}
}

// boundOf returns the promises of a memory, which it adds where it has to.
func (u *undo) boundOf(m mem.MemoryID) *rangemap.Map[promise] {
	for i := range u.bound {
		if u.bound[i].memory == m {
			return &u.bound[i].by
		}
	}
	u.bound = append(u.bound, promises{m, rangemap.Make(u.r.Size(), promise{})})
	return &u.bound[len(u.bound)-1].by
}

// drop takes a memory, or where all is set every one, from those that hold r of
// what is kept.
func (u *undo) drop(r mem.Range, m mem.MemoryID, all bool, lost *loss) {
	u.was.Update(r, func(_ mem.Range, c content) content {
		if !c.valid.Has(m) {
			return c
		}
		if c.valid = c.valid.Without(m); all {
			c.valid = mem.MemorySet{}
		}
		if c.valid.Empty() {
			c.poison = &loss{Version: c.version, Cause: errBeyond}
			if lost != nil {
				c.poison.Point, c.poison.Cause = lost.Point, lost.Cause
			}
		}
		return c
	})
}

// fail is Planner.Fail for what is kept.
func (u *undo) fail(lost *loss) {
	for i := range u.bound {
		b := &u.bound[i]
		for r, p := range b.by.All() {
			if p.writer == lost.Point {
				u.drop(r, b.memory, !p.step, lost)
			}
		}
		b.by.Update(mem.Range{End: u.r.Size()}, func(_ mem.Range, p promise) promise {
			if p.writer == lost.Point {
				return promise{}
			}
			return p
		})
	}
}

// failUndo is Planner.Fail for a buffer's unmaps: one that failed for its map's
// sake is taken back, in the content and in what other unmaps keep.
func (b *buffer) failUndo(lost *loss) {
	h := b.host
	i := slices.IndexFunc(h.undos, func(u *undo) bool { return u.at == lost.Point })
	if i >= 0 && h.undos[i].on.Err() != nil {
		u := h.undos[i]
		b.restore(u)
		for _, o := range h.undos {
			if o != u {
				o.take(u)
			}
		}
	}
	if i >= 0 { // told of: it is over
		h.free = append(h.free, h.undos[i])
		h.undos = slices.Delete(h.undos, i, i+1)
	}
	for _, u := range h.undos {
		u.fail(lost)
	}
}

// putBack puts what u has kept of a range back into a map that begins at start, where the content there
// is of u's version, and calls then for each part where it was.
func (u *undo) putBack(into *rangemap.Map[content], start uint64, in mem.Range, then func(mem.Range)) {
	for off := in.Start; off < in.End; {
		c := into.Get(off - start)
		r := c.Range.Shift(start).Intersect(in)
		if off = r.End; c.Value.version != u.version {
			continue
		}
		for part, c := range u.was.In(r.Shift(-u.r.Start)) {
			into.Set(part.Shift(u.r.Start-start), *c)
		}
		then(r)
	}
}

// restore puts back what u has kept.
func (b *buffer) restore(u *undo) {
	u.putBack(&b.content, 0, u.r, func(r mem.Range) {
		for i := range u.bound {
			if s := b.at(u.bound[i].memory); s != nil {
				s.rebind(&u.bound[i].by, r, u.r.Start)
			}
		}
	})
}

// rebind makes the promises of r those that were kept. Who has written since is
// one that later writers wait for, and nobody else.
func (s *store) rebind(by *rangemap.Map[promise], r mem.Range, start uint64) {
	s.overflow.collect(&s.hazards)
	for part, p := range by.In(r.Shift(-start)) {
		s.hazards.Update(part.Shift(start), func(_ mem.Range, h hazard) hazard {
			if h.writer != p.writer {
				since := h.writer
				h.writer, h.step, h.from = p.writer, p.step, 0
				s.reader(&h, since)
			}
			return h
		})
	}
	s.hold(r, nil)
}

// take makes what u keeps of another unmap's version what that has kept.
func (u *undo) take(from *undo) {
	from.putBack(&u.was, u.r.Start, u.r.Intersect(from.r), func(r mem.Range) {
		for i := range u.bound {
			u.bound[i].by.Set(r.Shift(-u.r.Start), promise{})
		}
		for i := range from.bound {
			to := u.boundOf(from.bound[i].memory)
			for part, p := range from.bound[i].by.In(r.Shift(-from.r.Start)) {
				to.Set(part.Shift(from.r.Start-u.r.Start), *p)
			}
		}
	})
}

// unstoredUndo notes that a memory holds nothing of a range of a buffer any more.
func (b *buffer) unstoredUndo(m mem.MemoryID, gone mem.Range) {
	if b.host == nil {
		return
	}
	for _, u := range b.host.undos {
		if r := u.r.Intersect(gone); !r.Empty() {
			u.drop(r.Shift(-u.r.Start), m, false, nil)
			u.boundOf(m).Set(r.Shift(-u.r.Start), promise{})
		}
	}
}

// retire forgets the undos whose map has succeeded. The others go when their
// unmaps are told of.
func (h *hostUse) retire() {
	kept := h.undos[:0]
	for _, u := range h.undos {
		if u.on.Succeeded() {
			h.free = append(h.free, u)
		} else {
			kept = append(kept, u)
		}
	}
	clear(h.undos[len(kept):])
	h.undos = kept
}

// spare is an undo to be used anew.
func (h *hostUse) spare() *undo {
	n := len(h.free)
	if n == 0 {
		return &undo{}
	}
	u := h.free[n-1]
	h.free = h.free[:n-1]
	u.bound = u.bound[:0]
	return u
}
