package pack

import (
	"cmp"
	"slices"
)

// block is a placed neighbour's range of offsets, [off, top).
type block struct{ off, top int64 }

// layout is a partial placement of one component that boxes enter and leave.
type layout struct {
	boxes  []box
	offset []int64 // by box; -1 while not placed
	index  *index
	near   []int32 // scratch
	blocks []block // scratch
}

func newLayout(boxes []box) *layout {
	l := &layout{boxes: boxes, offset: make([]int64, len(boxes)), index: newIndex(boxes)}
	l.reset()
	return l
}

func (l *layout) reset() {
	l.index.reset()
	for i := range l.offset {
		l.offset[i] = -1
	}
}

// neighbours gathers the ranges of the placed boxes that overlap box i in time,
// sorted by offset.
func (l *layout) neighbours(i int32) []block {
	b := &l.boxes[i]
	l.near = l.index.query(b.lo, b.hi, l.near[:0])
	l.blocks = l.blocks[:0]
	for _, j := range l.near {
		l.blocks = append(l.blocks, block{l.offset[j], l.offset[j] + l.boxes[j].size})
	}
	slices.SortFunc(l.blocks, func(a, b block) int { return cmp.Compare(a.off, b.off) })
	return l.blocks
}

// lowest returns the lowest offset where box i fits among those placed.
func (l *layout) lowest(i int32) int64 {
	b := &l.boxes[i]
	at := int64(0)
	for _, n := range l.neighbours(i) {
		if n.off-at >= b.size {
			break
		}
		if n.top > at {
			at = alignUp(n.top, b.align)
		}
	}
	return at
}

// put places box i at off.
func (l *layout) put(i int32, off int64) {
	l.offset[i] = off
	l.index.insert(i, l.boxes[i].hi)
}

// take removes box i.
func (l *layout) take(i int32) {
	l.offset[i] = -1
	l.index.remove(i)
}
