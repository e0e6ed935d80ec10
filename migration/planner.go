// Package migration keeps the memories of a context coherent: it knows which
// bytes of every buffer are fresh where, and which points on which queues have
// to be waited for before they may be read, written or copied. Given what a
// command accesses, it says which bytes have to move first, from where, by
// which route, and why. It is pure: data in, data out. It knows no device, no
// queue and no clock, starts no goroutine and reads no bytes.
//
// # Assumptions
//
//   - One caller at a time. The Planner has no lock: the runtime's context holds
//     its one planner lock around every call, and from Plan to Commit.
//   - A point ends only after everything it waits for has ended, also where it
//     ends badly. So a later writer that waits for the last writer need not wait
//     for those that the last writer waited for.
//   - What waits for a failed point as Data fails too.
//   - Buffers are mostly used whole, on few memories, by few queues.
//
// # State, and the invariants it keeps (DESIGN.md, "Coherence")
//
// A buffer has one map from its bytes to content: Version, Valid (the memories
// that hold that version) and, where the command that wrote it failed, poison.
// For every memory where it lives it has a second map, from bytes to hazards:
// the point that last wrote there and the points that have read since. The
// content of a byte goes
//
//	never written (Version 0, Valid empty)
//	  -> fresh       a command writes on m: Version rises, Valid = {m}
//	fresh -> fresh   a step copies into m: Valid gains m, bound to the step's point
//	fresh -> fresh   that step fails: Valid loses m, if it is still what was copied
//	fresh -> poison  the command that wrote it fails: Valid = {}, the cause is kept
//	poison -> fresh  a command writes
//
// Validity is thus a promise that a point keeps: whoever reads on m waits for
// m's last writer as Data. Hazards are per memory: a write on one memory never
// waits for readers on another, since they read other bytes.
//
// # One command
//
//	Plan        what is missing: storage, steps, waits; changes nothing
//	Stored      for each Want, once its storage exists
//	CommitStep  for each step, in order, once a queue has accepted it
//	Commit      once the command itself is accepted
//
// Stopping between two of these is no error and needs no undoing: storage that
// exists exists, and a step that was accepted makes a good copy.
//
// Points that have been reached are retired as they are touched, and a few more
// by every commit, so that state is bounded by how the bytes are cut up and by
// the points outstanding. A writer's point stays until it is known to have
// succeeded, or its failure was told to Fail.
package migration

import (
	"fmt"
	"math"
	"slices"

	"godwit/eviction"
	"godwit/mem"
	"godwit/mem/rangemap"
)

// Options tune a Planner. The zero value is the default.
type Options struct {
	// Gap lets one copy run on over bytes nobody asked for, where two copies
	// over the same link would have to stop and start again and the bytes
	// between take less than the link's latency. They are counted apart
	// (Step.RideAlong). It needs links whose latency and bandwidth are known.
	Gap bool
}

// Planner is the coherence state of one context's buffers. See the package
// comment for what it assumes of its caller; it is not safe for concurrent use.
type Planner struct {
	topo    *mem.Topology // immutable
	opts    Options       // immutable
	aligned bool          // immutable: some link has an alignment
	buffers []*buffer     // by index; an unused slot holds a buffer that is not live
	free    []uint32      // unused slots
	version mem.Version   // the last one given out
	edits   uint64        // counts what makes older plans void
	loads   []uint64      // bytes planned over each link, from*n+to
	clock   uint64        // commands that were committed and access something
	stats   Stats

	residents [][]uint32 // by memory: the buffers with storage there, in no order
	rankings  []ranking  // by memory: in which order they would leave
	serial    uint64     // of the last block that was ranked
	evictions uint64     // how often Evict was asked

	stepWaits, commandWaits waitIndex  // scratch of Plan
	keeping                 []*undo    // scratch of CommitUnmap
	using                   []mem.Wait // scratch of hangs
	scoring                 eviction.Candidate
}

// buffer is a root buffer: what its bytes are worth, and where.
type buffer struct {
	generation uint32
	live       bool
	content    rangemap.Map[content]
	stores     []store        // sorted by memory; where the buffer has, or had, storage
	count      mem.BufferID   // its size buffer, 0 where it has none; see count.go
	serves     []mem.BufferID // the buffers whose size buffer it is
	partly     bool           // some store held bytes partly
	host       *hostUse       // what the host has mapped for writing; nil where it never had, see mapped.go

	inUse, leaving uint64 // the Evict (Planner.evictions) whose command accesses it, which made it leave somewhere
}

// content is what a byte is worth. Valid is empty where version is 0, and where
// poison is not nil.
type content struct {
	version mem.Version
	valid   mem.MemorySet
	poison  *Poison
}

// Poison says which command's failure took the content, and with what error.
type Poison struct {
	Version mem.Version // the version that was lost
	Point   mem.Point   // where it failed
	Cause   error
}

// New returns a planner with no buffers over the memories of topo, which must
// not change any more. Memories that share a store (Topology.Store) are one to
// it: all that it hands out names the store.
func New(topo *mem.Topology, opts Options) *Planner {
	n := topo.Len()
	p := &Planner{topo: topo, opts: opts, loads: make([]uint64, n*n), residents: make([][]uint32, n), rankings: make([]ranking, n)}
	for from := range mem.MemoryID(n) {
		for to := range mem.MemoryID(n) {
			p.aligned = p.aligned || topo.Link(from, to).Align > 1
		}
	}
	return p
}

// Create adds a buffer of size bytes that were never written and are stored
// nowhere. It fails with mem.ErrInvalidSize where size is zero.
func (p *Planner) Create(size uint64) (mem.BufferID, error) {
	return p.CreateWith(size, mem.MemorySet{})
}

// CreateWith adds a buffer whose content exists, stored and fresh, in the
// memories of valid, before its first command; an empty set is Create. It fails
// with mem.ErrInvalidSize where size is zero and with mem.ErrInvalidValue where
// valid names a memory that the topology does not have.
func (p *Planner) CreateWith(size uint64, valid mem.MemorySet) (mem.BufferID, error) {
	if size == 0 {
		return 0, fmt.Errorf("buffer of size 0: a buffer holds at least one byte: %w", mem.ErrInvalidSize)
	}
	var stores mem.MemorySet
	for m := range valid.All() {
		s, err := p.store(m)
		if err != nil {
			return 0, err
		}
		stores = stores.With(s)
	}
	b, index, err := p.slot()
	if err != nil {
		return 0, err
	}
	c := content{valid: stores}
	if !stores.Empty() {
		p.version++
		c.version = p.version
	}
	b.live = true
	b.content = rangemap.Make(size, c)
	for m := range stores.All() {
		b.ensure(m)
		p.resides(b, index, m)
	}
	p.stats.Buffers++
	return mem.BufferID(b.generation)<<32 | mem.BufferID(index), nil
}

// slot returns an unused buffer with a fresh generation, and its index.
func (p *Planner) slot() (*buffer, uint32, error) {
	if n := len(p.free); n > 0 {
		index := p.free[n-1]
		p.free = p.free[:n-1]
		b := p.buffers[index]
		b.generation++
		return b, index, nil
	}
	if uint64(len(p.buffers)) > math.MaxUint32 {
		return nil, 0, fmt.Errorf("more than %d buffers in one context: %w", uint64(math.MaxUint32), mem.ErrNoHostMemory)
	}
	b := &buffer{generation: 1}
	p.buffers = append(p.buffers, b)
	return b, uint32(len(p.buffers) - 1), nil
}

// Release forgets a buffer; its ID is never valid again. What has to end before
// its blocks may be freed is what Points says beforehand. It fails with
// mem.ErrInvalidBuffer where there is no such buffer, and, changing nothing, with
// mem.ErrInvalidOperation where it is the size buffer of another.
func (p *Planner) Release(id mem.BufferID) error {
	b, err := p.buffer(id)
	if err != nil {
		return err
	}
	if len(b.serves) > 0 {
		return fmt.Errorf("release of %s: %s counts by it: %w", bufferName(id), bufferName(b.serves[0]), mem.ErrInvalidOperation)
	}
	p.uncount(id, b)
	b.live, b.partly, b.host = false, false, nil
	b.content = rangemap.Map[content]{}
	for i := range b.stores {
		p.leaves(&b.stores[i])
	}
	clear(b.stores)
	b.stores = b.stores[:0]
	if b.generation < math.MaxUint32 { // else the slot has had all its names
		p.free = append(p.free, uint32(id))
	}
	p.stats.Buffers--
	p.edits++
	return nil
}

// Stored says that storage for the whole buffer exists on a memory, and of which
// class. Where its bytes are in use until points by others
// who had them before, whoever uses it first waits for these; a plan that was made
// before does not, and must be made again. It fails with mem.ErrInvalidBuffer or
// mem.ErrInvalidValue where there is no such buffer or memory.
func (p *Planner) Stored(id mem.BufferID, m mem.MemoryID, class mem.Class, until ...mem.Point) error {
	b, m, err := p.place(id, m)
	if err != nil {
		return err
	}
	s := b.ensure(m)
	if s.class = class; !s.stored {
		p.resides(b, uint32(id), m)
	}
	for _, at := range until {
		s.read(mem.Range{End: b.content.Size()}, at)
		p.edits++
	}
	if len(until) > 0 {
		s.hazards.Update(mem.Range{End: b.content.Size()}, func(_ mem.Range, h hazard) hazard {
			h.busy = h.readers[0] != mem.Point{} || h.more != 0
			return h
		})
	}
	return nil
}

// Unstored says that the buffer's storage on a memory is given up; the caller
// frees the block after Points. It fails with mem.ErrInvalidOperation, and
// changes nothing, where content is (wholly, see Carried) valid nowhere else; and
// like Stored.
func (p *Planner) Unstored(id mem.BufferID, m mem.MemoryID) error {
	b, m, err := p.place(id, m)
	if err != nil {
		return err
	}
	only := mem.SetOf(m)
	for r, c := range b.content.All() {
		if c.valid == only || c.valid.Has(m) && b.count != 0 && !b.whole(r, c.valid, m) {
			return fmt.Errorf("%s on %s: bytes %v of version %d are nowhere else: %w",
				bufferName(id), p.topo.Name(m), r, c.version, mem.ErrInvalidOperation)
		}
	}
	b.content.Update(mem.Range{End: b.content.Size()}, func(_ mem.Range, c content) content {
		c.valid = c.valid.Without(m)
		return c
	})
	p.forgetStore(b, m)
	b.unstoredUndo(m)
	if m == mem.Host {
		b.homeless()
	}
	p.edits++
	return nil
}

// homeless notes that copies made from the host can no longer be had from there.
func (b *buffer) homeless() {
	for i := range b.stores {
		s := &b.stores[i]
		s.hazards.Update(mem.Range{End: s.hazards.Size()}, func(_ mem.Range, h hazard) hazard {
			h.home = false
			return h
		})
	}
}

// resides notes that a buffer has storage on a memory.
func (p *Planner) resides(b *buffer, index uint32, m mem.MemoryID) {
	s := b.at(m)
	s.stored, s.resident = true, len(p.residents[m])
	p.residents[m] = append(p.residents[m], index)
	s.serial = 0
	p.rankings[m].arrived(index, len(p.residents[m]))
}

// leaves takes a store's buffer out of the residents of its memory.
func (p *Planner) leaves(s *store) {
	if !s.stored {
		return
	}
	all := p.residents[s.memory]
	last := all[len(all)-1]
	all[s.resident] = last
	p.buffers[last].at(s.memory).resident = s.resident
	p.residents[s.memory] = all[:len(all)-1]
	s.stored = false
}

// forgetStore forgets a buffer's store on a memory, if there is one.
func (p *Planner) forgetStore(b *buffer, m mem.MemoryID) {
	if i, ok := b.find(m); ok {
		p.leaves(&b.stores[i])
		b.stores = slices.Delete(b.stores, i, i+1)
	}
}

// Points appends the points, not yet reached, that use the buffer's storage on
// a memory: its block may be freed after them. Unknown buffers and memories
// have none.
func (p *Planner) Points(dst []mem.Point, id mem.BufferID, m mem.MemoryID) []mem.Point {
	return p.PointsIn(dst, id, m, mem.Range{End: math.MaxUint64})
}

// PointsIn is Points of those that use a range of the buffer.
func (p *Planner) PointsIn(dst []mem.Point, id mem.BufferID, m mem.MemoryID, r mem.Range) []mem.Point {
	b, m, err := p.place(id, m)
	if err != nil {
		return dst
	}
	i, ok := b.find(m)
	if !ok {
		return dst
	}
	s := &b.stores[i]
	p.stepWaits.reset()
	p.using = p.using[:0]
	for c := s.hazards.Seek(r.Start); c.OK() && c.Range().Start < r.End; c.Next() {
		p.using = s.order(p.using, 0, c.Ref(), &p.stepWaits)
	}
	for _, w := range p.using {
		dst = append(dst, w.Point)
	}
	return dst
}

// buffer returns the live buffer of that name.
func (p *Planner) buffer(id mem.BufferID) (*buffer, error) {
	if i := uint32(id); int64(i) < int64(len(p.buffers)) {
		if b := p.buffers[i]; b.live && b.generation == uint32(id>>32) {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%s: released, or never created in this context: %w", bufferName(id), mem.ErrInvalidBuffer)
}

// store returns the store of a memory that must exist.
func (p *Planner) store(m mem.MemoryID) (mem.MemoryID, error) {
	if int(m) >= p.topo.Len() {
		return 0, fmt.Errorf("memory %d: this topology has memories 0 to %d: %w", m, p.topo.Len()-1, mem.ErrInvalidValue)
	}
	return p.topo.Store(m), nil
}

// place is buffer and store at once.
func (p *Planner) place(id mem.BufferID, m mem.MemoryID) (*buffer, mem.MemoryID, error) {
	b, err := p.buffer(id)
	if err != nil {
		return nil, 0, err
	}
	m, err = p.store(m)
	return b, m, err
}

// find returns where the store of memory m is, or belongs.
func (b *buffer) find(m mem.MemoryID) (int, bool) {
	if len(b.stores) > 8 {
		return slices.BinarySearchFunc(b.stores, m, func(s store, m mem.MemoryID) int { return int(s.memory) - int(m) })
	}
	for i := range b.stores {
		if at := b.stores[i].memory; at >= m {
			return i, at == m
		}
	}
	return len(b.stores), false
}

// at returns the store of memory m, or nil. Adding a store moves the others.
func (b *buffer) at(m mem.MemoryID) *store {
	if i, ok := b.find(m); ok {
		return &b.stores[i]
	}
	return nil
}

// class is that of a copy between the buffer's storage on two memories. Storage that
// is yet to be had is expected to be as its source's, but on the host.
func (b *buffer) class(from, to mem.MemoryID) mem.Class {
	of := func(m mem.MemoryID) (mem.Class, bool) {
		if s := b.at(m); s != nil && s.stored {
			return s.class, true
		}
		return mem.Plain, m == mem.Host
	}
	x, _ := of(from)
	y, known := of(to)
	if !known {
		y = x
	}
	return mem.ClassOf(x, y)
}

// ensure is at, adding the store where there is none.
func (b *buffer) ensure(m mem.MemoryID) *store {
	i, ok := b.find(m)
	if !ok {
		b.stores = slices.Insert(b.stores, i, store{memory: m, hazards: rangemap.Make(b.content.Size(), hazard{})})
	}
	return &b.stores[i]
}

// bufferName is how errors name a buffer.
func bufferName(id mem.BufferID) string { return "buffer " + id.String() }
