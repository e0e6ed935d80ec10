package bound

import "math"

// network is a minimum-cost flow problem over nodes in a line, solved by the
// network simplex method. Between neighbours there is an arc of no cost and no
// limit; chords skip nodes, have a limit and save something for each unit that
// takes them. A feasible flow is known from the start, over the line alone, and
// its arcs are the first spanning tree. It is rooted at the last node, so that
// every arc of it points to the root and has room: the tree is strongly feasible,
// and with the rule by which arcs leave it stays so, which rules out cycling
// (Ahuja, Magnanti, Orlin: Network Flows, 1993, chapter 11).
type network struct {
	arcs []arc // the line's first, arc i from node i to i+1
	tree []node
	next int // arc that the search for a profitable one goes on from

	pivots int // so far
}

type arc struct {
	tail, head int32
	state      state
	limit      int64 // units
	flow       int64 // units
	cost       int64 // for a unit
}

// state is where an arc stands: a basis is a spanning tree, and all other arcs
// are empty or full.
type state int8

const (
	inTree state = iota
	empty
	full
)

// node is a node of the spanning tree.
type node struct {
	parent, via int32 // its parent, and the arc that leads there; -1 at the root
	depth       int32
	child       int32 // its first child; children are a doubly linked list
	left, right int32
	price       int64 // potential: of an arc in the tree, cost + price(tail) - price(head) is 0
}

const unlimited = math.MaxInt64

// newNetwork makes a line in which amounts[i] units go from node i to i+1.
func newNetwork(amounts []int64) *network {
	n := len(amounts) + 1
	g := &network{tree: make([]node, n)}
	for i := range g.tree {
		g.tree[i] = node{parent: int32(i + 1), via: int32(i), depth: int32(n - 1 - i), child: int32(i - 1), left: -1, right: -1}
	}
	g.tree[n-1].parent, g.tree[n-1].via = -1, -1
	for i, a := range amounts {
		g.arcs = append(g.arcs, arc{tail: int32(i), head: int32(i + 1), limit: unlimited, flow: a})
	}
	return g
}

// chord adds an arc that saves so much for each unit, and returns its number.
func (g *network) chord(from, to int32, limit, saves int64) int {
	g.arcs = append(g.arcs, arc{tail: from, head: to, state: empty, limit: limit, cost: -saves})
	return len(g.arcs) - 1
}

// reprice changes what a chord saves. The flow stays feasible.
func (g *network) reprice(arc int, saves int64) { g.arcs[arc].cost = -saves }

// solve finds a flow of the least cost, from the flow that there is. Whatever it
// finds, its prices are only a proposal: what they prove is computed apart.
func (g *network) solve() {
	g.priceAll()
	for {
		e := g.profitable()
		if e < 0 {
			return
		}
		g.pivot(e)
	}
}

// priceAll makes every arc of the tree cost nothing at its ends' prices.
func (g *network) priceAll() {
	root := int32(len(g.tree) - 1)
	for g.tree[root].parent >= 0 {
		root = g.tree[root].parent
	}
	g.tree[root].price = 0
	g.below(root, func(v int32) {
		n := &g.tree[v]
		if a := &g.arcs[n.via]; a.tail == v {
			n.price = g.tree[n.parent].price - a.cost
		} else {
			n.price = g.tree[n.parent].price + a.cost
		}
	})
}

// below calls f for all nodes under v, parents first.
func (g *network) below(v int32, f func(int32)) {
	at := v
	for {
		switch c := g.tree[at].child; {
		case c >= 0:
			at = c
		default:
			for at != v && g.tree[at].right < 0 {
				at = g.tree[at].parent
			}
			if at == v {
				return
			}
			at = g.tree[at].right
		}
		f(at)
	}
}

// reduced is what a unit over the arc costs at the present prices.
func (g *network) reduced(a *arc) int64 {
	return a.cost + g.tree[a.tail].price - g.tree[a.head].price
}

// profitable returns an arc outside of the tree whose change would lower the
// cost, the best of the first block of arcs that has any; -1 where none does.
func (g *network) profitable() int {
	block := max(16, int(math.Sqrt(float64(len(g.arcs)))))
	best, gain := -1, int64(0)
	for n := range g.arcs {
		if n%block == 0 && best >= 0 {
			break
		}
		if g.next++; g.next >= len(g.arcs) {
			g.next = 0
		}
		a := &g.arcs[g.next]
		if a.state == inTree {
			continue
		}
		r := g.reduced(a)
		if a.state == full {
			r = -r
		}
		if r < gain {
			best, gain = g.next, r
		}
	}
	return best
}

// pivot sends as much as fits round the cycle that arc e closes with the tree,
// and takes an arc that has no more room out of it.
func (g *network) pivot(e int) {
	g.pivots++
	in := &g.arcs[e]
	first, second := in.tail, in.head // units are to go over e from first to second
	if in.state == full {
		first, second = second, first
	}
	join := g.join(first, second)
	amount, out, onFirst := g.room(in, first, second, join)
	g.push(in, first, second, join, amount)
	if out < 0 { // e itself has no more room
		if in.state == empty {
			in.state = full
		} else {
			in.state = empty
		}
		return
	}
	left := &g.arcs[g.tree[out].via]
	left.state = empty
	if left.flow > 0 {
		left.state = full
	}
	r := g.reduced(in)
	inner, outer := second, first
	if onFirst {
		inner, outer = first, second
	}
	g.hang(inner, out, outer, int32(e))
	in.state = inTree
	if in.tail == inner {
		r = -r
	}
	g.tree[inner].price += r
	g.below(inner, func(v int32) {
		g.tree[v].price += r
		g.tree[v].depth = g.tree[g.tree[v].parent].depth + 1
	})
}

// join is the lowest node above both.
func (g *network) join(u, v int32) int32 {
	for u != v {
		if g.tree[u].depth < g.tree[v].depth {
			u, v = v, u
		}
		u = g.tree[u].parent
	}
	return u
}

// spare is how many more units fit between v and its parent, upwards or down.
func (g *network) spare(v int32, up bool) int64 {
	a := &g.arcs[g.tree[v].via]
	if (a.tail == v) != up {
		return a.flow
	}
	if a.limit == unlimited {
		return unlimited
	}
	return a.limit - a.flow
}

// room is how many units fit round the cycle, and the node under the arc that
// leaves the tree for it: of those that have no more room, the last one on the
// way round from join. It is -1 for e itself.
func (g *network) room(in *arc, first, second, join int32) (amount int64, out int32, onFirst bool) {
	amount, out = in.limit-in.flow, -1
	switch {
	case in.state == full:
		amount = in.flow
	case in.limit == unlimited:
		amount = unlimited
	}
	for v := first; v != join; v = g.tree[v].parent {
		if s := g.spare(v, false); s < amount {
			amount, out, onFirst = s, v, true
		}
	}
	for v := second; v != join; v = g.tree[v].parent {
		if s := g.spare(v, true); s <= amount {
			amount, out, onFirst = s, v, false
		}
	}
	return amount, out, onFirst
}

func (g *network) push(in *arc, first, second, join int32, amount int64) {
	add := func(a *arc, along bool) {
		if along {
			a.flow += amount
		} else {
			a.flow -= amount
		}
	}
	add(in, in.tail == first)
	for v := first; v != join; v = g.tree[v].parent {
		a := &g.arcs[g.tree[v].via]
		add(a, a.tail != v)
	}
	for v := second; v != join; v = g.tree[v].parent {
		a := &g.arcs[g.tree[v].via]
		add(a, a.tail == v)
	}
}

// hang takes the tree under out off, turns it so that inner is its root, and
// hangs that under outer by arc e.
func (g *network) hang(inner, out, outer, e int32) {
	up, via, v := outer, e, inner
	for {
		next, nextVia := g.tree[v].parent, g.tree[v].via
		g.cut(v)
		g.put(v, up, via)
		if v == out {
			break
		}
		v, up, via = next, v, nextVia
	}
	g.tree[inner].depth = g.tree[outer].depth + 1
}

// cut takes a node out of its parent's list of children.
func (g *network) cut(v int32) {
	n := &g.tree[v]
	if n.left >= 0 {
		g.tree[n.left].right = n.right
	} else {
		g.tree[n.parent].child = n.right
	}
	if n.right >= 0 {
		g.tree[n.right].left = n.left
	}
}

// put makes v the first child of a node.
func (g *network) put(v, parent, via int32) {
	n, p := &g.tree[v], &g.tree[parent]
	n.parent, n.via, n.left, n.right = parent, via, -1, p.child
	if p.child >= 0 {
		g.tree[p.child].left = v
	}
	p.child = v
}
