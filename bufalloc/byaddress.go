package bufalloc

import "fmt"

// byAddress is the holes in the order of addresses, so that the first that is large
// enough is found in O(log n): a treap (Seidel and Aragon, "Randomized search trees",
// Algorithmica 1996) in which each node knows the size of the largest hole below it. Its
// nodes are those of the region, by index; priorities are scrambled indices, so that the
// same calls make the same tree.
type byAddress struct {
	t    []branch // by node
	root uint32   // 0: no hole
}

// branch is a hole's place in the tree.
type branch struct {
	most            uint64 // the size of the largest hole in the subtree
	up, left, right uint32 // 0: none
}

// reset forgets all holes and has room for those of so many nodes.
func (x *byAddress) reset(nodes int) {
	x.root = 0
	if cap(x.t) < nodes {
		x.t = make([]branch, 0, nodes)
	}
}

// before reports whether hole i stands nearer to the root than hole j.
func before(i, j uint32) bool { return scrambled(i) > scrambled(j) }

func scrambled(i uint32) uint32 {
	i = (i ^ i>>16) * 0x7feb352d
	i = (i ^ i>>15) * 0x846ca68b
	return i ^ i>>16
}

func (x *byAddress) insert(ns []node, i uint32) {
	for int(i) >= len(x.t) {
		x.t = append(x.t, branch{})
	}
	at, link := uint32(0), &x.root
	for *link != 0 {
		at = *link
		if ns[i].addr < ns[at].addr {
			link = &x.t[at].left
		} else {
			link = &x.t[at].right
		}
	}
	*link = i
	x.t[i] = branch{most: ns[i].size, up: at}
	for at != 0 && before(i, at) {
		x.lift(ns, i)
		at = x.t[i].up
	}
	for ; at != 0 && x.t[at].most < x.t[i].most; at = x.t[at].up {
		x.t[at].most = x.t[i].most
	}
}

func (x *byAddress) remove(ns []node, i uint32) {
	for x.t[i].left|x.t[i].right != 0 {
		l, r := x.t[i].left, x.t[i].right
		if r == 0 || l != 0 && before(l, r) {
			x.lift(ns, l)
		} else {
			x.lift(ns, r)
		}
	}
	at := x.t[i].up
	*x.link(i) = 0
	for ; at != 0; at = x.t[at].up {
		x.sum(ns, at)
	}
}

// link is where the tree holds i.
func (x *byAddress) link(i uint32) *uint32 {
	up := x.t[i].up
	switch {
	case up == 0:
		return &x.root
	case x.t[up].left == i:
		return &x.t[up].left
	}
	return &x.t[up].right
}

// lift turns i and its parent round.
func (x *byAddress) lift(ns []node, i uint32) {
	p := x.t[i].up
	*x.link(p) = i
	n, m := &x.t[i], &x.t[p]
	child := &n.right
	if m.left == i {
		m.left = n.right
	} else {
		m.right, child = n.left, &n.left
	}
	if *child != 0 {
		x.t[*child].up = p
	}
	*child, n.up, m.up = p, m.up, i
	x.sum(ns, p)
	x.sum(ns, i)
}

func (x *byAddress) sum(ns []node, i uint32) {
	n := &x.t[i]
	most := ns[i].size
	if n.left != 0 {
		most = max(most, x.t[n.left].most)
	}
	if n.right != 0 {
		most = max(most, x.t[n.right].most)
	}
	n.most = most
}

// first is the hole at the lowest address, among those below i, that has room for size
// bytes at a multiple of align; 0 where there is none. It takes O(log n) steps, and one
// more such way for each hole that is large enough and holds no such multiple.
func (x *byAddress) first(ns []node, i uint32, size, align uint64, steps *uint64) uint32 {
	for i != 0 && x.t[i].most >= size {
		*steps++
		if l := x.t[i].left; l != 0 && x.t[l].most >= size {
			if j := x.first(ns, l, size, align, steps); j != 0 {
				return j
			}
		}
		if holds(&ns[i], size, align) {
			return i
		}
		i = x.t[i].right
	}
	return 0
}

// check tests that hole i is in its place, and right about what is below it.
func (x *byAddress) check(ns []node, i uint32) error {
	if int(i) >= len(x.t) || *x.link(i) != i {
		return fmt.Errorf("hole %d is not in the tree of holes", i)
	}
	was := x.t[i]
	if x.sum(ns, i); x.t[i] != was {
		return fmt.Errorf("the largest hole below %d has %d bytes, the tree says %d", i, x.t[i].most, was.most)
	}
	for j := i; x.t[j].up != 0; j = x.t[j].up {
		up := x.t[j].up
		if before(j, up) || (x.t[up].left == j) != (ns[i].addr < ns[up].addr) {
			return fmt.Errorf("hole %d at %#x is on the wrong side of hole %d at %#x, or above it", i, ns[i].addr, up, ns[up].addr)
		}
	}
	return nil
}
