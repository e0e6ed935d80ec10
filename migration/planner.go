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
// # State, and the invariants it keeps (docs/design.md, "Coherence")
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
	"godwit/internal/pairs"
	"godwit/internal/rangemap"
	"godwit/mem"
)

// Options tune a Planner. The zero value is the default.
type Options struct {
	// Largest is by memory the size in bytes of the largest block that it takes; what is not
	// there has no limit.
	Largest []uint64
	// KeepBelow is the size in bytes up to which a block keeps what it holds beside what it
	// was made for, used or not, when it is exchanged: to move so little to elsewhere, and
	// perhaps back, costs more than its room is worth.
	KeepBelow uint64
}

// largest is the size of the largest block that a memory takes.
func (o *Options) largest(m mem.MemoryID) uint64 {
	if int(m) < len(o.Largest) {
		return o.Largest[m]
	}
	return math.MaxUint64
}

// Planner is the coherence state of one context's buffers. See the package
// comment for what it assumes of its caller; it is not safe for concurrent use.
type Planner struct {
	topo    *mem.Topology       // immutable
	opts    Options             // immutable
	aligned bool                // immutable: some link has an alignment
	buffers []*buffer           // by index; an unused slot holds a buffer that is not live
	free    []uint32            // unused slots
	version mem.Version         // the last one given out
	edits   uint64              // counts what makes older plans void
	loads   pairs.Table[uint64] // bytes planned over each link
	lost    mem.MemorySet       // whose devices are lost
	clock   uint64              // commands that were committed and access something
	stats   Stats

	blocks     []block   // all blocks; an unused one is zero, see blocks.go
	spare      []int32   // unused places in blocks
	residents  [][]int32 // by memory: its blocks, in no order
	footprints []footprint
	rankings   []ranking // by memory: in which order they would leave
	asked      ranking   // scratch of questions
	serial     uint64    // of the last block that was ranked
	evictions  uint64    // how often Evict was asked

	stepWaits, commandWaits waitIndex  // scratch of Plan
	keeping                 []*undo    // scratch of CommitUnmap
	using                   []mem.Wait // scratch of hangs
	needed                  []need     // scratch of Plan
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
	align      uint64         // blocks may be ranges whose ends are multiples of it; 0 is one that is whole, see blocks.go

	was mem.Range // what the largest block held that left a memory; see Again

	leaving     uint64       // the Evict (Planner.evictions) which made it leave a memory
	leavingFrom mem.MemoryID // that memory

	prio int32 // blocks of lower ones leave first

	needed int32 // during wants, the place + 1 of its last need in Planner.needed; else 0
}

// content is what a byte is worth. Valid is empty where version is 0, and where
// poison is not nil.
type content struct {
	version mem.Version
	valid   mem.MemorySet
	poison  *loss
}

// loss says which command's failure took the content, and with what error.
type loss struct {
	Version mem.Version // the version that was lost
	Point   mem.Point   // where it failed
	Cause   error
}

// LostError is why a command cannot be planned that reads what was lost: it wraps
// mem.ErrPoisoned and the first cause. A caller that has names for buffers may set Name.
type LostError struct {
	Buffer mem.BufferID
	Name   string // "" is the buffer's number
	What   string // of the buffer is lost
	Poison loss
}

func (e *LostError) Error() string {
	name := e.Name
	if name == "" {
		name = e.Buffer.String()
	}
	return fmt.Sprintf("buffer %s: %s, lost when %v failed: %v: %v", name, e.What, e.Poison.Point, mem.ErrPoisoned, e.Poison.Cause)
}

// Unwrap implements the errors package's interface.
func (e *LostError) Unwrap() []error { return []error{mem.ErrPoisoned, e.Poison.Cause} }

// New returns a planner with no buffers over the memories of topo, which must
// not change any more. Memories that share a store (Topology.Store) are one to
// it: all that it hands out names the store.
func New(topo *mem.Topology, opts Options) *Planner {
	n := topo.Len()
	p := &Planner{topo: topo, opts: opts, aligned: topo.Aligned(), loads: pairs.Make[uint64](n), residents: make([][]int32, n), footprints: make([]footprint, n), rankings: make([]ranking, n)}
	return p
}

// Create adds a buffer whose content exists, stored and fresh, in the memories of valid,
// before its first command; with none it was never written and is stored nowhere. It fails
// with mem.ErrInvalidSize where size is zero and with mem.ErrInvalidValue where
// valid names a memory that the topology does not have.
func (p *Planner) Create(size uint64, valid mem.MemorySet) (mem.BufferID, error) {
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
		p.addBlock(b, index, m, mem.Range{End: size}, mem.Range{}, mem.Plain)
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

// Rank says of a buffer that was just made that its blocks leave only after those of lower priority have, whatever the policy says
// of them; that of others is 0. It fails with mem.ErrInvalidBuffer where there is no such buffer.
func (p *Planner) Rank(id mem.BufferID, priority int32) error {
	b, err := p.buffer(id)
	if err == nil {
		b.prio = priority
	}
	return err
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
	for i := range b.stores {
		p.removeBlocks(b, &b.stores[i], mem.Range{End: b.content.Size()})
	}
	b.live, b.partly, b.host, b.align, b.prio, b.was = false, false, nil, 0, 0, mem.Range{}
	b.content = rangemap.Map[content]{}
	clear(b.stores)
	b.stores = b.stores[:0]
	if b.generation < math.MaxUint32 { // else the slot has had all its names
		p.free = append(p.free, uint32(id))
	}
	p.stats.Buffers--
	p.edits++
	return nil
}

// Stored says that the block exists that was wanted, and of which class. Where its bytes
// are in use until points by others who had them before, whoever uses it first waits for
// these; a plan that was made before does not, and must be made again. It fails with
// mem.ErrInvalidBuffer or mem.ErrInvalidValue where there is no such buffer or memory, and
// with mem.ErrInvalidOperation where another block has some of the bytes.
func (p *Planner) Stored(w Want, class mem.Class, until ...mem.Point) error {
	b, m, err := p.where(w.Buffer, w.Memory)
	if err != nil {
		return err
	}
	r, s := w.in(b.content.Size()), b.ensure(m)
	if r.End > b.content.Size() {
		return fmt.Errorf("%s on %s: block %v of %d bytes: %w", bufferName(w.Buffer), p.topo.Name(m), r, b.content.Size(), mem.ErrInvalidValue)
	}
	there := false
	for k := range p.blocksIn(s, r) {
		if there = k.r == r; !there {
			return fmt.Errorf("%s on %s: block %v where there is %v: %w", bufferName(w.Buffer), p.topo.Name(m), r, k.r, mem.ErrInvalidOperation)
		}
		k.class = class
	}
	if !there {
		p.addBlock(b, uint32(w.Buffer), m, r, w.Span, class)
	}
	if len(until) > 0 {
		s.seed(r, until)
		p.edits++
	}
	return nil
}

// seed makes points readers of a new block's bytes: who had them before, for others.
func (s *store) seed(r mem.Range, until []mem.Point) {
	for _, at := range until {
		s.read(r, at)
	}
	s.hazards.Update(r, func(_ mem.Range, h hazard) hazard {
		h.busy = h.readers[0] != mem.Point{} || h.more != 0
		return h
	})
}

// Unstored says that the blocks of a range are given up; the caller frees them after
// Points. It fails with mem.ErrInvalidOperation, and changes nothing, where content is
// (wholly, see count.go) valid nowhere else; and like Stored.
func (p *Planner) Unstored(w Want) error {
	b, m, err := p.where(w.Buffer, w.Memory)
	if err != nil {
		return err
	}
	only, in := mem.SetOf(m), w.in(b.content.Size())
	for r, v := range b.content.In(in) {
		if v.valid == only || v.valid.Has(m) && b.count != 0 && !b.whole(r, v.valid, m) {
			return fmt.Errorf("%s on %s: bytes %v of version %d are nowhere else: %w",
				bufferName(w.Buffer), p.topo.Name(m), r, v.version, mem.ErrInvalidOperation)
		}
	}
	b.content.Update(in, func(_ mem.Range, c content) content {
		c.valid = c.valid.Without(m)
		return c
	})
	p.vacate(b, m, in)
	b.unstoredUndo(m, in)
	p.edits++
	return nil
}

// Points appends the points, not yet reached, that use a range of the buffer on a memory, as
// far as it reaches: the blocks there may be freed after them. Unknown buffers and memories have none.
func (p *Planner) Points(dst []mem.Point, id mem.BufferID, m mem.MemoryID, r mem.Range) []mem.Point {
	b, m, err := p.where(id, m)
	if err != nil {
		return dst
	}
	s := b.at(m)
	if s == nil {
		return dst
	}
	p.stepWaits.reset()
	p.using = p.using[:0]
	for _, h := range s.hazards.In(r) {
		p.using = s.order(p.using, 0, h, &p.stepWaits)
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

// inside is buffer of one that must hold a range.
func (p *Planner) inside(id mem.BufferID, r mem.Range) (*buffer, error) {
	b, err := p.buffer(id)
	if err == nil && (r.Empty() || r.End > b.content.Size()) {
		err = fmt.Errorf("%s: range %v of its %d bytes: %w", bufferName(id), r, b.content.Size(), mem.ErrInvalidValue)
	}
	return b, err
}

// store returns the store of a memory that must exist.
func (p *Planner) store(m mem.MemoryID) (mem.MemoryID, error) {
	if int(m) >= p.topo.Len() {
		return 0, fmt.Errorf("memory %d: this topology has memories 0 to %d: %w", m, p.topo.Len()-1, mem.ErrInvalidValue)
	}
	return p.topo.Store(m), nil
}

// where is buffer and store at once.
func (p *Planner) where(id mem.BufferID, m mem.MemoryID) (*buffer, mem.MemoryID, error) {
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

// class is that of a copy between the buffer's blocks on two memories that hold off. One
// that is yet to be had is expected to be as its source's, but on the host.
func (p *Planner) class(b *buffer, from, to mem.MemoryID, off uint64) mem.Class {
	x, y := mem.Plain, mem.Plain
	if k := p.blockOf(b, from, off); k != nil {
		x = k.class
	}
	if k := p.blockOf(b, to, off); k != nil {
		y = k.class
	} else if to != mem.Host {
		y = x
	}
	return mem.ClassOf(x, y)
}

// blockOf is the block of a buffer on a memory that holds off, or nil.
func (p *Planner) blockOf(b *buffer, m mem.MemoryID, off uint64) *block {
	if s := b.at(m); s != nil {
		return p.blockAt(s, off)
	}
	return nil
}

// ensure is at, adding the store where there is none.
func (b *buffer) ensure(m mem.MemoryID) *store {
	i, ok := b.find(m)
	if !ok {
		b.stores = slices.Insert(b.stores, i, store{
			memory: m, blocks: rangemap.Make[int32](b.content.Size(), 0), hazards: rangemap.Make(b.content.Size(), hazard{}),
		})
	}
	return &b.stores[i]
}

// bufferName is how errors name a buffer.
func bufferName(id mem.BufferID) string { return "buffer " + id.String() }
