package machine

import (
	"math"
	"slices"

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
	kept := &m.routes[from*len(m.memory)+to]
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

// reached is a node that the search has come to.
type reached struct {
	known, done bool
	latency     uint64
	hops        int
	by          int // the node before
	edge        *edge
}

// search finds the path of least latency, then of fewest links (Dijkstra). It passes
// no other memory, and between devices no switch that is not for peers.
func (m *Machine) search(from, to int) *route {
	if from == to {
		return &route{there: true}
	}
	nodes := make([]reached, len(m.edges))
	nodes[from] = reached{known: true}
	for {
		at := -1
		for i := range nodes {
			if x := &nodes[i]; x.known && !x.done && (at < 0 || x.latency < nodes[at].latency || x.latency == nodes[at].latency && x.hops < nodes[at].hops) {
				at = i
			}
		}
		switch {
		case at < 0:
			return &route{}
		case at == to:
			return m.back(nodes, from, to)
		}
		x := &nodes[at]
		x.done = true
		if at != from && !m.passes(at, from, to) {
			continue
		}
		for i := range m.edges[at] {
			e := &m.edges[at][i]
			y := &nodes[e.to]
			latency, hops := x.latency+e.latency, x.hops+1
			if !y.known || latency < y.latency || latency == y.latency && hops < y.hops {
				*y = reached{true, y.done, latency, hops, at, e}
			}
		}
	}
}

// passes reports whether a path between two memories may lead through a node.
func (m *Machine) passes(node, from, to int) bool {
	s := node - len(m.memory)
	return s >= 0 && (m.Switches[s].Peers || from == 0 || to == 0)
}

// back is the route that a search has found.
func (m *Machine) back(nodes []reached, from, to int) *route {
	r := &route{there: true, latency: nodes[to].latency}
	for at := to; at != from; at = nodes[at].by {
		for _, c := range nodes[at].edge.channels {
			if c >= 0 {
				r.path = append(r.path, c)
			}
		}
		if s := at - len(m.memory); s >= 0 && m.through[s] >= 0 {
			r.path = append(r.path, m.through[s])
		}
	}
	return r
}
