package network_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/network"
)

// groups is a network of groups with a core each, that size flows share, each with a
// link of its own into the core and one out of it. share is what the core has for each.
func groups(t testing.TB, count, size int, share uint64) (*network.Network, [][]network.Channel) {
	var bandwidths []uint64
	var paths [][]network.Channel
	for range count {
		core := network.Channel(len(bandwidths))
		bandwidths = append(bandwidths, uint64(size)*share)
		for i := range size {
			in := network.Channel(len(bandwidths))
			bandwidths = append(bandwidths, uint64(1+i%7)*giga/2, uint64(1+i%5)*giga/2)
			paths = append(paths, []network.Channel{in, core, in + 1})
		}
	}
	return build(t, bandwidths...), paths
}

// turn ends the next flow and starts another on its path.
func turn(t testing.TB, n *network.Network, paths [][]network.Channel, bytes func() uint64) (events int) {
	at, _ := n.Next()
	for _, e := range n.Advance(at) {
		start(t, n, network.Flow{Path: paths[e.Tag], Bytes: bytes(), Tag: e.Tag})
		events++
	}
	return events
}

func sizes() func() uint64 {
	x := uint64(1)
	return func() uint64 {
		x = x*6364136223846793005 + 1442695040888963407
		return 1<<20 + x>>44
	}
}

// BenchmarkFlows: an operation is the end of one flow and the start of another.
func BenchmarkFlows(b *testing.B) {
	for name, c := range map[string]struct {
		count, size int
		share       uint64
	}{
		"core-8": {1, 8, giga}, "core-64": {1, 64, giga}, "core-1024": {1, 1024, giga}, "full-1024": {1, 1024, giga / 8}, "groups-128-of-8": {128, 8, giga},
	} {
		b.Run(name, func(b *testing.B) {
			n, paths := groups(b, c.count, c.size, c.share)
			bytes := sizes()
			for i := range paths {
				start(b, n, network.Flow{Path: paths[i], Bytes: bytes(), Tag: uint64(i)})
			}
			for range 4 * len(paths) {
				turn(b, n, paths, bytes)
			}
			measure(b, n, func() int { return turn(b, n, paths, bytes) })
		})
	}
}

// measure times turns, an operation for each flow that ends.
func measure(b *testing.B, n *network.Network, turn func() int) {
	before := n.Work()
	b.ReportAllocs()
	b.ResetTimer()
	for ended := 0; ended < b.N; {
		ended += turn()
	}
	w := n.Work()
	b.ReportMetric(float64(w.Classes-before.Classes)/float64(b.N), "classes/op")
	b.ReportMetric(float64(w.Channels-before.Channels)/float64(b.N), "channels/op")
	b.ReportMetric(float64(w.Changed-before.Changed)/float64(b.N), "changed/op")
}

// BenchmarkFatTree: each of 1,024 devices takes from one after the other of the others, of 32 leaves, over so many
// spines. As many flows are under way. An operation is the end of one and the start of another.
func BenchmarkFatTree(b *testing.B) {
	for name, spines := range map[string]int{"1-spine": 1, "8-spines": 8, "32-spines": 32} {
		b.Run(name, func(b *testing.B) {
			x := tree{32, 32, spines}
			n := build(b, x.bandwidths(50*giga, 100*giga)...)
			bytes := sizes()
			from := make([]int, 1024)
			next := func(to int) {
				from[to] = (from[to] + 1) % 1024
				start(b, n, network.Flow{Path: x.path((to+from[to])%1024, to, to/32*7+from[to]/32), Bytes: bytes(), Tag: uint64(to)})
			}
			for to := range from {
				from[to] = to * 17
				next(to)
			}
			turn := func() (ended int) {
				at, _ := n.Next()
				for _, e := range n.Advance(at) {
					next(int(e.Tag))
					ended++
				}
				return ended
			}
			for range 4096 {
				turn()
			}
			measure(b, n, turn)
		})
	}
}

func TestTheSteadyStateAllocatesNothing(t *testing.T) {
	n, paths := groups(t, 4, 16, giga/4)
	bytes := sizes()
	for i := range paths {
		start(t, n, network.Flow{Path: paths[i], Bytes: bytes(), Tag: uint64(i)})
	}
	for range 1000 {
		turn(t, n, paths, bytes)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() { turn(t, n, paths, bytes) }))
}

// What shares nothing with what changes is not looked at.
func TestDisjointGroupsCostWhatOneCosts(t *testing.T) {
	work := func(count int) float64 {
		n, paths := groups(t, count, 8, giga)
		bytes := sizes()
		for i := range paths {
			start(t, n, network.Flow{Path: paths[i], Bytes: bytes(), Tag: uint64(i)})
		}
		events := 0
		for events < 20*len(paths) {
			events += turn(t, n, paths, bytes)
		}
		return float64(n.Work().Classes+n.Work().Channels) / float64(events)
	}
	one := work(1)
	require.InEpsilon(t, one, work(128), 0.05, "flows and channels looked at for each that ends")
}
