package pack

import (
	"cmp"
	"slices"
)

// leaf is the number of boxes in a leaf of an index.
const leaf = 16

// index finds the placed boxes that share a section with a given box. Boxes
// stand in order of their first section; a tree over them holds the largest
// last section of those placed, so that a query visits only parts that hold an
// answer: O(k log(n/k)) for k answers.
type index struct {
	rank []int32 // box -> position in the order
	box  []int32 // position -> box
	lo   []int32 // by position
	hi   []int32 // by position; 0 while not placed
	tree []int32 // largest hi below each node; the children of i are 2i and 2i+1
	base int     // number of leaves, a power of two
}

func newIndex(boxes []box) *index {
	n := len(boxes)
	x := &index{rank: make([]int32, n), box: make([]int32, n), lo: make([]int32, n), hi: make([]int32, n), base: 1}
	for i := range x.box {
		x.box[i] = int32(i)
	}
	slices.SortFunc(x.box, func(a, b int32) int {
		return cmp.Or(cmp.Compare(boxes[a].lo, boxes[b].lo), cmp.Compare(a, b))
	})
	for p, i := range x.box {
		x.rank[i] = int32(p)
		x.lo[p] = boxes[i].lo
	}
	for x.base*leaf < n {
		x.base *= 2
	}
	x.tree = make([]int32, 2*x.base)
	return x
}

func (x *index) reset() {
	clear(x.hi)
	clear(x.tree)
}

// insert marks box i, which ends at section hi, as placed.
func (x *index) insert(i, hi int32) {
	p := x.rank[i]
	x.hi[p] = hi
	for t := x.base + int(p)/leaf; t > 0 && x.tree[t] < hi; t /= 2 {
		x.tree[t] = hi
	}
}

// remove marks box i as not placed.
func (x *index) remove(i int32) {
	p := int(x.rank[i])
	x.hi[p] = 0
	first := p / leaf * leaf
	t := x.base + p/leaf
	x.tree[t] = slices.Max(x.hi[first:min(first+leaf, len(x.hi))])
	for t /= 2; t > 0; t /= 2 {
		x.tree[t] = max(x.tree[2*t], x.tree[2*t+1])
	}
}

// query appends to out every placed box that shares a section of [lo, hi).
func (x *index) query(lo, hi int32, out []int32) []int32 {
	end, _ := slices.BinarySearch(x.lo, hi) // positions [0, end) start in time
	return x.visit(1, 0, x.base, end, lo, out)
}

// visit collects below node t, which covers leaves [first, first+width).
func (x *index) visit(t, first, width, end int, lo int32, out []int32) []int32 {
	for {
		if x.tree[t] <= lo || first*leaf >= end {
			return out
		}
		if width == 1 {
			break
		}
		width /= 2
		out = x.visit(2*t, first, width, end, lo, out)
		t, first = 2*t+1, first+width
	}
	p := first * leaf
	for k, hi := range x.hi[p:min(p+leaf, end)] {
		if hi > lo {
			out = append(out, x.box[p+k])
		}
	}
	return out
}
