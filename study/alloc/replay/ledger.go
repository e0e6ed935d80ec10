package replay

import (
	"fmt"

	"github.com/google/btree"

	"godwit/bufalloc"
	"godwit/mem"
)

// ledger is what is known of an allocator from its answers alone: which bytes
// are live. It accepts a chunk only where the contract allows it.
type ledger struct {
	size uint64 // of the region, in bytes
	tree *btree.BTreeG[mem.Range]
	live uint64 // bytes, slack of alignment left out
	high uint64 // greatest end seen

	// Of the look in progress, as the visiting functions are made once.
	key         mem.Range
	clash       mem.Range
	below, from func(mem.Range) bool
}

func newLedger(size uint64) *ledger {
	l := &ledger{size: size, tree: btree.NewG(32, func(a, b mem.Range) bool { return a.Start < b.Start })}
	look := func(r mem.Range) bool {
		if r.Start < l.key.End && l.key.Start < r.End {
			l.clash = r
		}
		return false
	}
	l.below, l.from = look, look
	return l
}

// add takes in a chunk of size bytes at addr, or says what is wrong with it.
func (l *ledger) add(addr, size, align uint64) *Fault {
	switch {
	case addr > l.size || size > l.size-addr:
		return &Fault{Kind: Outside, Detail: fmt.Sprintf("%d bytes at %#x do not lie in [0, %#x)", size, addr, l.size)}
	case addr&(align-1) != 0:
		return &Fault{Kind: Misaligned, Detail: fmt.Sprintf("%d bytes at %#x, which is no multiple of %d", size, addr, align)}
	}
	l.key, l.clash = mem.Range{Start: addr, End: addr + size}, mem.Range{}
	l.tree.DescendLessOrEqual(l.key, l.below)
	if l.clash.Empty() {
		l.tree.AscendGreaterOrEqual(l.key, l.from)
	}
	if !l.clash.Empty() {
		return &Fault{Kind: Overlap, Detail: fmt.Sprintf("%d bytes at %#x lie on the live chunk at %v", size, addr, l.clash)}
	}
	l.tree.ReplaceOrInsert(l.key)
	l.live += size
	l.high = max(l.high, l.key.End)
	return nil
}

// drop forgets the chunk at addr, which is live.
func (l *ledger) drop(addr uint64) {
	if r, ok := l.tree.Delete(mem.Range{Start: addr}); ok {
		l.live -= r.Size()
	}
}

// stats are the figures that follow from the live bytes. O(live chunks).
func (l *ledger) stats() bufalloc.Stats {
	s := bufalloc.Stats{Capacity: l.size, Live: l.live, Free: l.size - l.live, HighWater: l.high, Chunks: l.tree.Len()}
	at := uint64(0)
	hole := func(end uint64) {
		if end > at {
			s.Holes++
			s.LargestFree = max(s.LargestFree, end-at)
		}
	}
	l.tree.Ascend(func(r mem.Range) bool {
		hole(r.Start)
		at = r.End
		return true
	})
	hole(l.size)
	return s
}
