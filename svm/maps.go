package svm

import (
	"fmt"
	"slices"

	"godwit/mem"
)

// MapFlags say what the host does with a map. The bits are OpenCL's
// cl_map_flags.
type MapFlags uint64

// The map flags. MapWriteInvalidate promises that every byte is written, so that
// the old content is not brought; it excludes the others.
const (
	MapRead            MapFlags = 1 << 0 // CL_MAP_READ
	MapWrite           MapFlags = 1 << 1 // CL_MAP_WRITE
	MapWriteInvalidate MapFlags = 1 << 2 // CL_MAP_WRITE_INVALIDATE_REGION
)

// Check fails with mem.ErrInvalidValue where flags are none, unknown or
// contradict.
func (f MapFlags) Check() error {
	if unknown := f &^ (MapRead | MapWrite | MapWriteInvalidate); unknown != 0 || f == 0 {
		return fmt.Errorf("map flags %#x: read, write or write-invalidate is wanted: %w", uint64(f), mem.ErrInvalidValue)
	}
	if f&MapWriteInvalidate != 0 && f != MapWriteInvalidate {
		return fmt.Errorf("map flags %#x: write-invalidate excludes read and write: %w", uint64(f), mem.ErrInvalidValue)
	}
	return nil
}

// Writes reports whether the host may write.
func (f MapFlags) Writes() bool { return f&(MapWrite|MapWriteInvalidate) != 0 }

// Mode is what a map does on the host.
func (f MapFlags) Mode() mem.Mode {
	switch {
	case f&MapWriteInvalidate != 0:
		return mem.Write
	case f&MapWrite != 0:
		return mem.ReadWrite
	}
	return mem.Read
}

// Map is the host's right to touch a range of a block. Which maps may exist at once is
// its owner's to say: here rights add up.
type Map struct {
	a     *Arena    // immutable
	b     *block    // immutable
	r     mem.Range // immutable: addresses
	flags MapFlags  // immutable

	granted bool // protected by a.mu
	gone    bool // protected by a.mu
}

// Map records that size bytes at p are to be mapped; the host's rights come with
// Grant and end with Drop. Its errors are Lookup's, and mem.ErrInvalidValue where size
// is 0, the bytes leave the block or flags are bad.
func (a *Arena) Map(p Pointer, size uint64, f MapFlags) (*Map, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.find(p)
	if err != nil {
		return nil, err
	}
	if size == 0 || !b.Contains(p, size) {
		return nil, fmt.Errorf("map of %d bytes at %v of %s: it must be some bytes of it: %w", size, p, b.label(), mem.ErrInvalidValue)
	}
	m := &Map{a: a, b: b, r: mem.Range{Start: uint64(p), End: uint64(p) + size}, flags: f}
	b.maps = append(b.maps, m)
	a.tell(b)
	return m, nil
}

// Grant gives the host its rights. On a map that was dropped meanwhile, it does
// nothing.
func (m *Map) Grant() error {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	if m.gone {
		return nil
	}
	m.granted = true
	m.a.tell(m.b)
	return m.a.refresh(m.b, m.r)
}

// Drop ends a map, granted or not; the host's rights to what no other map gives
// are gone. by says who did it, for those who touch it afterwards. A map that is
// gone already stays so.
func (m *Map) Drop(by string) error {
	a := m.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.gone {
		return nil
	}
	m.gone = true
	m.b.maps = slices.DeleteFunc(m.b.maps, func(o *Map) bool { return o == m })
	if !m.granted {
		a.tell(m.b)
		return nil
	}
	a.past.add(entry{kind: unmappedEntry, r: m.r, gen: m.b.Gen, block: m.b.label(), by: by})
	a.tell(m.b)
	return a.refresh(m.b, m.r)
}

// refresh sets the rights of the pages around r to what maps and lends of b give
// together. mu is held.
func (a *Arena) refresh(b *block, r mem.Range) error {
	if a.closed || a.open(b) {
		return nil
	}
	end, _ := mem.AlignUp(r.End, a.page)
	for start := r.Start &^ (a.page - 1); start < end; {
		rights, next := a.rights(b, start), a.edge(b, start, end)
		for next < end && a.rights(b, next) == rights {
			next = a.edge(b, next, end)
		}
		if err := a.protect(mem.Range{Start: start, End: next}, rights); err != nil {
			return err
		}
		start = next
	}
	return nil
}

// open reports whether the host has all rights to b, mapped or not. mu is held.
func (a *Arena) open(b *block) bool {
	return (a.trust || b.Flags&FineGrain != 0) && !b.freed
}

// rights are those of the page at addr. mu is held.
func (a *Arena) rights(b *block, addr uint64) int {
	const all = mayRead | mayWrite
	page, rights := mem.Range{Start: addr, End: addr + a.page}, noRights
	for i := range b.lends {
		if b.lends[i].r.Overlaps(page) {
			return all
		}
	}
	for _, m := range b.maps {
		if m.granted && m.r.Overlaps(page) {
			rights |= mayRead
			if m.flags.Writes() {
				rights |= mayWrite
			}
		}
	}
	return rights
}

// edge is the first page after that at addr, end at most, from which rights may
// be others. mu is held.
func (a *Arena) edge(b *block, addr, end uint64) uint64 {
	see := func(r mem.Range) {
		if at := r.Start &^ (a.page - 1); at > addr {
			end = min(end, at)
		}
		if at, _ := mem.AlignUp(r.End, a.page); at > addr {
			end = min(end, at)
		}
	}
	for i := range b.lends {
		see(b.lends[i].r)
	}
	for _, m := range b.maps {
		see(m.r)
	}
	return end
}

// protect sets the rights of the pages that hold r. mu is held.
func (a *Arena) protect(r mem.Range, rights int) error {
	start := (r.Start - a.base) &^ (a.page - 1)
	end, _ := mem.AlignUp(r.End-a.base, a.page)
	if err := setRights(a.user[start:end], rights); err != nil {
		return fmt.Errorf("rights %d of svm addresses %v: %w: %w", rights, r, err, mem.ErrNoHostMemory)
	}
	return nil
}
