package migration

import (
	"math"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// store is one buffer on one memory: which blocks it has there, and what has to be waited
// for before its bytes are used.
type store struct {
	memory   mem.MemoryID
	n        int                 // its blocks
	blocks   rangemap.Map[int32] // place in Planner.blocks + 1, 0 where there is no block
	hazards  rangemap.Map[hazard]
	overflow overflow
	cursor   uint64                    // where the next sweep goes on
	due      int                       // commits since the last one
	held     *rangemap.Map[*carriedTo] // what it holds partly; nil where nothing ever was, see count.go
}

// hazard is who used a byte of a store last. Readers on one in-order queue
// collapse to the latest; two points fit, older ones go to the overflow.
type hazard struct {
	writer  mem.Point
	readers [2]mem.Point // filled from the front, newest first
	more    int32        // a list in the store's overflow, 0 where there is none
	step    bool         // the writer was a step, not a command
	from    origin       // where the writer, a step, has the bytes from
	busy    bool         // among the readers are those who had the bytes before, for others (Stored)
}

// origin is the memory that a step brings bytes from, as long as its block there is what the
// step reads; 0 where it is not known, else one more than the memory. It is as small as it is
// for the sake of hazard's size.
type origin uint16

// originOf is the origin that a memory is.
func originOf(m mem.MemoryID) origin {
	if m >= math.MaxUint16 {
		return 0
	}
	return origin(m + 1)
}

// sweep is how many segments of a cut-up store are looked at, beside those that are
// touched, for each commit, and sweepEvery how many commits are caught up on at once:
// finding the place costs more than a segment does. A commit cuts at most two new ones
// for each range, so that three are enough to keep up.
const (
	sweep      = 4
	sweepEvery = 16
)

// data appends the wait of who reads the bytes of h: the writer must have
// succeeded.
func (s *store) data(waits []mem.Wait, base int, h *hazard, ix *waitIndex) []mem.Wait {
	if h.writer.IsZero() || h.writer.Succeeded() {
		return waits
	}
	return ix.add(waits, base, mem.Wait{Point: h.writer, Kind: mem.Data})
}

// order appends the waits of who writes the bytes of h: writer and readers must
// have ended.
func (s *store) order(waits []mem.Wait, base int, h *hazard, ix *waitIndex) []mem.Wait {
	if !h.writer.Reached() {
		waits = ix.add(waits, base, mem.Wait{Point: h.writer})
	}
	return s.readers(waits, base, h, ix)
}

// readers appends the waits of who changes bytes that others may be reading.
func (s *store) readers(waits []mem.Wait, base int, h *hazard, ix *waitIndex) []mem.Wait {
	for _, r := range h.readers {
		if !r.Reached() {
			waits = ix.add(waits, base, mem.Wait{Point: r})
		}
	}
	for i := h.more; i != 0; i = s.overflow.cells[i].next {
		if r := s.overflow.cells[i].point; !r.Reached() {
			waits = ix.add(waits, base, mem.Wait{Point: r})
		}
	}
	return waits
}

// wrote makes at the last writer of r, which forgets the readers: whoever waits
// for at has waited for them.
func (s *store) wrote(r mem.Range, at mem.Point, step bool, from origin) {
	if at.Succeeded() { // nobody has to wait for it
		at, step, from = mem.Point{}, false, 0
	}
	if h := s.hazards.Whole(r); h != nil {
		h.writer, h.step, h.from = at, step, from
		h.readers, h.more, h.busy = [2]mem.Point{}, 0, false
		return
	}
	s.hazards.Set(r, hazard{writer: at, step: step, from: from})
	s.sweep()
}

// read adds at to the readers of r.
func (s *store) read(r mem.Range, at mem.Point) {
	if at.Reached() { // nobody has to wait for it
		s.sweep()
		return
	}
	s.overflow.collect(&s.hazards)
	if h := s.hazards.Whole(r); h != nil {
		s.retire(h)
		s.reader(h, at)
		return
	}
	var seen, made hazard // segments that were equal stay so
	first := true
	s.hazards.Update(r, func(_ mem.Range, h hazard) hazard {
		if first || h != seen {
			first, seen = false, h
			s.retire(&h)
			s.reader(&h, at)
			made = h
		}
		return made
	})
	s.sweep()
}

// reader adds at to the readers of h.
func (s *store) reader(h *hazard, at mem.Point) {
	if at.Reached() {
		return
	}
	a, b := h.readers[0], h.readers[1]
	switch {
	case a.IsZero() || a.Before(at):
		h.readers[0] = at
	case at.Before(a) || at.Before(b):
	case b.IsZero() || b.Before(at):
		h.readers = [2]mem.Point{at, a}
	default:
		h.readers = [2]mem.Point{at, a}
		h.more = s.overflow.add(h.more, b)
	}
}

// retire forgets the points of h that nobody has to wait for any more. A writer
// that failed stays until Fail has seen it.
func (s *store) retire(h *hazard) {
	if !h.writer.IsZero() && h.writer.Succeeded() {
		h.writer, h.step, h.from = mem.Point{}, false, 0
	}
	if h.readers[0] == (mem.Point{}) && h.more == 0 {
		return
	}
	if h.readers[1].Reached() {
		h.readers[1] = mem.Point{}
	}
	if h.readers[0].Reached() {
		h.readers = [2]mem.Point{h.readers[1], {}}
	}
	if h.more != 0 && s.overflow.cells[h.more].point.Reached() {
		h.more = s.overflow.prune(h.more)
	}
	h.busy = h.busy && (h.more != 0 || h.readers[0] != mem.Point{})
}

// retired is retire as Update wants it.
func (s *store) retired(_ mem.Range, h hazard) hazard {
	s.retire(&h)
	return h
}

// retirable reports whether retire would change h.
func (s *store) retirable(h *hazard) bool {
	return !h.writer.IsZero() && h.writer.Succeeded() ||
		!h.readers[0].IsZero() && h.readers[0].Reached() ||
		!h.readers[1].IsZero() && h.readers[1].Reached() ||
		h.more != 0 && s.overflow.cells[h.more].point.Reached()
}

// sweep retires a few segments now and then, going round the store.
func (s *store) sweep() {
	if s.hazards.Len() == 1 {
		return
	}
	if s.due++; s.due < sweepEvery {
		return
	}
	s.due = 0
	if s.cursor >= s.hazards.Size() {
		s.cursor = 0
	}
	var r mem.Range // of what is to be retired
	looked := 0
	for at, h := range s.hazards.In(mem.Range{Start: s.cursor, End: s.hazards.Size()}) {
		s.cursor = at.End
		if s.retirable(h) {
			if r.Empty() {
				r.Start = at.Start
			}
			r.End = at.End
		}
		if looked++; looked == sweep*sweepEvery {
			break
		}
	}
	s.hazards.Update(r, s.retired)
}
