package runtime

import (
	"math"
	"math/bits"
	"slices"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// Storage by range: which blocks a root has. The planner says what blocks there must be
// (migration/blocks.go); here is where they are. Drivers see a block and an offset into it.

// wholeBelow is the size in bytes of the smallest buffer that may have blocks of ranges. What is
// smaller is stored whole on every memory that uses it: an exchange of blocks costs an
// allocation and a copy (10 us and more on real devices), and what it could save there is
// less than a driver rounds an allocation up to.
const wholeBelow = 256 << 10

// everything is all of a root, whatever its size.
var everything = mem.Range{End: math.MaxUint64}

// blocks are a root's on one memory: the zero Block where there is none.
type blocks struct {
	memory mem.MemoryID
	rangemap.Map[mem.Block]
}

// noBlock is what is where a memory has no blocks of a root; it is never written.
var noBlock mem.Block

// find is where the blocks on a memory are in r.blocks, or would be.
func (r *root) find(m mem.MemoryID) (int, bool) {
	for i := range r.blocks {
		if at := r.blocks[i].memory; at >= m {
			return i, at == m
		}
	}
	return len(r.blocks), false
}

// on are the blocks on a memory.
func (r *root) on(m mem.MemoryID) *blocks {
	i, ok := r.find(m)
	if !ok {
		if r.blocks == nil {
			r.blocks = r.few[:0]
		}
		r.blocks = slices.Insert(r.blocks, i, blocks{m, rangemap.Make(r.size, noBlock)})
	}
	return &r.blocks[i]
}

// blockAt is the block on a memory that holds off, and where in the root it begins; good
// until a block comes or goes.
func (r *root) blockAt(m mem.MemoryID, off uint64) (b *mem.Block, start uint64) {
	i, ok := r.find(m)
	if !ok {
		return &noBlock, 0
	}
	at := r.blocks[i].Get(off)
	return &at.Value, at.Range.Start
}

// onHost is the block on the host, zero where there is none: it is never a part.
func (r *root) onHost() mem.Block {
	b, _ := r.blockAt(mem.Host, 0)
	return *b
}

// stored reports whether there is a block on a memory.
func (r *root) stored(m mem.MemoryID) bool {
	i, ok := r.find(m)
	return ok && (!r.blocks[i].Get(0).Value.IsZero() || r.blocks[i].Len() > 1)
}

// blockAlign is what the ends of blocks are multiples of, so that a view that is aligned
// for a device is so in a block of it, and a copy of whole words is so, too.
func (c *Context) blockAlign() uint64 {
	most := uint64(1)
	for i := range c.mems {
		most = max(most, c.mems[i].info.BaseAlign, c.mems[i].info.CopyAlign)
	}
	return 1 << bits.Len64(most-1)
}

// reached is what a use has to have in one block on a device: what a kernel's pointer
// reaches; of other commands the buffer or sub-buffer that they were given, so that what a
// program moves in pieces it stores in one, but for what is too large for that. c.mu is
// held.
func (c *Context) reached(req *request, u use, m mem.MemoryID) mem.Range {
	view := u.buf.view.Range
	if req.op == opLaunch && !u.whole {
		return mem.Range{Start: view.Start, End: u.r.End}
	}
	if view.Size() > c.mems[m].largest {
		return u.r
	}
	return view
}
