// Package region is the memory of simulated devices with a fixed size: a
// storage.Store over a bufalloc.Region, and the bytes behind it.
package region

import (
	"fmt"
	"sync"
	"sync/atomic"

	"godwit/bufalloc"
	"godwit/devices/storage"
	"godwit/devices/work"
	"godwit/mem"
)

// Store places blocks in a region over an arena of host memory outside the Go
// heap. The methods of storage.Store are called under the lock of the
// storage.Blocks it belongs to; Find from anywhere. Lock order: Blocks', mu.
type Store struct {
	base  uint64 // immutable: address of the first byte
	arena arena  // immutable
	epoch atomic.Uint64

	mu     sync.Mutex
	region *bufalloc.Region // protected by mu
	chunks []bufalloc.Chunk // protected by mu: scratch
}

// arena is the host memory behind a region.
type arena struct {
	memory *storage.Host
	block  mem.Block
	bytes  []byte
}

// New returns a store of size bytes with its own arena. Its addresses start at
// base; where inPlace is set they are the process's instead.
func New(name string, base, size uint64, inPlace bool, o bufalloc.Options) (*Store, error) {
	s := &Store{arena: arena{memory: storage.NewHost(name+" arena", 0)}}
	var blocks [1]mem.Block
	out, err := s.arena.memory.AllocAll([]mem.Request{{Size: size, Align: 4096}}, blocks[:])
	if err != nil {
		return nil, err
	}
	if out != mem.Ready {
		return nil, fmt.Errorf("device %s: %d bytes of memory: %w", name, size, mem.ErrNoHostMemory)
	}
	s.arena.block, s.base = blocks[0], base
	if s.arena.bytes, err = s.arena.memory.View(blocks[0], 0, size); err != nil {
		return nil, err
	}
	if inPlace {
		s.base = blocks[0].Addr
	}
	if s.region, err = bufalloc.NewRegion(s.base, size, o); err != nil {
		_ = s.Close() // the first error counts
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	return s, nil
}

// Base is the first address.
func (s *Store) Base() uint64 { return s.base }

// Shift is what makes an address one of the process.
func (s *Store) Shift() uint64 { return s.arena.block.Addr - s.base }

// Close gives the arena back.
func (s *Store) Close() error {
	if err := s.arena.memory.FreeAfter(s.arena.block, nil); err != nil {
		return err
	}
	return s.arena.memory.Close()
}

// Take implements storage.Store: what is asked for together lies together.
func (s *Store) Take(reqs []mem.Request, at []storage.Place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.chunks) < len(reqs) {
		s.chunks = append(s.chunks, bufalloc.Chunk{})
	}
	chunks := s.chunks[:len(reqs)]
	if err := s.region.AllocAll(reqs, chunks); err != nil {
		return false
	}
	for i, c := range chunks {
		addr, err := s.region.Addr(c)
		if err != nil {
			panic(fmt.Sprintf("region: a chunk just given: %v", err))
		}
		at[i] = storage.Place{Addr: addr, Key: c.Ref()}
	}
	return true
}

// Give implements storage.Store.
func (s *Store) Give(p storage.Place, _ uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.region.Free(bufalloc.ChunkFromRef(p.Key)); err != nil {
		panic(fmt.Sprintf("region: a chunk that Blocks holds: %v", err))
	}
	s.epoch.Add(1)
}

// Limits implements storage.Store.
func (s *Store) Limits() (capacity, largest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.region.Stats()
	return st.Capacity, st.LargestFree
}

// Trim implements storage.Store; nothing is cached.
func (s *Store) Trim(uint64) uint64 { return 0 }

// Cached implements storage.Store; nothing is.
func (s *Store) Cached() uint64 { return 0 }

// Check implements storage.Store.
func (s *Store) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.region.Check()
}

// Epoch implements work.Space: it changes with every free.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// Contains reports whether addr is one of the store's.
func (s *Store) Contains(addr uint64) bool { return addr-s.base < uint64(len(s.arena.bytes)) }

// Find implements work.Space.
func (s *Store) Find(addr uint64) (work.Chunk, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.region.Lookup(addr)
	if !ok {
		return work.Chunk{}, false
	}
	r, err := s.region.Range(c)
	if err != nil || addr >= r.End { // in the slack behind it
		return work.Chunk{}, false
	}
	return work.Chunk{Addr: r.Start, ID: c.Ref(), Bytes: s.arena.bytes[r.Start-s.base : r.End-s.base]}, true
}
