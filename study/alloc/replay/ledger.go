package replay

import (
	"fmt"

	"github.com/google/btree"

	"godwit/bufalloc"
	"godwit/mem"
)

// checked is a machine made of answers, none of which it believes.
type checked struct {
	name string
	st   *Stream
	size uint64   // of the region, in bytes
	held []uint64 // by slot; NoPlace where an allocation failed
	// ask performs an operation. The answer is an address, or NoPlace for a refusal;
	// to a free it is anything.
	ask   func(op Op) (answer uint64, err error)
	alone uint64 // the largest size that was given with nothing live, in bytes
	*ledger
}

func (c *checked) do(op Op) (bool, error) {
	if held := c.held[op.Slot]; op.Size == 0 && held != NoPlace {
		c.drop(held)
	}
	answer, err := c.ask(op)
	if err != nil || op.Size == 0 {
		return err == nil, err
	}
	c.held[op.Slot] = answer
	size := roundTo(op.Size, c.st.Align)
	if answer == NoPlace {
		if c.st.Leaks && c.live == 0 && size <= c.alone {
			return false, &Fault{Subject: c.name, Kind: Leak, Detail: fmt.Sprintf("%d bytes are refused with nothing live; %d were given so before", size, c.alone)}
		}
		return false, nil
	}
	if c.live == 0 {
		c.alone = max(c.alone, size)
	}
	if f := c.add(answer, size, c.st.Align); f != nil {
		f.Subject = c.name
		return false, f
	}
	return true, nil
}

func (c *checked) addr(slot uint32) (uint64, error) { return c.held[slot], nil }
func (c *checked) quick() bool                      { return false }
func (c *checked) close() error                     { return nil }

// ledger is what is known of an allocator from its answers alone: which bytes
// are live. It accepts a chunk only where the contract allows it.
type ledger struct {
	region uint64 // bytes
	tree   *btree.BTreeG[mem.Range]
	live   uint64 // bytes, slack of alignment left out
	high   uint64 // greatest end seen

	// Of the look in progress, as the visiting functions are made once.
	key         mem.Range
	clash       mem.Range
	below, from func(mem.Range) bool
}

func newLedger(size uint64) *ledger {
	l := &ledger{region: size, tree: btree.NewG(32, func(a, b mem.Range) bool { return a.Start < b.Start })}
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
	case addr > l.region || size > l.region-addr:
		return &Fault{Kind: outside, Detail: fmt.Sprintf("%d bytes at %#x do not lie in [0, %#x)", size, addr, l.region)}
	case addr&(align-1) != 0:
		return &Fault{Kind: misaligned, Detail: fmt.Sprintf("%d bytes at %#x, which is no multiple of %d", size, addr, align)}
	}
	l.key, l.clash = mem.Range{Start: addr, End: addr + size}, mem.Range{}
	l.tree.DescendLessOrEqual(l.key, l.below)
	if l.clash.Empty() {
		l.tree.AscendGreaterOrEqual(l.key, l.from)
	}
	if !l.clash.Empty() {
		return &Fault{Kind: overlap, Detail: fmt.Sprintf("%d bytes at %#x lie on the live chunk at %v", size, addr, l.clash)}
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
	s := bufalloc.Stats{Capacity: l.region, Live: l.live, Free: l.region - l.live, HighWater: l.high, Chunks: l.tree.Len()}
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
	hole(l.region)
	return s
}
