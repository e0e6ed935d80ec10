package bufalloc

import (
	"github.com/google/btree"

	"godwit/mem"
)

// bestFit keeps the holes by size, then address. It is a Placement like any
// other, and the shortest example of one.
type bestFit struct {
	tree *btree.BTreeG[Hole]

	// The request of the Find in progress, and its result: here so that the
	// visiting function below is made once and not for each call.
	size, align uint64
	found       uint32
	addr        uint64
	visit       func(Hole) bool
}

func newBestFit() Placement {
	f := &bestFit{tree: btree.NewG(32, func(a, b Hole) bool {
		if a.Size != b.Size {
			return a.Size < b.Size
		}
		return a.Addr < b.Addr
	})}
	f.visit = func(h Hole) bool {
		addr, ok := h.Fits(f.size, f.align)
		if ok {
			f.found, f.addr = h.ID, addr
		}
		return !ok
	}
	return f
}

func (f *bestFit) Reset(mem.Range) { f.tree.Clear(true) }
func (f *bestFit) Insert(h Hole)   { f.tree.ReplaceOrInsert(h) }
func (f *bestFit) Remove(h Hole)   { f.tree.Delete(h) }

func (f *bestFit) Find(size, align uint64, _ mem.Hint) (uint32, uint64) {
	f.size, f.align, f.found = size, align, 0
	f.tree.AscendGreaterOrEqual(Hole{Size: size}, f.visit)
	return f.found, f.addr
}
