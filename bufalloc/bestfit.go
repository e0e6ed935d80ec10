package bufalloc

import (
	"fmt"

	"github.com/google/btree"
)

// hole is a hole's key in bestFit's tree.
type hole struct {
	size, addr uint64
	index      uint32
}

// bestFit keeps the holes by size, then address.
type bestFit struct {
	tree *btree.BTreeG[hole]

	// The request of the find in progress, and its result: here so that the
	// visiting function below is made once and not for each call.
	size, align uint64
	found       hole
	visit       func(hole) bool
}

func newBestFit() *bestFit {
	f := &bestFit{tree: btree.NewG(32, func(a, b hole) bool {
		if a.size != b.size {
			return a.size < b.size
		}
		return a.addr < b.addr
	})}
	f.visit = func(h hole) bool {
		if h.size-f.size < -h.addr&(f.align-1) {
			return true
		}
		f.found = h
		return false
	}
	return f
}

func (f *bestFit) reset() { f.tree.Clear(true) }

func (f *bestFit) insert(r *Region, i uint32) {
	f.tree.ReplaceOrInsert(hole{r.nodes[i].size, r.nodes[i].addr, i})
}

func (f *bestFit) remove(r *Region, i uint32) {
	f.tree.Delete(hole{size: r.nodes[i].size, addr: r.nodes[i].addr})
}

func (f *bestFit) find(_ *Region, size, align uint64) (uint32, uint64, uint64) {
	f.size, f.align, f.found = size, align, hole{}
	f.tree.AscendGreaterOrEqual(hole{size: size}, f.visit)
	h := f.found
	return h.index, h.addr + -h.addr&(align-1), size
}

func (f *bestFit) joins(*Region, uint32, uint32) bool { return true }

func (f *bestFit) holes() int { return f.tree.Len() }

func (f *bestFit) check(r *Region, i uint32) error {
	h, ok := f.tree.Get(hole{size: r.nodes[i].size, addr: r.nodes[i].addr})
	if !ok || h.index != i {
		return fmt.Errorf("hole %d of %d bytes at %#x: the tree has node %d there", i, r.nodes[i].size, r.nodes[i].addr, h.index)
	}
	return nil
}
