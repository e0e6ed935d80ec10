package bufalloc

import "fmt"

// node is a chunk or a hole. 32 bytes, no pointers. Links are indices into
// Region.nodes.
//
// Two nodes are never chunks or holes. nodes[0] ends every list of holes: no
// hole starts above its address, its size is 0, and what is written into its
// links is never read, so that lists are edited without asking where they end. nodes[anchor]
// closes the address order to a ring and counts as live, so that holes are
// merged without asking where the region ends.
//
// The links a and b mean different things in holes and chunks: a hole's are its
// places in its strategy's list, a chunk's are its generation (with liveBit,
// which no index reaches) and its flags.
type node struct {
	addr       uint64 // address of the first byte
	size       uint64 // bytes, slack included; never 0 in a chunk or a hole
	prev, next uint32 // neighbours in address order
	a          uint32 // hole: previous in its list; chunk: liveBit | generation
	b          uint32 // hole: next in its list; chunk: flags | log2(alignment) | slack
}

const (
	anchor   = 1         // the node that is before the first and behind the last
	liveBit  = 1 << 31   // in a: the node is a chunk
	genMask  = 1<<31 - 1 // in a: the generation
	reserved = 1 << 31   // in b: taken by Reserve; never moved
	moving   = 1 << 30   // in b: part of a proposed move
	alignBit = 24        // in b: from here, 6 bits, the alignment asked for
	slackMax = 1<<24 - 1 // in b: bytes beyond those asked for
	maxNodes = 1<<31 - 2
)

func (n *node) live() bool  { return n.a&liveBit != 0 }
func (n *node) end() uint64 { return n.addr + n.size }

// Chunk names a live piece of a Region: an index and a generation. Chunks are
// plain values without pointers that compare with ==; the zero Chunk is none. A
// chunk keeps its value when it is moved, so it does not hold its address: ask
// the region.
type Chunk struct {
	index uint32
	gen   uint32 // with liveBit
}

// IsZero reports whether c is no chunk.
func (c Chunk) IsZero() bool { return c == Chunk{} }

// Ref is c as one word, for mem.Block.Ref; 0 only for the zero Chunk.
func (c Chunk) Ref() uint64 { return uint64(c.gen)<<32 | uint64(c.index) }

// ChunkFromRef is the chunk whose Ref is ref. Any value is accepted: one that
// names no live chunk is refused by the region.
func ChunkFromRef(ref uint64) Chunk {
	if uint32(ref) <= anchor {
		return Chunk{}
	}
	return Chunk{uint32(ref), uint32(ref >> 32)}
}

// String is the chunk's index and generation, as in "chunk 12.345".
func (c Chunk) String() string {
	if c.IsZero() {
		return "chunk none"
	}
	return fmt.Sprintf("chunk %d.%d", c.index, c.gen&genMask)
}

// newNode returns the index of an unused node. The caller sees to it that
// there is one (Region.room).
func (r *Region) newNode() uint32 {
	if i := r.spare; i != 0 {
		r.spare = r.nodes[i].next
		return i
	}
	if n := len(r.nodes); n == cap(r.nodes) {
		// By an eighth: append would double what a little more is needed of.
		grown := make([]node, n, n+max(n/8, 16))
		copy(grown, r.nodes)
		r.nodes = grown
	}
	r.nodes = append(r.nodes, node{})
	return uint32(len(r.nodes) - 1)
}

// dropNode gives the index back.
func (r *Region) dropNode(i uint32) {
	r.nodes[i].a, r.nodes[i].next = 0, r.spare
	r.spare = i
}

// linkAfter puts node i behind node p in address order.
func (r *Region) linkAfter(i, p uint32) {
	n := r.nodes[p].next
	r.nodes[i].prev, r.nodes[i].next = p, n
	r.nodes[p].next = i
	r.nodes[n].prev = i
}

// unlink takes node i out of the address order and gives its index back.
func (r *Region) unlink(i uint32) {
	p, n := r.nodes[i].prev, r.nodes[i].next
	r.nodes[p].next = n
	r.nodes[n].prev = p
	r.dropNode(i)
}

// cutFront makes the first size bytes of node i a node of their own, in front
// of it, and returns its index. Neither is in a strategy's order afterwards.
func (r *Region) cutFront(i uint32, size uint64) uint32 {
	f := r.newNode()
	n := &r.nodes[i]
	r.nodes[f] = node{addr: n.addr, size: size}
	n.addr += size
	n.size -= size
	r.linkAfter(f, n.prev)
	return f
}

// cutBack makes all but the first keep bytes of node i a node of their own,
// behind it, and returns its index.
func (r *Region) cutBack(i uint32, keep uint64) uint32 {
	b := r.newNode()
	n := &r.nodes[i]
	r.nodes[b] = node{addr: n.addr + keep, size: n.size - keep}
	n.size = keep
	r.linkAfter(b, i)
	return b
}
