package bufalloc

import (
	"iter"

	"github.com/google/btree"

	"godwit/mem"
)

// Span is one piece of a region, as Walk shows it.
type Span struct {
	Range    mem.Range // addresses, slack included
	Chunk    Chunk     // zero for a hole
	Size     uint64    // bytes asked for; 0 for a hole
	Reserved bool      // taken by Reserve
	Moving   bool      // part of a proposed move
}

// Free reports whether the span is a hole.
func (s Span) Free() bool { return s.Chunk.IsZero() }

func (r *Region) span(i uint32) Span {
	n := &r.nodes[i]
	s := Span{Range: mem.Range{Start: n.addr, End: n.end()}}
	if n.live() {
		s.Chunk, s.Size = Chunk{i, n.a}, n.size-r.slack(i)
		s.Reserved, s.Moving = n.b&reserved != 0, n.b&moving != 0
	}
	return s
}

// Walk yields every chunk and hole in address order. The region must not
// change during the walk.
func (r *Region) Walk() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
			if !yield(r.span(i)) {
				return
			}
		}
	}
}

// node returns c's node; 0 and an error where c is not live.
func (r *Region) node(c Chunk, verb string) (uint32, error) {
	if int(c.index) >= len(r.nodes) || r.nodes[c.index].a != c.gen || c.gen&liveBit == 0 {
		return 0, r.notLive(c, verb)
	}
	return c.index, nil
}

// Addr is the address of a chunk's first byte. It fails as Free does.
func (r *Region) Addr(c Chunk) (uint64, error) {
	i, err := r.node(c, "address")
	return r.nodes[i].addr, err
}

// Range is a chunk's addresses, of the bytes asked for. It fails as Free does.
func (r *Region) Range(c Chunk) (mem.Range, error) {
	i, err := r.node(c, "range")
	if err != nil {
		return mem.Range{}, err
	}
	n := &r.nodes[i]
	return mem.Range{Start: n.addr, End: n.end() - r.slack(i)}, nil
}

// Lookup is the live chunk that holds the address, slack included. The first
// makes an index of the live chunks by address, O(n log n); from then on it is
// O(log n), and so are Alloc and Free.
func (r *Region) Lookup(addr uint64) (Chunk, bool) {
	i := r.ordered().at(addr)
	if i == 0 || addr-r.nodes[i].addr >= r.nodes[i].size {
		return Chunk{}, false
	}
	return Chunk{i, r.nodes[i].a}, true
}

// ordered is the index, made at first use.
func (r *Region) ordered() *addrIndex {
	if r.index == nil {
		r.index, r.watched = newAddrIndex(), true
		for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
			if r.nodes[i].live() {
				r.index.add(r.nodes[i].addr, i)
			}
		}
	}
	return r.index
}

// place is a live chunk's key in the index.
type place struct {
	addr  uint64
	index uint32
}

type addrIndex struct {
	tree  *btree.BTreeG[place]
	found uint32 // by the at in progress
	visit func(place) bool
}

func newAddrIndex() *addrIndex {
	x := &addrIndex{tree: btree.NewG(32, func(a, b place) bool { return a.addr < b.addr })}
	x.visit = func(p place) bool { x.found = p.index; return false }
	return x
}

func (x *addrIndex) add(addr uint64, i uint32) { x.tree.ReplaceOrInsert(place{addr, i}) }
func (x *addrIndex) drop(addr uint64)          { x.tree.Delete(place{addr: addr}) }
func (x *addrIndex) clear()                    { x.tree.Clear(true) }

// at is the chunk with the greatest start not above addr, or 0.
func (x *addrIndex) at(addr uint64) uint32 {
	x.found = 0
	x.tree.DescendLessOrEqual(place{addr: addr}, x.visit)
	return x.found
}
