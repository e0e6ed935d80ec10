// Package oracle is the reference for package migration: for every byte of
// every buffer, which version each memory holds. It is as plain as it can be
// made, shares no code with the planner, and is given the same accesses. It knows no
// failures. Per command it counts the bytes that have to move: those that the
// command reads and its memory does not hold. No planner that decides at
// enqueue can move fewer, and a right one moves as many.
//
// It costs one pass over the bytes of every access, and 8 bytes of memory for
// each byte of a buffer on each memory where it was used: it is for tests. What
// scenarios and programs are told comes from package internal/ledger, which random
// histories hold against this one.
//
// What goes from byte to byte is left out of the race detector (go:norace): nobody else
// has these bytes, and to watch each took most of the time of the histories' tests.
package oracle

import (
	"fmt"

	"godwit/mem"
)

// Oracle is the reference state of one context's buffers. Not safe for
// concurrent use.
type Oracle struct {
	topo    *mem.Topology
	buffers map[mem.BufferID]*buffer
	version uint32
	counts  uint32 // numbers given to counts
}

// buffer holds one entry for each byte in every slice.
type buffer struct {
	latest []uint32 // the version of the content, 0 for never written
	lost   []bool   // no memory holds it any more
	stores []*store // by memory; nil where it was never used

	size  mem.BufferID // its size buffer, 0 where it has none; see count.go
	under uint32       // the number of the count in force
	count uint64       // of a size buffer: what it says

	mapped []mem.Range // by the host for writing; see mapped.go
}

type store struct {
	holds []uint32 // the version held, 0 for none that counts

	part   []uint32 // the number of the count under which it was brought; nil where nothing was
	partOf []uint32 // the version that was brought so; 0 for none
}

// New returns an oracle without buffers.
func New(topo *mem.Topology) *Oracle {
	return &Oracle{topo: topo, buffers: map[mem.BufferID]*buffer{}}
}

// Create adds a buffer of size bytes under an ID of the caller's, whose content
// exists in the memories of valid; with an empty set it was never written.
func (o *Oracle) Create(id mem.BufferID, size uint64, valid mem.MemorySet) error {
	if size == 0 {
		return fmt.Errorf("oracle: buffer of %d bytes: %w", size, mem.ErrInvalidSize)
	}
	if o.buffers[id] != nil {
		return fmt.Errorf("oracle: buffer %d exists: %w", id, mem.ErrInvalidBuffer)
	}
	b := &buffer{latest: make([]uint32, size), lost: make([]bool, size), stores: make([]*store, o.topo.Len())}
	o.buffers[id] = b
	if valid.Empty() {
		return nil
	}
	o.version++
	for i := range b.latest {
		b.latest[i] = o.version
	}
	for m := range valid.All() {
		copy(b.at(o.topo.Store(m)).holds, b.latest)
	}
	return nil
}

// Enqueue replays a command: what it reads arrives where it reads it, then what
// it writes is written. It fails, changing nothing, like migration's Plan.
// It returns how many bytes had to move.
func (o *Oracle) Enqueue(accs []mem.Access) (moved uint64, _ error) { return o.replay(accs, true) }

// Prefetch replays the copies of a command that was then refused: what it would
// read arrives, nothing is written.
func (o *Oracle) Prefetch(accs []mem.Access) (moved uint64, _ error) { return o.replay(accs, false) }

func (o *Oracle) replay(accs []mem.Access, writes bool) (moved uint64, _ error) {
	for i, a := range accs {
		if err := o.accept(a); err != nil {
			return 0, fmt.Errorf("oracle: access %d: %w", i, err)
		}
	}
	if err := o.oneWriter(accs); err != nil {
		return 0, err
	}
	counts := o.countsOf(accs)
	if err := o.intact(accs); err != nil {
		return 0, err
	}
	if err := o.intact(counts); err != nil {
		return 0, err
	}
	for _, a := range counts {
		moved += o.arrive(a)
	}
	for _, a := range accs {
		if n := o.counting(a); n != nil {
			moved += o.arriveCounted(a, n.count)
		} else if a.Mode.Reads() {
			moved += o.arrive(a)
		}
	}
	o.version++
	for _, a := range accs {
		if writes && a.Mode.Writes() {
			o.write(a)
		}
	}
	return moved, nil
}

// accept checks one access.
func (o *Oracle) accept(a mem.Access) error {
	b := o.buffers[a.Buffer]
	switch {
	case b == nil:
		return fmt.Errorf("no buffer %d: %w", a.Buffer, mem.ErrInvalidBuffer)
	case int(a.Memory) >= o.topo.Len(), a.Mode > mem.Write, a.Range.Empty(), a.Range.End > uint64(len(b.latest)):
		return fmt.Errorf("%v of %v on memory %d: %w", a.Mode, a.Range, a.Memory, mem.ErrInvalidValue)
	}
	return nil
}

// intact checks that nothing that is read was lost.
//
//go:norace
func (o *Oracle) intact(accs []mem.Access) error {
	for _, a := range accs {
		b := o.buffers[a.Buffer]
		for i := a.Range.Start; a.Mode.Reads() && i < a.Range.End; i++ {
			if b.lost[i] && !o.hostWrites(b, a.Memory, i) {
				return fmt.Errorf("oracle: byte %d of buffer %d: %w", i, a.Buffer, mem.ErrPoisoned)
			}
		}
	}
	return nil
}

// oneWriter refuses commands that write a byte on two memories.
func (o *Oracle) oneWriter(accs []mem.Access) error {
	for i, a := range accs {
		for _, b := range accs[:i] {
			if a.Mode.Writes() && b.Mode.Writes() && a.Buffer == b.Buffer && a.Range.Overlaps(b.Range) &&
				o.topo.Store(a.Memory) != o.topo.Store(b.Memory) {
				return fmt.Errorf("oracle: %v written on two memories: %w", a.Range.Intersect(b.Range), mem.ErrInvalidOperation)
			}
		}
	}
	return nil
}

// arrive makes a's memory hold what it reads, and counts what it did not.
//
//go:norace
func (o *Oracle) arrive(a mem.Access) (moved uint64) {
	b := o.buffers[a.Buffer]
	s := b.at(o.topo.Store(a.Memory))
	for i := a.Range.Start; i < a.Range.End; i++ {
		if s.has(b, i) || o.hostWrites(b, a.Memory, i) {
			continue
		}
		if s.partOf != nil && s.partOf[i] != 0 {
			s.partOf[i] = 0 // brought without a count: as a whole
		}
		if s.holds[i] != b.latest[i] {
			s.holds[i] = b.latest[i]
			moved++
		}
	}
	return moved
}

// write makes a's memory the only one that holds its range.
//
//go:norace
func (o *Oracle) write(a mem.Access) {
	b := o.buffers[a.Buffer]
	s := b.at(o.topo.Store(a.Memory))
	for i := a.Range.Start; i < a.Range.End; i++ {
		b.latest[i], b.lost[i] = o.version, false
		s.holds[i] = o.version
	}
	o.written(a.Buffer, a.Range)
}

//go:norace
func (b *buffer) holders(i uint64) (out mem.MemorySet) {
	for m, s := range b.stores {
		if s != nil && s.has(b, i) {
			out = out.With(mem.MemoryID(m))
		}
	}
	return out
}

//go:norace
func (b *buffer) lose(i int) {
	b.lost[i] = true
	for _, s := range b.stores {
		if s != nil {
			s.drop(uint64(i))
		}
	}
}

// drop makes a store hold nothing of byte i.
func (s *store) drop(i uint64) {
	if s.holds[i] = 0; s.partOf != nil {
		s.partOf[i] = 0
	}
}

func (b *buffer) at(m mem.MemoryID) *store {
	if b.stores[m] == nil {
		b.stores[m] = &store{holds: make([]uint32, len(b.latest))}
	}
	return b.stores[m]
}
