package machine

import (
	"math"
	"slices"

	"godwit/internal/heap"
	"godwit/internal/network"
)

// route is how bytes get from one memory to another.
type route struct {
	there     bool
	latency   uint64            // nanoseconds
	path      []network.Channel // the memories' own included
	bandwidth uint64            // bytes a second, of a copy that has all to itself; MaxUint64 is without limit

	windows []network.Channel // path by windows: each memory is read and written once more
	hosted  []network.Channel // path by the host
}

// route is the one between two memories: worked out at first use, and kept.
func (m *Machine) route(from, to int) *route {
	kept := m.routes.At(from, to)
	if r := kept.Load(); r != nil {
		return r
	}
	r := m.search(from, to)
	for _, c := range [...]network.Channel{m.memory[from], m.memory[to]} {
		if c >= 0 {
			r.path = append(r.path, c)
		}
	}
	if from > 0 && to > 0 && from != to && m.Devices[to-1].Windows.From > 0 {
		r.windows = slices.Clone(r.path)
		for _, c := range [...]network.Channel{m.memory[from], m.memory[from], m.memory[to], m.memory[to]} {
			if c >= 0 {
				r.windows = append(r.windows, c)
			}
		}
		r.hosted = slices.Concat(m.route(from, 0).path, m.route(0, to).path)
	}
	r.bandwidth = math.MaxUint64
	uses := make(map[network.Channel]uint64)
	for _, c := range r.path {
		uses[c]++
		r.bandwidth = min(r.bandwidth, m.channels[c].Bandwidth/uses[c])
	}
	kept.Store(r)
	return r
}

// reached is how a search has come to a node.
type reached struct {
	latency uint64
	hops    int32
	by      int32 // the node before; -1 where it was not reached
	edge    *edge
	order   int32 // of the switches reached; -1 until all paths are known
}

// tree has the path of least latency, then of fewest links, from one node to each switch (Dijkstra).
type tree struct {
	switches []reached
	from     reached
}

// gate is where all paths from or to a memory begin that has one link: its switch, so that
// what hangs there shares a tree. hosted paths are from or to the host, and pass switches that are not for peers.
type gate struct {
	node   int
	hosted bool
}

// search finds the path of least latency, then of fewest links. It passes
// no other memory, and between devices no switch that is not for peers. Of several it is
// the one whose switches were reached first, of these the lowest.
func (m *Machine) search(from, to int) *route {
	r := &route{}
	if r.there = from == to; r.there {
		return r
	}
	at := gate{from, from == 0 || to == 0}
	var first *edge
	if e := m.edges[from]; len(e) == 1 && m.passes(e[0].to, at.hosted) {
		first, at.node = &e[0], e[0].to
	}
	t := m.tree(at)
	best := reached{by: -1}
	var last int32
	for i := range m.into[to] {
		in := &m.into[to][i]
		x, ok := t.at(m, in.node)
		if !ok {
			continue
		}
		latency, hops := x.latency+in.edge.latency, x.hops+1
		if best.by < 0 || latency < best.latency || latency == best.latency && (hops < best.hops || hops == best.hops && x.order < last) {
			best, last = reached{latency: latency, hops: hops, by: int32(in.node), edge: in.edge}, x.order
		}
	}
	if best.by < 0 {
		return r
	}
	r.there, r.latency = true, best.latency
	r.path = best.edge.over(r.path)
	for node := int(best.by); node != at.node; node = int(best.by) {
		best, _ = t.at(m, node)
		r.path = best.edge.over(r.path)
		r.path = m.across(node, r.path)
	}
	if first != nil {
		r.latency += first.latency
		r.path = m.across(at.node, first.over(r.path))
	}
	return r
}

// over is a path that goes over an edge, too.
func (e *edge) over(path []network.Channel) []network.Channel {
	for _, c := range e.channels {
		if c >= 0 {
			path = append(path, c)
		}
	}
	return path
}

// across is a path that goes through a switch, too.
func (m *Machine) across(node int, path []network.Channel) []network.Channel {
	if c := m.through[node-len(m.memory)]; c >= 0 {
		path = append(path, c)
	}
	return path
}

// passes reports whether paths may lead through a node, hosted ones or others.
func (m *Machine) passes(node int, hosted bool) bool {
	s := node - len(m.memory)
	return s >= 0 && (m.Switches[s].Peers || hosted)
}

// at is how the tree comes to a node; ok is false where it does not.
func (t *tree) at(m *Machine, node int) (x reached, ok bool) {
	if s := node - len(m.memory); s >= 0 {
		x = t.switches[s]
		return x, x.order >= 0
	}
	return t.from, node == int(t.from.by)
}

// mostKept is how many nodes of trees a machine keeps.
const mostKept = 16 << 20

// tree is the tree from a gate, made at first use.
func (m *Machine) tree(at gate) *tree {
	m.treesMu.Lock()
	defer m.treesMu.Unlock()
	if t := m.trees[at]; t != nil {
		return t
	}
	if (len(m.trees)+1)*len(m.Switches) > mostKept {
		clear(m.trees)
	}
	t := m.grow(at)
	if m.trees == nil {
		m.trees = make(map[gate]*tree)
	}
	m.trees[at] = t
	return t
}

// grow makes the tree from a gate.
func (m *Machine) grow(at gate) *tree {
	t := &tree{make([]reached, len(m.Switches)), reached{by: int32(at.node), order: -1}}
	for i := range t.switches {
		t.switches[i] = reached{by: -1, order: -1}
	}
	n := len(m.memory)
	slots := make([]int, len(m.Switches))
	next := heap.Heap[int]{
		Before: func(a, b *int) bool {
			x, y := &t.switches[*a], &t.switches[*b]
			return x.latency < y.latency || x.latency == y.latency && (x.hops < y.hops || x.hops == y.hops && *a < *b)
		},
		Moved: func(s, slot int) { slots[s] = slot },
	}
	expand := func(node int, x reached) {
		for i := range m.edges[node] {
			e := &m.edges[node][i]
			s := e.to - n
			if s < 0 || !m.passes(e.to, at.hosted) || e.to == at.node {
				continue
			}
			y := &t.switches[s]
			latency, hops := x.latency+e.latency, x.hops+1
			known := y.by >= 0
			if known && (latency > y.latency || latency == y.latency && hops >= y.hops) {
				continue
			}
			*y = reached{latency, hops, int32(node), e, y.order}
			if known {
				next.Fix(slots[s])
			} else {
				next.Push(s)
			}
		}
	}
	order := int32(0)
	if s := at.node - n; s >= 0 {
		t.switches[s] = reached{by: int32(at.node), order: order}
		order++
	}
	expand(at.node, reached{})
	for len(next.Items) > 0 {
		s := next.Items[0]
		next.Pop()
		t.switches[s].order = order
		order++
		expand(n+s, t.switches[s])
	}
	return t
}
