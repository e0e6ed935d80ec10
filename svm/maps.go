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

type mapState uint8

const (
	mapWanted mapState = iota
	mapGranted
	mapLeaving
	mapGone
)

// Map is the host's right to touch a range of a block.
type Map struct {
	a     *Arena    // immutable
	b     *block    // immutable
	r     mem.Range // immutable: addresses
	flags MapFlags  // immutable
	held  bool      // immutable: ended by Leave, never by its pointer

	state mapState // protected by a.mu
	had   bool     // protected by a.mu: it was granted before it was leaving
}

// Range is the addresses of the map.
func (m *Map) Range() mem.Range { return m.r }

// Flags are those given to Arena.Map.
func (m *Map) Flags() MapFlags { return m.flags }

// Block is the block that is mapped.
func (m *Map) Block() Block { return m.b.Block }

// Map records that size bytes at p are to be mapped; the host's rights come with
// Grant. It is ended by its pointer (TakeUnmap). Its errors are Lookup's,
// mem.ErrInvalidValue where size is 0, the bytes leave the block or flags are bad,
// and ErrMapped where the rules of maps forbid it (see the package comment).
func (a *Arena) Map(p Pointer, size uint64, f MapFlags) (*Map, error) {
	return a.add(p, size, f, false)
}

// MapHeld is Map for whoever keeps the *Map: it is ended by Leave alone, so that
// maps from one start are told apart.
func (a *Arena) MapHeld(p Pointer, size uint64, f MapFlags) (*Map, error) {
	return a.add(p, size, f, true)
}

func (a *Arena) add(p Pointer, size uint64, f MapFlags, held bool) (*Map, error) {
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
	r := mem.Range{Start: uint64(p), End: uint64(p) + size}
	for _, m := range b.maps {
		if m.state != mapLeaving && m.r.Overlaps(r) && (m.flags.Writes() || f.Writes()) {
			return nil, fmt.Errorf("map of %v of %s: %v is mapped, one of the two for writing: %w", r, b.label(), m.r, ErrMapped)
		}
	}
	m := &Map{a: a, b: b, r: r, flags: f, held: held}
	b.maps = append(b.maps, m)
	a.mapped.Add(1)
	a.tell(b)
	return m, nil
}

// Grant gives the host its rights. On a map that was dropped meanwhile, it does
// nothing.
func (m *Map) Grant() error {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	switch m.state {
	case mapWanted:
		m.state = mapGranted
	case mapLeaving: // its unmap waits for it
		m.had = true
	default:
		return nil
	}
	m.a.tell(m.b)
	return m.a.refresh(m.b, m.r)
}

// TakeUnmap finds the youngest map that was made of p, but for those of MapHeld,
// for whoever is about to unmap it: it must be followed by Drop or by Keep. Until then the host keeps its
// rights, but the map is no longer in anybody's way. Its errors are Lookup's, and
// ErrMapped where there is no such map.
func (a *Arena) TakeUnmap(p Pointer) (*Map, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.find(p)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Backward(b.maps) {
		if m.r.Start == uint64(p) && m.state != mapLeaving && !m.held {
			m.leave()
			return m, nil
		}
	}
	return nil, fmt.Errorf("unmap of %v of %s: no map was made of that pointer: %w", p, b.label(), ErrMapped)
}

// Leave is TakeUnmap of exactly this map. It fails with ErrMapped where the map is
// leaving already, or gone.
func (m *Map) Leave() error {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	if m.state == mapLeaving || m.state == mapGone {
		return fmt.Errorf("unmap of %v of %s: it is mapped no more: %w", m.r, m.b.label(), ErrMapped)
	}
	m.leave()
	return nil
}

// leave lets a map be in nobody's way. mu is held.
func (m *Map) leave() {
	m.had, m.state = m.state == mapGranted, mapLeaving
	m.a.tell(m.b)
}

// Keep takes TakeUnmap, or Leave, back.
func (m *Map) Keep() {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	if m.state != mapLeaving {
		return
	}
	m.state = mapWanted
	if m.had {
		m.state = mapGranted
	}
	m.a.tell(m.b)
}

// Drop ends a map, granted or not; the host's rights to what no other map gives
// are gone. by says who did it, for those who touch it afterwards. A map that is
// gone already stays so.
func (m *Map) Drop(by string) error {
	a := m.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.state == mapGone {
		return nil
	}
	had := m.had || m.state == mapGranted
	m.state = mapGone
	n := len(m.b.maps)
	m.b.maps = slices.DeleteFunc(m.b.maps, func(o *Map) bool { return o == m })
	a.mapped.Add(int64(len(m.b.maps) - n))
	if !had {
		a.tell(m.b)
		return nil
	}
	a.past.add(entry{kind: unmappedEntry, r: m.r, gen: m.b.Gen, block: m.b.label(), by: by})
	a.tell(m.b)
	return a.refresh(m.b, m.r)
}

// Conflict fails with ErrMapped where the host has mapped bytes that a command
// is to use: a write needs them unmapped, a read not mapped for writing. Fine
// grain knows no such conflict. p must be of a live block.
func (a *Arena) Conflict(p Pointer, size uint64, writes bool) error {
	if a.mapped.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.at(p)
	if b == nil || len(b.maps) == 0 || b.Flags&FineGrain != 0 {
		return nil
	}
	r := mem.Range{Start: uint64(p), End: uint64(p) + size}
	for _, m := range b.maps {
		if m.state != mapLeaving && m.r.Overlaps(r) && (writes || m.flags.Writes()) {
			return fmt.Errorf("%v of %s: the host has mapped %v: unmap it first: %w", r, b.label(), m.r, ErrMapped)
		}
	}
	return nil
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
		if m.r.Overlaps(page) && (m.state == mapGranted || (m.state == mapLeaving && m.had)) {
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
