// Package region is what the drivers of simulated devices share: memory of a fixed size,
// and the parameters of a devices.Config.
package region

import (
	"fmt"

	"godwit/bufalloc"
	"godwit/devices/work"
	"godwit/internal/storage"
	"godwit/mem"
)

// Store places blocks in a region, and has the bytes behind it: an arena of host memory
// outside the Go heap. Find may be called from anywhere.
type Store struct {
	*storage.Region                    // immutable
	base            uint64             // immutable: address of the first byte
	arena           *storage.Host      // immutable: has one block, what is behind the region
	behind          storage.Allocation // immutable: that
}

// New returns a store of size bytes with its own arena. Its addresses start at
// base; where inPlace is set they are the process's instead.
func New(name string, base, size uint64, inPlace bool, o bufalloc.Options) (*Store, error) {
	s := &Store{base: base, arena: storage.NewHost(name+" arena", 0)}
	var err error
	if s.behind, err = storage.Allocate(s.arena, s.arena, size, 4096); err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	if inPlace {
		s.base = s.behind.Addr
	}
	if s.Region, err = storage.NewRegion(s.base, size, o); err != nil {
		_ = s.Close() // the first error counts
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	return s, nil
}

// Shift is what makes an address one of the process.
func (s *Store) Shift() uint64 { return s.behind.Addr - s.base }

// Close gives the arena back.
func (s *Store) Close() error {
	if err := s.behind.Free(); err != nil {
		return err
	}
	return s.arena.Close()
}

// Contains reports whether addr is one of the store's.
func (s *Store) Contains(addr uint64) bool { return addr-s.base < s.behind.Size }

// Find implements work.Space.
func (s *Store) Find(addr uint64) (work.Chunk, bool) {
	r, id, ok := s.Lookup(addr)
	if !ok {
		return work.Chunk{}, false
	}
	return s.Chunk(r, id), true
}

// Chunk is the memory at addresses that are all the store's.
func (s *Store) Chunk(r mem.Range, id uint64) work.Chunk {
	return work.Chunk{Addr: r.Start, ID: id, Bytes: s.behind.Bytes[r.Start-s.base : r.End-s.base]}
}
