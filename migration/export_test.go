package migration

import (
	"slices"

	"godwit/mem"
)

// Hazard is a row of Planner.Hazards: who has to be waited for.
type Hazard struct {
	Range   mem.Range
	Writer  mem.Point   // zero where there is none
	Step    bool        // the writer is a step
	Readers []mem.Point // since the writer
}

// Hazards returns the points that use a buffer's bytes on a memory and have not
// been retired, in ascending order of the bytes. It fails with
// mem.ErrInvalidBuffer or mem.ErrInvalidValue where there is no such buffer or
// memory; a memory where the buffer never was has no rows.
func (p *Planner) Hazards(id mem.BufferID, m mem.MemoryID) ([]Hazard, error) {
	b, m, err := p.where(id, m)
	if err != nil {
		return nil, err
	}
	s := b.at(m)
	if s == nil {
		return nil, nil
	}
	var out []Hazard
	for r, h := range s.hazards.All() {
		row := Hazard{Range: r, Writer: h.writer, Step: h.step}
		for _, p := range h.readers {
			if !p.IsZero() {
				row.Readers = append(row.Readers, p)
			}
		}
		for i := h.more; i != 0; i = s.overflow.cells[i].next {
			row.Readers = append(row.Readers, s.overflow.cells[i].point)
		}
		out = append(out, row)
	}
	return out, nil
}

// Stores returns the memories where a buffer has storage; the empty set where
// there is no such buffer.
func (p *Planner) Stores(id mem.BufferID) mem.MemorySet {
	var out mem.MemorySet
	if b, err := p.buffer(id); err == nil {
		for i := range b.stores {
			if b.stores[i].n > 0 {
				out = out.With(b.stores[i].memory)
			}
		}
	}
	return out
}

// Choices that tests name.
const (
	ByWay    = byWay
	ByTime   = byTime
	ByLoad   = byLoad
	ByNumber = byNumber
	ByRelay  = byRelay
)

// Retire forgets every point of every buffer on some memories, or on all, that has been reached, which
// commits do little by little: so tests see that nothing of them is left.
func (p *Planner) Retire(on ...mem.MemoryID) {
	for _, b := range p.buffers {
		for i := range b.stores {
			s := &b.stores[i]
			if len(on) > 0 && !slices.Contains(on, s.memory) {
				continue
			}
			s.hazards.Update(mem.Range{End: s.hazards.Size()}, s.retired)
		}
	}
}

// Unlink makes a size buffer forget whose bytes it counts, for a test of Check.
func (p *Planner) Unlink(size mem.BufferID) { p.buffers[uint32(size)].serves = nil }
