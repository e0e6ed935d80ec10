package migration

import (
	"errors"
	"fmt"
	"slices"

	"godwit/mem"
)

// Check tests the planner's invariants:
//
//   - C1: content and hazards of every buffer tile it, merged where equal;
//   - C2: bytes that were written and not lost are valid somewhere, bytes never
//     written and poisoned bytes nowhere, and every valid memory has storage;
//   - C3: no version is above the last one given out;
//   - C7: reader lists have the length they say and no cycle;
//   - stores are in order, of existing stores, and as large as the buffer;
//   - what a store holds partly (count.go) covers the buffer, and a buffer and
//     its size buffer know of each other;
//   - what unmaps keep (undo.go) covers their ranges;
//   - free slots hold no live buffer, and the count of live ones is right.
func (p *Planner) Check() error {
	live := 0
	for i, b := range p.buffers {
		if !b.live {
			if len(b.stores) != 0 || b.content.Len() != 0 {
				return fmt.Errorf("migration: slot %d is not live and has state", i)
			}
			continue
		}
		live++
		if err := p.checkBuffer(b); err != nil {
			return fmt.Errorf("migration: %s: %w", bufferName(mem.BufferID(b.generation)<<32|mem.BufferID(i)), err)
		}
		if err := p.checkCount(b, mem.BufferID(b.generation)<<32|mem.BufferID(i)); err != nil {
			return fmt.Errorf("migration: %w", err)
		}
	}
	if live != p.stats.Buffers {
		return fmt.Errorf("migration: %d live buffers, %d counted", live, p.stats.Buffers)
	}
	if err := p.checkTable(); err != nil {
		return err
	}
	for _, i := range p.free {
		if p.buffers[i].live {
			return fmt.Errorf("migration: slot %d is free and live", i)
		}
	}
	return nil
}

func (p *Planner) checkBuffer(b *buffer) error {
	for _, m := range b.maps() {
		if m.r.Empty() || m.r.End > b.content.Size() {
			return fmt.Errorf("%v of %d bytes is mapped for writing", m.r, b.content.Size())
		}
	}
	if err := b.checkUndos(); err != nil {
		return err
	}
	if err := b.content.Check(); err != nil {
		return err
	}
	for r, c := range b.content.All() {
		switch written := c.version > 0; {
		case c.version > p.version:
			return fmt.Errorf("bytes %v have version %d, the last was %d", r, c.version, p.version)
		case written && c.poison == nil && c.valid.Empty():
			return fmt.Errorf("bytes %v of version %d are valid nowhere", r, c.version)
		case !written && (c.poison != nil || !c.valid.Empty()):
			return fmt.Errorf("bytes %v were never written, but are valid on %v or poisoned", r, c.valid)
		case c.poison != nil && !c.valid.Empty():
			return fmt.Errorf("bytes %v are poisoned and valid on %v", r, c.valid)
		case c.poison != nil && c.poison.Version != c.version:
			return fmt.Errorf("bytes %v of version %d are poisoned by version %d", r, c.version, c.poison.Version)
		}
		for m := range c.valid.All() {
			if !b.inBlocks(m, r) {
				return fmt.Errorf("bytes %v are valid on %s, where there is no storage for some", r, p.topo.Name(m))
			}
		}
	}
	for i := range b.stores {
		s := &b.stores[i]
		switch {
		case i > 0 && b.stores[i-1].memory >= s.memory:
			return fmt.Errorf("stores out of order at memory %d", s.memory)
		case p.topo.Store(s.memory) != s.memory:
			return fmt.Errorf("memory %d is no store", s.memory)
		case s.blocks.Size() != b.content.Size() || s.hazards.Size() != b.content.Size():
			return fmt.Errorf("hazards on memory %d cover %d of %d bytes", s.memory, s.hazards.Size(), b.content.Size())
		}
		if err := errors.Join(s.check(), p.checkBlocks(b, s)); err != nil {
			return fmt.Errorf("on %s: %w", p.topo.Name(s.memory), err)
		}
	}
	return nil
}

// checkUndos tests what is kept of unmaps.
func (b *buffer) checkUndos() error {
	if b.host == nil {
		return nil
	}
	for _, u := range b.host.undos {
		if u.at.IsZero() || u.version == 0 || u.r.End > b.content.Size() || u.was.Size() != u.r.Size() {
			return fmt.Errorf("the unmap %v of version %d keeps %v of %d bytes", u.at, u.version, u.r, b.content.Size())
		}
		for r, c := range u.was.All() {
			if (c.version > 0 && c.poison == nil) == c.valid.Empty() || c.version == u.version {
				return fmt.Errorf("the unmap %v keeps version %d of bytes %v, valid on %v", u.at, c.version, r.Shift(u.r.Start), c.valid)
			}
		}
		for i := range u.bound {
			if by := &u.bound[i].by; by.Size() != u.r.Size() || by.Check() != nil {
				return fmt.Errorf("the unmap %v keeps promises of %d of %d bytes (%w)", u.at, by.Size(), u.r.Size(), errors.Join(by.Check()))
			}
		}
		if err := u.was.Check(); err != nil {
			return err
		}
	}
	return nil
}

// checkCount tests the relation of size buffers.
func (p *Planner) checkCount(b *buffer, id mem.BufferID) error {
	if b.count != 0 {
		s, err := p.buffer(b.count)
		if err != nil || !slices.Contains(s.serves, id) {
			return fmt.Errorf("%s has the size buffer %s, which does not know of it", bufferName(id), bufferName(b.count))
		}
	}
	for _, of := range b.serves {
		if d, err := p.buffer(of); err != nil || d.count != id || b.count != 0 {
			return fmt.Errorf("%s counts the bytes of %s, which does not know of it", bufferName(id), bufferName(of))
		}
	}
	for i := range b.stores {
		s := &b.stores[i]
		if s.held == nil {
			continue
		}
		if err := s.held.Check(); err != nil || s.held.Size() != b.content.Size() || !b.partly {
			return fmt.Errorf("%s: what %s holds partly covers %d of %d bytes (%w)", bufferName(id), p.topo.Name(s.memory), s.held.Size(), b.content.Size(), errors.Join(err))
		}
	}
	return nil
}

func (s *store) check() error {
	if err := s.hazards.Check(); err != nil {
		return err
	}
	for r, h := range s.hazards.All() {
		if h.step && h.writer.IsZero() {
			return fmt.Errorf("bytes %v: a step without a point", r)
		}
		if h.readers[0].IsZero() && !h.readers[1].IsZero() {
			return fmt.Errorf("bytes %v: readers not filled from the front", r)
		}
		n := int32(0)
		for i := h.more; i != 0; i = s.overflow.cells[i].next {
			if want := s.overflow.cells[h.more].n - n; s.overflow.cells[i].n != want || want <= 0 || s.overflow.cells[i].point.IsZero() {
				return fmt.Errorf("bytes %v: reader %d of a list says that %d are left, not %d", r, n, s.overflow.cells[i].n, want)
			}
			n++
		}
	}
	return nil
}
