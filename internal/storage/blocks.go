// Package storage has memories for drivers: Blocks makes a mem.Resource of anything
// that can place a block, Host and Pinned are memory of the process.
package storage

import (
	"errors"
	"fmt"
	"sync"

	"godwit/mem"
)

// Store places blocks in addresses, for Blocks, which calls it under its lock.
// It does no bookkeeping of what is live.
type Store interface {
	// Take finds a place for every request, or for none: at[i] for reqs[i].
	// Alignments are powers of two, sizes not zero. It returns false where
	// there is no room.
	Take(reqs []mem.Request, at []Place) bool
	// Give takes back what Take gave for a request of size bytes.
	Give(p Place, size uint64)
	// Limits returns the capacity and the largest size that Take could serve
	// now, in bytes; 0 is unknown or unlimited.
	Limits() (capacity, largest uint64)
	// Trim gives cached memory back until at most keep bytes are cached, and
	// returns the bytes given back.
	Trim(keep uint64) uint64
	// Cached is how many bytes the store holds beyond those it gave out.
	Cached() uint64
	// Fits reports whether Take could serve the requests if gone had been given back.
	Fits(reqs []mem.Request, gone []Gone) bool
	// Check tests the store's invariants.
	Check() error
}

// late is a Store whose memory may come back to it some time after it was given back.
type late interface {
	// Late reports whether the last Take failed though there should be room, and may succeed soon.
	Late() bool
}

// Gone is a place that Fits is to take for given back, with the size that was asked
// for.
type Gone struct {
	Place
	Size uint64
}

// Place is where a Store put a block. Key is the store's own. Ref, where it is not 0, is the
// handle of the block of another resource that the place is a piece of: users find the bytes
// by it, so it is the new block's handle too.
type Place struct{ Addr, Key, Ref uint64 }

// TakeEach is Store.Take for stores that place requests one by one.
func TakeEach(reqs []mem.Request, at []Place, take func(size, align uint64) (Place, bool), give func(p Place, size uint64)) bool {
	for i, r := range reqs {
		p, ok := take(r.Size, r.Align)
		if !ok {
			for j := range i {
				give(at[j], reqs[j].Size)
			}
			return false
		}
		at[i] = p
	}
	return true
}

// FitsIn is Store.Fits for stores that place a request wherever they have room: room bytes
// now, of which a request takes as many as takes says of its size.
func FitsIn(room uint64, reqs []mem.Request, gone []Gone, takes func(size uint64) uint64) bool {
	for _, g := range gone {
		room += min(takes(g.Size), ^uint64(0)-room)
	}
	for _, r := range reqs {
		n := takes(r.Size)
		if n > room {
			return false
		}
		room -= n
	}
	return true
}

// Blocks is a mem.Resource over a Store: all-or-nothing allocation, handles
// with generations, frees that wait for points, blocks pinned while a command
// uses them. Drivers embed it. Steady state allocates nothing on the Go heap.
//
// Life of an entry: free -> live -> (pending, while points are waited for) ->
// (dying, while it is pinned) -> free, its generation raised. A block is found
// by its handle while live or pending: commands that start late still look it up,
// also where its bytes have been given again meanwhile (reuse.go).
//
// Lock order: mu, then a mem.Timeline's; nothing is called under it that calls
// back.
type Blocks struct {
	name  string // immutable; for errors
	align uint64 // immutable; of blocks, at least

	mu      sync.Mutex
	store   Store                // protected by mu
	entries []entry              // protected by mu; index is part of the handle
	free    []uint32             // protected by mu: free entries
	pieces  map[mem.Block]uint32 // protected by mu: live blocks whose handle is another resource's
	waiting []*deferredFree      // protected by mu: pending frees
	spare   []*deferredFree      // protected by mu
	stats   mem.ResourceStats    // protected by mu: Live, Pending, PeakLive, counts
	lost    error                // protected by mu: why there are no more blocks
	busy    BusyRanges           // protected by mu: what was yielded, see reuse.go
	taking  taking               // protected by mu: scratch
}

type entryState uint8

const (
	entryFree entryState = iota
	entryLive
	entryPending
	entryDying
)

type entry struct {
	Place
	size, tag uint64
	gen       uint32
	pins      int32
	state     entryState
	again     again      // of a pending entry, and of a dying one
	user      *userBytes // not nil: the bytes are the user's, not the store's
}

// NewBlocks returns a resource named for errors that takes its blocks from
// store, each at a multiple of align at least (a power of two).
func NewBlocks(name string, align uint64, store Store) *Blocks {
	return &Blocks{name: name, align: align, store: store}
}

var _ mem.Resource = (*Blocks)(nil)

// AllocAll implements mem.Resource.
func (m *Blocks) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if len(out) != len(reqs) {
		return mem.Exhausted, fmt.Errorf("memory %s: %d requests but room for %d blocks: %w", m.name, len(reqs), len(out), mem.ErrInvalidValue)
	}
	for _, r := range reqs {
		if r.Size == 0 {
			return mem.Exhausted, fmt.Errorf("memory %s: a block of 0 bytes: it must have at least one: %w", m.name, mem.ErrInvalidSize)
		}
		if r.Align != 0 && !mem.IsPow2(r.Align) {
			return mem.Exhausted, fmt.Errorf("memory %s: alignment %d: it must be a power of two: %w", m.name, r.Align, mem.ErrInvalidValue)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost != nil {
		return mem.Exhausted, m.lost
	}
	m.taking.begin(reqs, m.align)
	if !m.take(reuse) {
		return m.shortOf(reqs)
	}
	for i, r := range reqs {
		out[i] = m.enter(m.taking.places[i], r)
		m.stats.Live += r.Size
	}
	m.stats.Blocks += len(reqs)
	m.stats.Allocs += uint64(len(reqs))
	m.stats.PeakLive = max(m.stats.PeakLive, m.stats.Live)
	return mem.Ready, nil
}

// shortOf is the outcome where reqs did not fit. mu is held.
func (m *Blocks) shortOf(reqs []mem.Request) (mem.Outcome, error) {
	m.stats.Failures++
	if g, ok := m.store.(Grower); ok {
		if o, err := g.Refused(); err != nil || o == mem.OverBudget || o == mem.NeedsWait || o == mem.Late {
			return o, err
		}
	}
	capacity, _ := m.store.Limits()
	room := capacity
	for _, r := range reqs {
		if capacity != 0 && r.Size > room {
			return mem.Exhausted, nil // more than all of it
		}
		room -= r.Size
	}
	if len(m.waiting) > 0 {
		return mem.NeedsWait, nil
	}
	if l, ok := m.store.(late); ok && l.Late() {
		return mem.Late, nil
	}
	return mem.Exhausted, nil
}

// enter makes a live entry. mu is held.
func (m *Blocks) enter(p Place, r mem.Request) mem.Block {
	if len(m.free) == 0 {
		m.entries = append(m.entries, entry{})
		m.free = append(m.free, uint32(len(m.entries)-1))
	}
	i := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	e := &m.entries[i]
	*e = entry{Place: p, size: r.Size, tag: r.Tag, gen: e.gen, state: entryLive}
	b := e.block(i)
	if p.Ref != 0 {
		if m.pieces == nil {
			m.pieces = make(map[mem.Block]uint32)
		}
		m.pieces[b] = i
	}
	return b
}

// block is what entry i was given out as.
func (e *entry) block(i uint32) mem.Block {
	b := mem.Block{Addr: e.Addr, Size: e.size, Ref: e.Ref}
	if b.Ref == 0 {
		b.Ref = uint64(e.gen)<<32 | uint64(i+1)
	}
	return b
}

// vacate makes an entry free. mu is held.
func (m *Blocks) vacate(i uint32) {
	e := &m.entries[i]
	*e = entry{gen: e.gen + 1}
	m.free = append(m.free, i)
}

// find returns the entry of b, which may be a piece of it. mu is held.
func (m *Blocks) find(b mem.Block) (uint32, error) {
	i := uint32(b.Ref) - 1
	if m.pieces != nil {
		var ok bool
		if i, ok = m.pieces[b]; ok {
			return i, nil
		}
	}
	if b.Ref == 0 || m.pieces != nil || uint64(i) >= uint64(len(m.entries)) {
		return 0, fmt.Errorf("memory %s: block %#x of %d bytes is not of this memory: %w", m.name, b.Addr, b.Size, mem.ErrInvalidBuffer)
	}
	e := &m.entries[i]
	if gen := uint32(b.Ref >> 32); gen != e.gen || e.state == entryFree || e.state == entryDying {
		return 0, fmt.Errorf("memory %s: block %#x of %d bytes (handle %d, generation %d) has been freed: %w",
			m.name, b.Addr, b.Size, i, gen, mem.ErrInvalidBuffer)
	}
	if b.Addr < e.Addr || b.Size > e.size || b.Addr-e.Addr > e.size-b.Size {
		return 0, fmt.Errorf("memory %s: block %#x of %d bytes does not lie in the block of that handle, %#x of %d bytes: %w",
			m.name, b.Addr, b.Size, e.Addr, e.size, mem.ErrInvalidBuffer)
	}
	return i, nil
}

// resolve returns the address of [off, off+size) of b. mu is held.
func (m *Blocks) resolve(b mem.Block, off, size uint64) (addr uint64, i uint32, err error) {
	if i, err = m.find(b); err != nil {
		return 0, 0, err
	}
	if _, err = mem.SpanIn(off, size, b.Size); err != nil {
		return 0, 0, fmt.Errorf("memory %s: %w", m.name, err)
	}
	return b.Addr + off, i, nil
}

// Address returns the address of the bytes [off, off+size) of b, or of a piece
// of it. It fails with mem.ErrInvalidBuffer where b is not live.
func (m *Blocks) Address(b mem.Block, off, size uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	addr, _, err := m.resolve(b, off, size)
	return addr, err
}

// Extent returns the addresses of the block that b is, or is a piece of. It fails as
// Address does: so a block whose bytes have been given again is there until its last
// users have ended, where its bytes were.
func (m *Blocks) Extent(b mem.Block) (mem.Range, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.find(b)
	if err != nil {
		return mem.Range{}, err
	}
	e := &m.entries[i]
	return mem.Range{Start: e.Addr, End: e.Addr + e.size}, nil
}

// Pin is Address, and keeps the bytes where they are until Unpin: a block
// freed meanwhile goes back to the store only then.
func (m *Blocks) Pin(b mem.Block, off, size uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	addr, i, err := m.resolve(b, off, size)
	if err == nil {
		m.entries[i].pins++
	}
	return addr, err
}

// Unpin ends one Pin of b.
func (m *Blocks) Unpin(b mem.Block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := uint32(b.Ref) - 1
	e := &m.entries[i]
	if e.pins--; e.pins == 0 && e.state == entryDying {
		m.give(i)
	}
}

// FreeAfter implements mem.Resource. Only whole blocks are freed.
func (m *Blocks) FreeAfter(b mem.Block, after []mem.Point) error {
	m.mu.Lock()
	i, err := m.find(b)
	if err == nil {
		switch e := &m.entries[i]; {
		case b.Addr != e.Addr || b.Size != e.size:
			err = fmt.Errorf("memory %s: free of %d bytes at %#x, a piece of the block of %d bytes at %#x: free the block: %w",
				m.name, b.Size, b.Addr, e.size, e.Addr, mem.ErrInvalidBuffer)
		case e.state == entryPending:
			err = fmt.Errorf("memory %s: block %#x of %d bytes freed twice (the first free waits for points): %w",
				m.name, b.Addr, b.Size, mem.ErrInvalidBuffer)
		}
	}
	if err != nil {
		m.mu.Unlock()
		return err
	}
	waits := false
	for k := 0; k < len(after) && !waits; k++ {
		waits = !after[k].Reached()
	}
	e := &m.entries[i]
	if e.Ref != 0 {
		delete(m.pieces, b)
	}
	m.stats.Live -= e.size
	m.stats.Blocks--
	if !waits {
		m.retire(i)
		m.mu.Unlock()
		return nil
	}
	e.state = entryPending
	m.stats.Pending += e.size
	d := m.takeDeferred(i, after)
	m.mu.Unlock()
	d.watch(after)
	return nil
}

// retire gives an entry that nothing waits for back to the store, at the
// latest when it is no longer pinned. mu is held.
func (m *Blocks) retire(i uint32) {
	m.stats.Frees++
	e := &m.entries[i]
	if e.pins > 0 {
		e.state = entryDying
		return
	}
	m.give(i)
}

// give gives an entry's bytes back to whom they came from. mu is held.
func (m *Blocks) give(i uint32) {
	switch e := &m.entries[i]; {
	case e.user != nil:
		e.user.pinner.Unpin()
	case e.again == handed:
	case e.again == yielded:
		m.store.(Yielder).Ended(e.Place, e.size)
	default:
		m.store.Give(e.Place, e.size)
	}
	m.vacate(i)
}

// Locked calls f under the lock under which the store is called.
func (m *Blocks) Locked(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// Each calls f for every block whose bytes are its own: those that are live, and those whose
// free is pending.
func (m *Blocks) Each(f func(b mem.Block, pending bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.entries {
		if e := &m.entries[i]; e.state == entryLive || e.state == entryPending && e.again == no {
			f(e.block(uint32(i)), e.state == entryPending)
		}
	}
}

// Trim implements mem.Resource.
func (m *Blocks) Trim(keep uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store.Trim(keep)
}

// Stats implements mem.Resource.
func (m *Blocks) Stats() mem.ResourceStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Capacity, s.LargestFree = m.store.Limits()
	s.Reserved = s.Live + s.Pending + m.store.Cached()
	return s
}

// Close frees every block and refuses further ones. The error names the blocks
// that were live; blocks whose free waits for points are no leak.
func (m *Blocks) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost != nil {
		return fmt.Errorf("memory %s: %w", m.name, mem.ErrClosed)
	}
	m.lost = fmt.Errorf("memory %s: %w", m.name, mem.ErrClosed)
	var leaks []error
	for i := range m.entries {
		e := &m.entries[i]
		switch e.state {
		case entryLive:
			leaks = append(leaks, fmt.Errorf("memory %s: block %#x of %d bytes (tag %d) was still live: %w",
				m.name, e.Addr, e.size, e.tag, mem.ErrInvalidOperation))
			m.stats.Live -= e.size
			m.stats.Blocks--
			m.stats.Frees++
		case entryPending:
			if e.again == no {
				m.stats.Pending -= e.size
			}
			m.stats.Frees++
		case entryDying:
			leaks = append(leaks, fmt.Errorf("memory %s: block %#x of %d bytes (tag %d) was still in use: %w",
				m.name, e.Addr, e.size, e.tag, mem.ErrInvalidOperation))
		default:
			continue
		}
		m.give(uint32(i))
	}
	m.store.Trim(0)
	return errors.Join(leaks...)
}

// Check implements mem.Resource: entries and figures agree, free entries are
// listed once, live blocks do not overlap, the store is sound.
func (m *Blocks) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkEntries(); err != nil {
		return fmt.Errorf("memory %s: %w", m.name, err)
	}
	if err := m.store.Check(); err != nil {
		return fmt.Errorf("memory %s: %w", m.name, err)
	}
	return nil
}
