package machine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/network"
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
					m.Seed = uint64(rng.IntN(2))
					got, all := m.search(from, to), m.slowly(from, to)
					require.True(t, slices.ContainsFunc(all, func(r *route) bool { return reflect.DeepEqual(r, got) }), "seed %d, %d to %d: %v is none of %v", seed, from, to, got, all)
					require.Equal(t, got, m.search(from, to))
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
}

// slowly finds all paths of least latency, then of fewest links (Dijkstra). They pass
// no other memory, and between devices no switch that is not for peers.
func (m *Machine) slowly(from, to int) []*route {
	if from == to {
		return []*route{{there: true}}
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
			return []*route{{}}
		case at == to:
			return m.allBackOf(nodes, from, to, from == 0 || to == 0, &route{there: true, latency: nodes[to].latency})
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
				*y = met{true, y.done, latency, hops}
			}
		}
	}
}

// allBackOf are the routes that a search has found, whose ends are one.
func (m *Machine) allBackOf(nodes []met, from, at int, hosted bool, end *route) (all []*route) {
	if at == from {
		return []*route{end}
	}
	for node := range m.edges {
		x := &nodes[node]
		if !x.done || node != from && !m.passes(node, hosted) {
			continue
		}
		for i := range m.edges[node] {
			e := &m.edges[node][i]
			if e.to != at || x.latency+e.latency != nodes[at].latency || x.hops+1 != nodes[at].hops {
				continue
			}
			r := &route{there: true, latency: end.latency, path: slices.Clone(end.path)}
			for _, c := range e.channels {
				if c >= 0 {
					r.path = append(r.path, c)
				}
			}
			if s := at - len(m.memory); s >= 0 && m.through[s] >= 0 {
				r.path = append(r.path, m.through[s])
			}
			all = append(all, m.allBackOf(nodes, from, node, hosted, r)...)
		}
	}
	return all
}

// TestPathsAsGoodAreDrawnEvenly: between two leaves of a tree with four spines each spine has about as many pairs, and
// another seed draws others.
func TestPathsAsGoodAreDrawnEvenly(t *testing.T) {
	text := "seed: %d\ndevices: [{name: a, count: 64}, {name: b, count: 64}]\nswitches: [{name: leaf, count: 2}, {name: spine, count: 4, bandwidth: 1 GB/s}]\nlinks:\n" +
		"- {between: [a, leaf0], bandwidth: 1 GB/s}\n- {between: [b, leaf1], bandwidth: 1 GB/s}\n- {between: [leaf, spine], latency: 1 us, bandwidth: 1 GB/s}\n- {between: [host, leaf0], bandwidth: 1 GB/s}\n"
	var drawn [2][]network.Channel
	for seed := range drawn {
		m, err := Parse("m.yaml", []byte(fmt.Sprintf(text, seed)), Options{})
		require.NoError(t, err)
		pairs := make(map[network.Channel]int)
		for a := 1; a <= 64; a++ {
			for b := 65; b <= 128; b++ {
				i := slices.IndexFunc(m.route(a, b).path, func(c network.Channel) bool { return slices.Contains(m.through, c) })
				c := m.route(a, b).path[i]
				pairs[c]++
				drawn[seed] = append(drawn[seed], c)
			}
		}
		require.Len(t, pairs, 4)
		for _, n := range pairs {
			require.InDelta(t, 64*64/4, n, 150)
		}
	}
	require.NotEqual(t, drawn[0], drawn[1])
}
