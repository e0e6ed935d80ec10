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

// route is the one between two memories: worked out at first use, and kept. The host's memory is that of the host of the
// device at the other end.
func (m *Machine) route(from, to int) *route {
	kept := m.routes.At(from, to)
	if r := kept.Load(); r != nil {
		return r
	}
	nodes, own := [2]int{from, to}, [2]network.Channel{m.memory[from], m.memory[to]}
	for i := range nodes {
		if other := nodes[1-i]; nodes[i] == 0 && other > 0 && other <= len(m.Devices) {
			h := m.HostOf(other)
			nodes[i], own[i] = m.hostNode(h), m.hostMem[h]
		}
	}
	r := m.search(nodes[0], nodes[1])
	r.ends(own[0], own[1])
	if from > 0 && to > 0 && from != to && m.Devices[to-1].Windows.From > 0 {
		r.windows = slices.Clone(r.path)
		for _, c := range [...]network.Channel{own[0], own[0], own[1], own[1]} {
			if c >= 0 {
				r.windows = append(r.windows, c)
			}
		}
		r.hosted = slices.Concat(m.route(from, 0).path, m.between(m.HostOf(from), m.HostOf(to)).path, m.route(0, to).path)
	}
	r.alone(m)
	kept.Store(r)
	return r
}

// between is the route from a host to another: nothing to itself.
func (m *Machine) between(a, b int) *route {
	kept := m.across.At(a, b)
	if r := kept.Load(); r != nil {
		return r
	}
	r := m.search(m.hostNode(a), m.hostNode(b))
	if a != b {
		r.ends(m.hostMem[a], m.hostMem[b])
	}
	r.alone(m)
	kept.Store(r)
	return r
}

// ends adds what both ends share.
func (r *route) ends(own ...network.Channel) {
	for _, c := range own {
		if c >= 0 {
			r.path = append(r.path, c)
		}
	}
}

// alone works out the bandwidth of a copy that has all to itself.
func (r *route) alone(m *Machine) {
	r.bandwidth = math.MaxUint64
	uses := make(map[network.Channel]uint64)
	for _, c := range r.path {
		uses[c]++
		r.bandwidth = min(r.bandwidth, m.channels[c].Bandwidth/uses[c])
	}
}

// reached is how far a node is.
type reached struct {
	latency     uint64
	hops        int32
	known, done bool // done: it is no less
}

// before orders distances: by latency, then by links.
func (x *reached) before(y *reached) bool {
	return x.latency < y.latency || x.latency == y.latency && x.hops < y.hops
}

// over is how far a node is behind an edge.
func (x *reached) over(e *edge) reached {
	return reached{latency: x.latency + e.latency, hops: x.hops + 1, known: true}
}

// gate is where all paths from or to a memory begin that has one link: its switch, so that
// what hangs there shares a tree. hosted paths are from or to the host, and pass switches that are not for peers.
type gate struct {
	node   int
	hosted bool
}

// tree has how far each switch is from a gate, as far as somebody asked (Dijkstra).
type tree struct {
	gate
	from     reached // the gate itself
	switches []reached
	next     heap.Heap[candidate]
}

// candidate is a switch that may be so far.
type candidate struct {
	reached
	s int
}

// search finds the path of least latency, then of fewest links. It passes
// no other memory, and between devices no switch that is not for peers. Where several are as good, a hash of both
// memories draws at each switch which of them goes on, as switches do that hash a flow's ends (ECMP; RFC 2992).
func (m *Machine) search(from, to int) *route {
	r := &route{}
	if r.there = from == to; r.there {
		return r
	}
	at := gate{from, m.isHost(from) || m.isHost(to)}
	var first *edge
	if e := m.edges[from]; len(e) == 1 && m.passes(e[0].to, at.hosted) {
		first, at.node = &e[0], e[0].to
	}
	m.treesMu.Lock()
	defer m.treesMu.Unlock()
	t := m.distances(at)
	far := t.reach(m, to)
	if !far.known {
		return r
	}
	r.there, r.latency = true, far.latency
	draw := mixed(mixed(m.Seed, uint64(from)), uint64(to))
	in := m.before(t, to, far, draw)
	r.path = in.edge.over(r.path)
	for node := in.node; node != at.node; node = in.node {
		in = m.before(t, node, t.at(m, node), draw)
		r.path = m.crossing(node, in.edge.over(r.path))
	}
	if first != nil {
		r.latency += first.latency
		r.path = m.crossing(at.node, first.over(r.path))
	}
	return r
}

// mixed is a hash of a hash and a number (the finalizer of SplitMix64; Steele, Lea and Flood, 2014).
func mixed(h, n uint64) uint64 {
	h += (n + 1) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// before is where paths come from that lead to a node which is so far; of several the one that is drawn.
func (m *Machine) before(t distances, node int, far reached, draw uint64) *incoming {
	leads := func(in *incoming) bool {
		x := t.at(m, in.node)
		return x.known && x.latency+in.edge.latency == far.latency && x.hops+1 == far.hops
	}
	n := uint64(0)
	for i := range m.into[node] {
		if leads(&m.into[node][i]) {
			n++
		}
	}
	k := mixed(draw, uint64(node)) % n
	for i := range m.into[node] {
		if in := &m.into[node][i]; leads(in) {
			if k == 0 {
				return in
			}
			k--
		}
	}
	panic("a path without a beginning")
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

// isHost reports whether a node is a host's.
func (m *Machine) isHost(node int) bool { return node == 0 || node >= len(m.memory)+len(m.Switches) }

// crossing is a path that goes through a switch, too.
func (m *Machine) crossing(node int, path []network.Channel) []network.Channel {
	if c := m.through[node-len(m.memory)]; c >= 0 {
		path = append(path, c)
	}
	return path
}

// passes reports whether paths may lead through a node, hosted ones or others.
func (m *Machine) passes(node int, hosted bool) bool {
	s := node - len(m.memory)
	return s >= 0 && s < len(m.Switches) && (m.Switches[s].Peers || hosted)
}

// distances say how far nodes are from a gate: at a switch, as far as that is known, and reach a memory.
type distances interface {
	at(m *Machine, node int) reached
	reach(m *Machine, to int) reached
}

// distances are those from a gate.
func (m *Machine) distances(at gate) distances {
	for _, g := range m.grids {
		if s := at.node - len(m.memory) - g.first; g.plain && s >= 0 && s < g.switches {
			return &place{g, s}
		}
	}
	return m.tree(at)
}

// at implements distances.
func (t *tree) at(m *Machine, node int) reached {
	if node == t.node {
		return t.from
	}
	if s := node - len(m.memory); s >= 0 && s < len(t.switches) && t.switches[s].done {
		return t.switches[s]
	}
	return reached{}
}

// nearest is how far a memory is over the switches at which it hangs.
func nearest(m *Machine, t distances, to int) (best reached) {
	for i := range m.into[to] {
		in := &m.into[to][i]
		if x := t.at(m, in.node); x.known {
			if y := x.over(in.edge); !best.known || y.before(&best) {
				best = y
			}
		}
	}
	return best
}

// mostKept is how many nodes of trees a machine keeps.
const mostKept = 16 << 20

// tree is the tree from a gate. treesMu is held.
func (m *Machine) tree(at gate) *tree {
	if t := m.trees[at]; t != nil {
		return t
	}
	if (len(m.trees)+1)*len(m.Switches) > mostKept {
		clear(m.trees)
	}
	t := &tree{gate: at, from: reached{known: true, done: true}, switches: make([]reached, len(m.Switches))}
	t.next.Before = func(a, b *candidate) bool { return a.before(&b.reached) }
	t.expand(m, at.node, &t.from, -1, nil)
	if m.trees == nil {
		m.trees = make(map[gate]*tree)
	}
	m.trees[at] = t
	return t
}

// reach is how far a memory is. The tree grows until nothing more can be on a path to it that is as good.
func (t *tree) reach(m *Machine, to int) reached {
	best := nearest(m, t, to)
	for len(t.next.Items) > 0 && (!best.known || t.next.Items[0].before(&best)) {
		c := t.next.Pop()
		if x := &t.switches[c.s]; !x.done {
			x.done = true
			t.expand(m, len(m.memory)+c.s, x, to, &best)
		}
	}
	return best
}

// expand adds what can be reached from a node that is so far; to a memory, if one is asked for, that may be best.
func (t *tree) expand(m *Machine, node int, x *reached, to int, best *reached) {
	for i := range m.edges[node] {
		e := &m.edges[node][i]
		y := x.over(e)
		s := e.to - len(m.memory)
		switch {
		case e.to == to && (!best.known || y.before(best)):
			*best = y
		case s < 0 || e.to == t.node || !m.passes(e.to, t.hosted):
		case !t.switches[s].known || y.before(&t.switches[s]):
			t.switches[s] = y
			t.next.Push(candidate{y, s})
		}
	}
}
