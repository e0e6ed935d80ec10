package machine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPathsAreThoseOfASearchForEachPair, on random machines with many ties: switches of both kinds, links one way,
// memories with one link and with several.
func TestPathsAreThoseOfASearchForEachPair(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := &Machine{Host: Host{Bandwidth: 1}}
		nodes := []string{"host"}
		for i := range 1 + rng.IntN(6) {
			m.Devices = append(m.Devices, Device{Name: fmt.Sprintf("d%d", i), Bandwidth: uint64(rng.IntN(2)), AtOnce: 1, In: 1})
			nodes = append(nodes, m.Devices[i].Name)
		}
		for i := range 1 + rng.IntN(8) {
			m.Switches = append(m.Switches, switchNode{fmt.Sprintf("s%d", i), uint64(rng.IntN(2)), rng.IntN(3) > 0})
			nodes = append(nodes, m.Switches[i].Name)
		}
		for i := range nodes {
			for k := range i {
				if rng.IntN(5) < 2 {
					l := Link{From: nodes[i], To: nodes[k], Latency: uint64(rng.IntN(3)), Bandwidth: 1, Both: uint64(rng.IntN(2)), OneWay: rng.IntN(4) == 0}
					if rng.IntN(2) == 0 {
						l.From, l.To = l.To, l.From
					}
					m.Links = append(m.Links, l)
				}
			}
		}
		rng.Shuffle(len(m.Links), func(i, k int) { m.Links[i], m.Links[k] = m.Links[k], m.Links[i] })
		m.build()
		for range 2 {
			for from := range m.memory {
				for to := range m.memory {
					require.Equal(t, m.slowly(from, to), m.search(from, to), "seed %d, %d to %d", seed, from, to)
				}
			}
		}
	}
}

// met is a node that the search has come to.
type met struct {
	known, done bool
	latency     uint64
	hops        int
	by          int // the node before
	edge        *edge
}

// slowly finds the path of least latency, then of fewest links (Dijkstra). It passes
// no other memory, and between devices no switch that is not for peers.
func (m *Machine) slowly(from, to int) *route {
	if from == to {
		return &route{there: true}
	}
	nodes := make([]met, len(m.edges))
	nodes[from] = met{known: true}
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
			return m.backOf(nodes, from, to)
		}
		x := &nodes[at]
		x.done = true
		if at != from && !m.passes(at, from == 0 || to == 0) {
			continue
		}
		for i := range m.edges[at] {
			e := &m.edges[at][i]
			y := &nodes[e.to]
			latency, hops := x.latency+e.latency, x.hops+1
			if !y.known || latency < y.latency || latency == y.latency && hops < y.hops {
				*y = met{true, y.done, latency, hops, at, e}
			}
		}
	}
}

// backOf is the route that a search has found.
func (m *Machine) backOf(nodes []met, from, to int) *route {
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
