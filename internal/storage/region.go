package storage

import (
	"fmt"
	"sync"
	"sync/atomic"

	"godwit/bufalloc"
	"godwit/mem"
)

// Region is a Store that places blocks in a range of addresses with a bufalloc.Region.
// What is at the addresses is the driver's: memory of the process, of a simulated core,
// of a server. The methods of Store are called under the lock of the Blocks that it
// belongs to; Lookup from anywhere. Lock order: Blocks', mu.
type Region struct {
	mu     sync.Mutex
	region *bufalloc.Region // protected by mu
	chunks []bufalloc.Chunk // protected by mu: scratch
	holes  []mem.Range      // protected by mu: scratch
	epoch  atomic.Uint64
}

var _ Yielder = (*Region)(nil)

// NewRegion returns a store for the addresses [base, base+size). It fails as
// bufalloc.NewRegion does.
func NewRegion(base, size uint64, o bufalloc.Options) (*Region, error) {
	r, err := bufalloc.NewRegion(base, size, o)
	if err != nil {
		return nil, err
	}
	return &Region{region: r}, nil
}

// Take implements Store: what is asked for together lies together.
func (s *Region) Take(reqs []mem.Request, at []Place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.chunks) < len(reqs) {
		s.chunks = append(s.chunks, bufalloc.Chunk{})
	}
	chunks := s.chunks[:len(reqs)]
	if !s.region.TryAll(reqs, chunks) {
		return false
	}
	for i, c := range chunks {
		addr, err := s.region.Addr(c)
		if err != nil {
			panic(fmt.Sprintf("storage: a chunk just given: %v", err))
		}
		at[i] = Place{Addr: addr, Key: c.Ref()}
	}
	return true
}

// Give implements Store.
func (s *Region) Give(p Place, _ uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.region.Free(bufalloc.ChunkFromRef(p.Key)); err != nil {
		panic(fmt.Sprintf("storage: a chunk that Blocks holds: %v", err))
	}
	s.epoch.Add(1)
}

// Yield implements Yielder: the chunk is free.
func (s *Region) Yield(p Place, size uint64) bool {
	s.Give(p, size)
	return true
}

// Ended implements Yielder: nothing is kept beside a place's bytes.
func (s *Region) Ended(Place, uint64) { s.epoch.Add(1) }

// Epoch changes with every free.
func (s *Region) Epoch() uint64 { return s.epoch.Load() }

// Span implements Yielder.
func (s *Region) Span(p Place, size uint64) (uint64, mem.Range) {
	return 0, mem.Range{Start: p.Addr, End: p.Addr + size}
}

// Fits implements Store. Of strategies that round requests up it may say so and be
// wrong.
func (s *Region) Fits(reqs []mem.Request, gone []Gone) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks = s.chunks[:0]
	for _, g := range gone {
		s.chunks = append(s.chunks, bufalloc.ChunkFromRef(g.Key))
	}
	// What leaves was mostly chosen so that it makes the room by itself.
	s.holes = s.region.HolesOf(s.holes[:0], s.chunks)
	if bufalloc.Pack(s.holes, reqs, s.region.Granularity()) {
		return true
	}
	s.holes = s.region.Holes(s.holes[:0], s.chunks)
	return bufalloc.Pack(s.holes, reqs, s.region.Granularity())
}

// Limits implements Store.
func (s *Region) Limits() (capacity, largest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.region.Stats()
	return st.Capacity, st.LargestFree
}

// Trim implements Store; nothing is cached.
func (s *Region) Trim(uint64) uint64 { return 0 }

// Cached implements Store; nothing is.
func (s *Region) Cached() uint64 { return 0 }

// Check implements Store.
func (s *Region) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.region.Check()
}

// Lookup finds the block that holds addr: its addresses, and what tells it from any
// other that was ever there.
func (s *Region) Lookup(addr uint64) (block mem.Range, id uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.region.Lookup(addr)
	if !ok {
		return mem.Range{}, 0, false
	}
	r, err := s.region.Range(c)
	if err != nil || addr >= r.End { // in the slack behind it
		return mem.Range{}, 0, false
	}
	return r, c.Ref(), true
}
