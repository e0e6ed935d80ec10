package engine

import (
	"godwit/bufalloc"
	"godwit/devices"
	"godwit/internal/storage"
)

// What a driver keeps its memory in: a store places blocks in addresses, and Blocks makes
// a mem.Resource of it.
type (
	// Blocks are the blocks of a memory: handles, frees that wait for points, figures.
	Blocks = storage.Blocks
	// Store places blocks in addresses, for Blocks.
	Store = storage.Store
	// Place is where a Store put a block.
	Place = storage.Place
	// Gone is a place that Store.Fits is to take for given back.
	Gone = storage.Gone
	// Region is a Store over a range of addresses, placed by bufalloc.
	Region = storage.Region
	// Pinned is page-locked memory.
	Pinned = storage.Pinned
)

// NewBlocks makes a memory of a store; align is the least alignment of a block.
func NewBlocks(name string, align uint64, store Store) *Blocks {
	return storage.NewBlocks(name, align, store)
}

// NewRegion is a store over size bytes of addresses from base.
func NewRegion(base, size uint64, o bufalloc.Options) (*Region, error) {
	return storage.NewRegion(base, size, o)
}

// NewHostBlocks is memory of this process, of at most limit bytes; 0 is without limit.
func NewHostBlocks(name string, align, limit uint64) *Blocks {
	return storage.NewHostBlocks(name, align, limit)
}

// NewPinned is page-locked memory in a store; locking says how it stands with that.
func NewPinned(name string, align uint64, store Store, locking func() devices.Locking) *Pinned {
	return storage.NewPinned(name, align, store, locking)
}
