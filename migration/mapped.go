package migration

import (
	"fmt"

	"godwit/mem"
)

// What the host has mapped for writing. From the map to its unmap the host's bytes
// of that range are, or are about to be, newer than the content, which a map that
// invalidates leaves as it is: they look stale while the host writes them. So no
// step goes over them, and nothing rides along into the host. A command that reads
// them on the host finds what the host has written, also where the content is lost,
// and waits for the map as Data: where that fails, nobody has written anything.
//
// A count that the host has mapped for writing is nobody's: neither the old nor
// the new one. Until the unmap, all bytes count. Copies that were made by the old
// count are told from whole ones no more, so the map ends it as any write does.

// hostUse is what the host does with a buffer.
type hostUse struct {
	maps        []mapping // for writing, not unmapped
	undos, free []*undo   // of unmaps; to be used anew
}

// mapping is a range that the host has mapped for writing.
type mapping struct {
	r      mem.Range
	at     mem.Point // of the map's command
	failed bool      // Fail was told of it, so that the host writes nothing
}

// Mapped tells that the host may write bytes of a buffer that nobody will have
// told of before its unmap: from the point of the map's command on, unless Fail
// is told of that, until Unmapped. No step is planned into the host's bytes of the range
// until then. It fails with mem.ErrInvalidBuffer or mem.ErrInvalidValue where
// there is no such buffer or range. Ranges may overlap.
func (p *Planner) Mapped(id mem.BufferID, r mem.Range, at mem.Point) error {
	b, err := p.inside(id, r)
	if err != nil {
		return err
	}
	h := b.use()
	h.maps = append(h.maps, mapping{r: r, at: at})
	if len(b.serves) > 0 && r.Start < CountSize {
		p.recounted(b)
	}
	p.edits++
	return nil
}

// Unmapped tells that what Mapped told of exactly that range and that point, once, has
// ended: of a range there may be several maps, one that has failed and its successor.
// It fails with mem.ErrInvalidBuffer where there is no such buffer, and with
// mem.ErrInvalidValue where that map does not exist.
func (p *Planner) Unmapped(id mem.BufferID, r mem.Range, at mem.Point) error {
	b, err := p.buffer(id)
	if err != nil {
		return err
	}
	maps := b.maps()
	for i := range maps {
		if maps[i].r == r && maps[i].at == at {
			last := len(maps) - 1
			maps[i], maps[last] = maps[last], mapping{}
			b.host.maps = maps[:last]
			p.edits++
			return nil
		}
	}
	return fmt.Errorf("%s: %v is not mapped for writing by %v: %w", bufferName(id), r, at, mem.ErrInvalidValue)
}

// Written tells that a memory's bytes of a range are the latest content from now on,
// though no command says so: what the host has written under a map that ends without
// an unmap. Whoever uses them there goes on. It fails like Mapped, and with
// mem.ErrInvalidValue where there is no such memory.
func (p *Planner) Written(id mem.BufferID, m mem.MemoryID, r mem.Range) error {
	b, err := p.inside(id, r)
	if err == nil {
		m, err = p.store(m)
	}
	if err != nil {
		return err
	}
	p.version++
	b.content.Set(r, content{version: p.version, valid: mem.SetOf(m)})
	if b.partly {
		b.forget(r)
	}
	if len(b.serves) > 0 && r.Start < CountSize {
		p.recounted(b)
	}
	p.edits++
	return nil
}

// Maps is how many ranges of a buffer the host has mapped for writing; 0 where there
// is no such buffer.
func (p *Planner) Maps(id mem.BufferID) int {
	b, err := p.buffer(id)
	if err != nil {
		return 0
	}
	return len(b.maps())
}

// hostWrites reports whether bytes at a destination may be newer than anybody
// has been told: the host's, while it has some of them mapped.
func (b *buffer) hostWrites(m mem.MemoryID) bool { return m == mem.Host && len(b.maps()) > 0 }

// maps are those for writing.
func (b *buffer) maps() []mapping {
	if b.host == nil {
		return nil
	}
	return b.host.maps
}

// use is what the host does with a buffer, be it nothing yet.
func (b *buffer) use() *hostUse {
	if b.host == nil {
		b.host = &hostUse{}
	}
	return b.host
}

// firstMapped returns the start of r as far as one map for writing covers it, and
// that map, or as far as none does. A map that is known to have failed is none.
func (b *buffer) firstMapped(r mem.Range) (first mem.Range, by *mapping) {
	first = r
	maps := b.maps()
	for i := range maps {
		m := &maps[i]
		switch {
		case m.failed || !m.r.Overlaps(first):
		case m.r.Start <= r.Start:
			return m.r.Intersect(r), m
		default:
			first.End = m.r.Start
		}
	}
	return first, nil
}

// anyUnmapped reports whether the host has not mapped all of r for writing.
func (b *buffer) anyUnmapped(r mem.Range) bool {
	for !r.Empty() {
		first, by := b.firstMapped(r)
		if by == nil {
			return true
		}
		r.Start = first.End
	}
	return false
}

// countMapped reports whether the host may be writing the count that b holds.
func (b *buffer) countMapped() bool {
	for i := range b.maps() {
		if m := &b.maps()[i]; !m.failed && m.r.Overlaps(countRange) {
			return true
		}
	}
	return false
}
