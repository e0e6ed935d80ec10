package bound

import (
	"cmp"
	"slices"

	"godwit/mem"
)

// memory is what was collected of one store of limited capacity: which blocks its
// commands needed, and what has to be moved where a block does not stay.
type memory struct {
	id       mem.MemoryID
	capacity uint64
	working  []uint64 // by command of this memory: bytes of the blocks it needs
	last     uint32   // version of the last of these commands
	blocks   []*block
	current  map[mem.BufferID]int // the block of a buffer, as an index
	items    map[item]uint64      // bytes
}

// before is how many commands the memory had before one, which is the last at most; 0 is none.
func (m *memory) before(command uint32) int32 {
	n := int32(len(m.working))
	if command != 0 && m.last == command {
		n--
	}
	return n
}

// block is the life of a buffer's block, as points between which it may go.
type block struct {
	size   uint64
	points []point
}

// point is where a block is needed, or where content that is only there ceases to
// matter. Commands of the memory count from 0: between two points lie those from
// the first one's after up to, and without, the second one's before.
type point struct{ before, after int32 }

// item is bytes that have to be moved, unless a block stays from one of its points
// to another.
type item struct {
	block       int
	first, last int32
}

func newMemory(id mem.MemoryID, capacity uint64) *memory {
	return &memory{id: id, capacity: capacity, current: make(map[mem.BufferID]int), items: make(map[item]uint64)}
}

// block is a buffer's present one, or nil.
func (m *memory) block(id mem.BufferID) *block {
	if i, ok := m.current[id]; ok {
		return m.blocks[i]
	}
	return nil
}

// touch notes that command n of the memory needs a buffer's block.
func (m *memory) touch(id mem.BufferID, size uint64, n int32) {
	b := m.block(id)
	if b == nil {
		b = &block{size: size}
		m.current[id] = len(m.blocks)
		m.blocks = append(m.blocks, b)
	}
	b.points = append(b.points, point{n, n + 1})
}

// end returns the block's point right before command n of the memory, or the one
// that this command has made.
func (b *block) end(n int32) int32 {
	if last := len(b.points) - 1; b.points[last].before < n {
		b.points = append(b.points, point{n, n})
	}
	return int32(len(b.points) - 1)
}

// charge notes bytes to be moved unless the buffer's block stays from its point
// first to its point last.
func (m *memory) charge(id mem.BufferID, first, last int32, bytes uint64) {
	if first < last {
		m.items[item{m.current[id], first, last}] += bytes
	}
}

// gap is a time in which a block may be away: none of the commands from, up to
// and without to, needs it.
type gap struct {
	from, to int32
	size     uint64 // of the block
}

// claim is bytes to be moved unless a block stays through all of these gaps, from
// index first up to and without last.
type claim struct {
	bytes       uint64
	first, last int
}

// gaps are all gaps on which something depends, and in which some command runs,
// with the claims on them.
func (m *memory) gaps() (gaps []gap, claims []claim) {
	items := make([]item, 0, len(m.items))
	for it := range m.items {
		items = append(items, it)
	}
	slices.SortFunc(items, func(x, y item) int {
		return cmp.Or(cmp.Compare(x.block, y.block), cmp.Compare(x.first, y.first), cmp.Compare(x.last, y.last))
	})
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].block == items[0].block {
			n++
		}
		gaps, claims = m.gapsOf(m.blocks[items[0].block], items[:n], gaps, claims)
		items = items[n:]
	}
	return gaps, claims
}

// gapsOf adds those of one block, whose items are given by ascending first point.
func (m *memory) gapsOf(b *block, items []item, gaps []gap, claims []claim) ([]gap, []claim) {
	at := make([]int, len(b.points)) // by point: the index of the first gap that begins there or later
	reach, next := int32(0), 0       // points up to reach are within some item
	for p := range int32(len(b.points)) {
		for ; next < len(items) && items[next].first <= p; next++ {
			reach = max(reach, items[next].last)
		}
		at[p] = len(gaps)
		if p < reach && b.points[p].after < b.points[p+1].before {
			gaps = append(gaps, gap{b.points[p].after, b.points[p+1].before, b.size})
		}
	}
	for _, it := range items {
		if first, last := at[it.first], at[it.last]; first < last {
			claims = append(claims, claim{m.items[it], first, last})
		}
	}
	return gaps, claims
}
