package rangemap

import (
	"fmt"

	"github.com/google/btree"

	"godwit/mem"
)

// none ends the list of slots.
const none = int32(-1)

// degree of the B-tree: nodes of up to 127 keys of 16 bytes. What a look-up costs is the library's
// steps from node to node rather than the keys compared, so that wide nodes are quicker: 1,000
// segments make two levels, where nodes of 31 keys made three.
const degree = 64

// parts is what a cut-up map knows but the values: the ranges in slots, linked
// in address order, and a tree that finds the slot of an offset.
type parts struct {
	tree *btree.BTreeG[key]
	at   []part
	free int32 // first unused slot, linked by next
	last int32 // the slot that floor found last, perhaps unused since
}

type part struct {
	r          mem.Range // empty in an unused slot
	prev, next int32
}

// key leads from a segment's start to its slot. Keys are small so that the
// tree compares and moves little; values stay where they are.
type key struct {
	start uint64
	slot  int32
}

func newParts() *parts {
	less := func(a, b key) bool { return a.start < b.start }
	return &parts{tree: btree.NewWithFreeListG(degree, less, btree.NewFreeListG[key](btree.DefaultFreeListSize)), free: none}
}

// first makes slot 0 the only segment, of size bytes.
func (p *parts) first(size uint64) {
	p.at = append(p.at[:0], part{mem.Range{End: size}, none, none})
	p.tree.ReplaceOrInsert(key{0, 0})
}

// reset forgets every segment and keeps what can be reused.
func (p *parts) reset() {
	p.tree.Clear(true)
	p.at = p.at[:0]
	p.free = none
}

// floor returns the slot of the segment that holds off.
func (p *parts) floor(off uint64) int32 {
	if i := p.last; int(i) < len(p.at) && off >= p.at[i].r.Start {
		if off < p.at[i].r.End {
			return i
		}
		if i = p.at[i].next; i != none && !p.at[p.last].r.Empty() && off >= p.at[i].r.Start && off < p.at[i].r.End { // uses go upwards
			p.last = i
			return i
		}
	}
	slot := none
	p.tree.DescendLessOrEqual(key{start: off}, func(k key) bool {
		slot = k.slot
		return false
	})
	if slot != none {
		p.last = slot
	}
	return slot
}

// split cuts the segment in slot i at off and returns the slot of the upper
// part: a reused one, or the one after the last.
func (p *parts) split(i int32, off uint64) int32 {
	j := p.free
	if j == none {
		j = int32(len(p.at))
		p.at = append(p.at, part{})
	} else {
		p.free = p.at[j].next
	}
	next := p.at[i].next
	p.at[j] = part{mem.Range{Start: off, End: p.at[i].r.End}, i, next}
	p.at[i].r.End, p.at[i].next = off, j
	if next != none {
		p.at[next].prev = j
	}
	p.tree.ReplaceOrInsert(key{off, j})
	return j
}

// restart moves the start of the segment in slot i to off.
func (p *parts) restart(i int32, off uint64) {
	p.tree.Delete(key{start: p.at[i].r.Start})
	p.at[i].r.Start = off
	p.tree.ReplaceOrInsert(key{off, i})
}

// drop takes the segment in slot i out of the list and the tree.
func (p *parts) drop(i int32) {
	prev, next := p.at[i].prev, p.at[i].next
	p.tree.Delete(key{start: p.at[i].r.Start})
	if prev != none {
		p.at[prev].next = next
	}
	if next != none {
		p.at[next].prev = prev
	}
	p.at[i] = part{next: p.free}
	p.free = i
}

// check tests that the list tiles [0, size) and agrees with tree and slots.
func (p *parts) check(size uint64) error {
	off, prev, n := uint64(0), none, 0
	for i := p.floor(0); i != none; i = p.at[i].next {
		s := p.at[i]
		switch k, ok := p.tree.Get(key{start: s.r.Start}); {
		case s.r.Start != off || s.r.Empty():
			return fmt.Errorf("rangemap: segment %v after offset %d", s.r, off)
		case s.prev != prev:
			return fmt.Errorf("rangemap: segment %v links back to slot %d, not %d", s.r, s.prev, prev)
		case !ok || k.slot != i:
			return fmt.Errorf("rangemap: segment %v is not where the tree says", s.r)
		}
		off, prev = s.r.End, i
		n++
	}
	if off != size {
		return fmt.Errorf("rangemap: segments end at %d of %d", off, size)
	}
	if n != p.tree.Len() {
		return fmt.Errorf("rangemap: %d segments linked, %d in the tree", n, p.tree.Len())
	}
	for i := p.free; i != none; i = p.at[i].next {
		n++
	}
	if n != len(p.at) {
		return fmt.Errorf("rangemap: %d slots used and free, of %d", n, len(p.at))
	}
	return nil
}
