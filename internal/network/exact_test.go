package network_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/network"
)

// exact is the rates, in units, that progressive filling of everything gives: of all flows
// that are under way, each on its own. It is what the network's are held against: it knows neither classes nor what has changed.
func exact(bandwidths []uint64, flows []network.Flow) []uint64 {
	left, open := make([]uint64, len(bandwidths)), make([]uint64, len(bandwidths))
	for c, b := range bandwidths {
		left[c] = b << 16
	}
	for _, f := range flows {
		for _, c := range f.Path {
			open[c]++
		}
	}
	rates := make([]uint64, len(flows))
	for reached, given := uint64(0), 0; given < len(flows); {
		level := uint64(math.MaxUint64)
		share := func(c network.Channel) uint64 { return max((left[c]+open[c]-1)/open[c], reached) }
		for c := range bandwidths {
			if open[c] > 0 {
				level = min(level, share(network.Channel(c)))
			}
		}
		for i, f := range flows {
			if f.Limit > 0 && rates[i] == 0 {
				level = min(level, f.Limit<<16)
			}
		}
		var full []int // flows that have their rate now
		for i, f := range flows {
			if rates[i] == 0 && (f.Limit > 0 && f.Limit<<16 == level || slices.ContainsFunc(f.Path, func(c network.Channel) bool { return share(c) == level })) {
				full = append(full, i)
			}
		}
		for _, i := range full {
			rates[i] = level
			for _, c := range flows[i].Path {
				left[c] -= min(left[c], level)
				open[c]--
			}
		}
		reached, given = level, given+len(full)
	}
	return rates
}

// tree is a fat tree's channels, and a path from one of its devices to another: links up and down of each device, and of
// each leaf to each spine.
type tree struct{ leaf, leaves, spines int }

func (x tree) bandwidths(link, trunk uint64) (all []uint64) {
	for range 2 * x.leaf * x.leaves {
		all = append(all, link)
	}
	for range 2 * x.leaves * x.spines {
		all = append(all, trunk)
	}
	return all
}

func (x tree) path(from, to, hash int) []network.Channel {
	n := x.leaf * x.leaves
	path := []network.Channel{network.Channel(from), network.Channel(n + to)}
	if a, b := from/x.leaf, to/x.leaf; a != b {
		spine := hash % x.spines
		path = append(path, network.Channel(2*n+a*x.spines+spine), network.Channel(2*n+(x.leaves+b)*x.spines+spine))
	}
	return path
}

// drawTraffic is a random network with a way to draw a flow: a fat tree, or channels without an order, some on a path twice.
func drawTraffic(t *rapid.T) (bandwidths []uint64, flow func() network.Flow) {
	number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
	limit := func() uint64 {
		if number(0, 4, "limited") > 0 {
			return 0
		}
		return uint64(number(1, 12, "limit")) * giga / 7
	}
	bytes := func() uint64 { return uint64(number(1, 40, "bytes")) * 997 }
	if rapid.Bool().Draw(t, "fat tree") {
		x := tree{number(1, 6, "leaf"), number(1, 5, "leaves"), number(1, 3, "spines")}
		bandwidths = x.bandwidths(uint64(number(1, 4, "link"))*giga, uint64(number(1, 9, "trunk"))*giga/2)
		return bandwidths, func() network.Flow {
			n := x.leaf * x.leaves
			return network.Flow{Path: x.path(number(0, n-1, "from"), number(0, n-1, "to"), number(0, 5, "hash")), Bytes: bytes(), Limit: limit()}
		}
	}
	for range number(1, 14, "channels") {
		bandwidths = append(bandwidths, uint64(number(1, 30, "bandwidth"))*giga/uint64(number(1, 7, "of")))
	}
	return bandwidths, func() (f network.Flow) {
		f.Bytes, f.Limit = bytes(), limit()
		for range number(1, 5, "hops") {
			f.Path = append(f.Path, network.Channel(number(0, len(bandwidths)-1, "channel")))
		}
		return f
	}
}

// In any history of flows that begin and end, what is worked out from what has changed is what
// filling everything gives, to the unit.
func TestWhatHasChangedIsFilledAsEverythingIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bandwidths, flow := drawTraffic(t)
		n, err := network.New(bandwidths)
		require.NoError(t, err)
		type live struct {
			network.Flow
			id network.FlowID
		}
		var under []live
		for tag := range uint64(rapid.IntRange(1, 90).Draw(t, "steps")) {
			for range rapid.IntRange(0, 3).Draw(t, "starts") {
				f := flow()
				f.Tag = tag<<8 | uint64(len(under))
				id, err := n.Start(f)
				require.NoError(t, err)
				under = append(under, live{f, id})
			}
			at, ok := n.Next()
			if !ok {
				continue
			}
			if rapid.Bool().Draw(t, "to the next end") || at == n.Now() {
				for _, e := range n.Advance(at) {
					under = slices.DeleteFunc(under, func(l live) bool { return l.Tag == e.Tag })
				}
			} else {
				require.Empty(t, n.Advance(n.Now()+(at-n.Now())/2))
			}
			require.NoError(t, n.Check())
			var flows []network.Flow
			for _, l := range under {
				flows = append(flows, l.Flow)
			}
			for i, want := range exact(bandwidths, flows) {
				if got := n.Units(under[i].id); got != want {
					t.Fatalf("flow %d gets %d units, want %d: %+v", i, got, want, flows)
				}
			}
		}
	})
}

// Over the spines of 1,024 devices, too.
func TestAThousandDevicesAreFilledAsEverythingIs(t *testing.T) {
	x := tree{32, 32, 8}
	bandwidths := x.bandwidths(50*giga, 100*giga)
	n, bytes := build(t, bandwidths...), sizes()
	flows, ids, checked := make([]network.Flow, 1024), make([]network.FlowID, 1024), 0
	next := func(to, round int) {
		flows[to] = network.Flow{Path: x.path((to*37+round)%1024, to, to/32*7+round), Bytes: bytes(), Tag: uint64(to)}
		ids[to] = start(t, n, flows[to])
	}
	for to := range flows {
		next(to, 0)
	}
	for ended := 0; ended < 4096; {
		at, _ := n.Next()
		for _, e := range n.Advance(at) {
			ended++
			next(int(e.Tag), ended%1024)
		}
		if ended/128 == checked {
			continue
		}
		checked = ended / 128
		require.NoError(t, n.Check())
		for to, want := range exact(bandwidths, flows) {
			require.Equal(t, want, n.Units(ids[to]), "after %d ends: to device %d", ended, to)
		}
	}
}
