// Package yardstick is the bare two-level bitmap good-fit that bufalloc's speed
// is measured against: Masmano et al., "TLSF: a new dynamic memory allocator
// for real-time systems" (ECRTS 2004), on nodes of the same 32 bytes that lie
// outside the memory they describe, as in OffsetAllocator. It has none of
// bufalloc's placement rules and none of its services: no alignment, no
// generations, no statistics, no look into the request's own bin, no last
// resort. It is for benchmarks; nothing else should use it.
package yardstick

import "math/bits"

// None is what Alloc returns where nothing fits.
const None = 0

// subBits is the number of bits of a size that tell the bins of one power of
// two apart: 8 of them, as OffsetAllocator has.
const subBits = 3

// node is a chunk or a hole; links are indices, 0 is none.
type node struct {
	addr, size uint64 // bytes
	prev, next uint32 // neighbours in address order
	a, b       uint32 // hole: previous and next of its bin; chunk: a is used
}

const used = ^uint32(0) // in a

// Allocator gives chunks out of [0, size). Not safe for concurrent use.
type Allocator struct {
	nodes []node // nodes[0] is the anchor of the address order
	spare uint32 // unused nodes, linked by next
	size  uint64
	top   uint64                // bit o: some bin of power of two o has a hole
	sub   [64]uint8             // by power of two: its bins that have one
	head  [64 << subBits]uint32 // first hole of each bin
}

// New returns an allocator of size bytes with bookkeeping for that many live
// chunks set aside.
func New(size uint64, chunks int) *Allocator {
	a := &Allocator{nodes: make([]node, 1, 2*chunks+3), size: size}
	a.Reset()
	return a
}

// Reset frees everything.
func (a *Allocator) Reset() {
	a.nodes, a.spare, a.top = a.nodes[:1], 0, 0
	a.nodes[0] = node{}
	a.sub, a.head = [64]uint8{}, [64 << subBits]uint32{}
	i := a.node(0, a.size, 0)
	a.insert(i)
}

// Alloc returns a chunk of size bytes, or None.
func (a *Allocator) Alloc(size uint64) uint32 {
	bin, ok := a.from(roundUp(size))
	if !ok {
		return None
	}
	i := a.head[bin]
	a.remove(i)
	if rest := a.nodes[i].size - size; rest > 0 {
		a.nodes[i].size = size
		a.insert(a.node(a.nodes[i].addr+size, rest, i))
	}
	a.nodes[i].a = used
	return i
}

// Free gives a chunk back.
func (a *Allocator) Free(i uint32) {
	n := &a.nodes[i]
	n.a = 0
	if p := n.prev; p != 0 && a.nodes[p].a != used {
		a.remove(p)
		n.addr = a.nodes[p].addr
		n.size += a.nodes[p].size
		a.drop(p)
	}
	if x := n.next; x != 0 && a.nodes[x].a != used {
		a.remove(x)
		n.size += a.nodes[x].size
		a.drop(x)
	}
	a.insert(i)
}

// Addr is the address of a chunk's first byte.
func (a *Allocator) Addr(i uint32) uint64 { return a.nodes[i].addr }

// node makes a node behind node p in address order.
func (a *Allocator) node(addr, size uint64, p uint32) uint32 {
	i := a.spare
	if i != 0 {
		a.spare = a.nodes[i].next
	} else {
		a.nodes = append(a.nodes, node{})
		i = uint32(len(a.nodes) - 1)
	}
	next := a.nodes[p].next
	a.nodes[i] = node{addr: addr, size: size, prev: p, next: next}
	a.nodes[p].next = i
	a.nodes[next].prev = i
	return i
}

func (a *Allocator) drop(i uint32) {
	n := &a.nodes[i]
	a.nodes[n.prev].next = n.next
	a.nodes[n.next].prev = n.prev
	n.a, n.next = 0, a.spare
	a.spare = i
}

// binOf is the bin of holes of this size: its power of two, then the next
// subBits bits.
func binOf(size uint64) uint32 {
	o := bits.Len64(size) - 1
	return uint32(o<<subBits) | uint32(size<<(63-o)>>(63-subBits))&(1<<subBits-1)
}

// roundUp is the first bin all of whose holes have at least size bytes.
func roundUp(size uint64) uint32 {
	b := binOf(size)
	if o := b >> subBits; size<<(63-o)<<(subBits+1) != 0 {
		b++
	}
	return b
}

// from is the first bin at or after bin that has a hole.
func (a *Allocator) from(bin uint32) (uint32, bool) {
	o := bin >> subBits
	if o > 63 {
		return 0, false
	}
	if m := a.sub[o] >> (bin & (1<<subBits - 1)); m != 0 {
		return bin + uint32(bits.TrailingZeros8(m)), true
	}
	m := a.top & (^uint64(1) << o)
	if m == 0 {
		return 0, false
	}
	o = uint32(bits.TrailingZeros64(m))
	return o<<subBits | uint32(bits.TrailingZeros8(a.sub[o])), true
}

func (a *Allocator) insert(i uint32) {
	n := &a.nodes[i]
	bin := binOf(n.size)
	h := a.head[bin]
	n.a, n.b = 0, h
	if h != 0 {
		a.nodes[h].a = i
	}
	a.head[bin] = i
	a.sub[bin>>subBits] |= 1 << (bin & (1<<subBits - 1))
	a.top |= 1 << (bin >> subBits)
}

func (a *Allocator) remove(i uint32) {
	n := &a.nodes[i]
	if n.b != 0 {
		a.nodes[n.b].a = n.a
	}
	if n.a != 0 {
		a.nodes[n.a].b = n.b
		return
	}
	bin := binOf(n.size)
	a.head[bin] = n.b
	if n.b == 0 {
		o := bin >> subBits
		if a.sub[o] &^= 1 << (bin & (1<<subBits - 1)); a.sub[o] == 0 {
			a.top &^= 1 << o
		}
	}
}

// Nodes is the number of chunks and holes.
func (a *Allocator) Nodes() int {
	n := 0
	for i := a.nodes[0].next; i != 0; i = a.nodes[i].next {
		n++
	}
	return n
}

// Bookkeeping is the bytes that the allocator's own structures hold.
func (a *Allocator) Bookkeeping() uint64 { return uint64(cap(a.nodes)) * 32 }
