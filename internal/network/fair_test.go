package network_test

import (
	"cmp"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/network"
)

// draws is a source of random networks: the same each time, and a new one where
// GODWIT_SOAK is set.
func draws(t testing.TB) (r *rand.Rand, rounds int) {
	seed, rounds := uint64(17), 120
	if os.Getenv("GODWIT_SOAK") != "" {
		seed, rounds = rand.Uint64(), 30_000
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0)), rounds
}

// drawn is a random network with what is to flow in it.
type drawn struct {
	bandwidths []uint64
	flows      []network.Flow
	starts     []uint64
}

func draw(r *rand.Rand) (d drawn) {
	for range 1 + r.IntN(10) {
		d.bandwidths = append(d.bandwidths, (1+r.Uint64N(40))*giga/(1+r.Uint64N(8)))
	}
	for i := range 1 + r.IntN(24) {
		f := network.Flow{Bytes: 1 + r.Uint64N(200_000), Latency: r.Uint64N(3) * r.Uint64N(5000), Tag: uint64(i)}
		for range 1 + r.IntN(4) {
			f.Path = append(f.Path, network.Channel(r.IntN(len(d.bandwidths)))) // some twice
		}
		if r.IntN(4) == 0 {
			f.Limit = 1 + r.Uint64N(4*giga)
		}
		d.flows = append(d.flows, f)
		d.starts = append(d.starts, r.Uint64N(2)*r.Uint64N(50_000))
	}
	return d
}

// fair works out the max-min fair rates of flows in another way than the package: by
// the channels' and flows' talking to each other, as in Charny, Clark and Jain,
// Congestion Control with Explicit Rate Indication, 1995. Each channel says what a
// flow may have there, taking those that want less for what they want; each flow
// takes the least of what it is told; until nobody changes anything.
func fair(bandwidths []uint64, flows []network.Flow) []*big.Rat {
	says := make([]*big.Rat, len(bandwidths))
	for i, b := range bandwidths {
		says[i] = new(big.Rat).SetUint64(b)
	}
	rates := make([]*big.Rat, len(flows))
	for changed := true; changed; {
		changed = false
		for i, f := range flows {
			var least *big.Rat
			if f.Limit > 0 {
				least = new(big.Rat).SetUint64(f.Limit)
			}
			for _, c := range f.Path {
				if least == nil || says[c].Cmp(least) < 0 {
					least = says[c]
				}
			}
			if rates[i] == nil || rates[i].Cmp(least) != 0 {
				rates[i], changed = least, true
			}
		}
		for c := range says {
			if v := advertise(c, bandwidths[c], flows, rates); v != nil && v.Cmp(says[c]) != 0 {
				says[c], changed = v, true
			}
		}
	}
	return rates
}

// advertise is what a channel tells its flows, given what they want; nil where it has
// none. It is the level at which the wishes, cut there, fill it.
func advertise(c int, bandwidth uint64, flows []network.Flow, rates []*big.Rat) *big.Rat {
	var wishes []*big.Rat
	for i, f := range flows {
		for _, at := range f.Path {
			if int(at) == c {
				wishes = append(wishes, rates[i])
			}
		}
	}
	if len(wishes) == 0 {
		return nil
	}
	slices.SortFunc(wishes, func(a, b *big.Rat) int { return a.Cmp(b) })
	left := new(big.Rat).SetUint64(bandwidth)
	for i, w := range wishes {
		level := new(big.Rat).Quo(left, big.NewRat(int64(len(wishes)-i), 1))
		if w.Cmp(level) >= 0 {
			return level
		}
		left.Sub(left, w)
	}
	return new(big.Rat).Add(left, wishes[len(wishes)-1]) // all want less: the largest may have the rest
}

// The shares of random networks are those of the other solver, and have the mark of
// max-min fairness: each flow has a channel that is full and in which none has more
// (or its own limit).
func TestSharesAreMaxMinFair(t *testing.T) {
	r, rounds := draws(t)
	for round := range rounds {
		d := draw(r)
		n := build(t, d.bandwidths...)
		ids := make([]network.FlowID, len(d.flows))
		for i, f := range d.flows {
			f.Latency, f.Bytes = 0, giga
			ids[i] = start(t, n, f)
		}
		n.Advance(0)
		require.NoError(t, n.Check())
		want := fair(d.bandwidths, d.flows)
		used, most := make([]uint64, len(d.bandwidths)), make([]uint64, len(d.bandwidths))
		for i, f := range d.flows {
			got := n.Rate(ids[i])
			exact := new(big.Int).Quo(want[i].Num(), want[i].Denom()).Uint64()
			require.InDelta(t, exact, got, 1, "round %d: flow %d of %+v", round, i, d)
			for _, c := range f.Path {
				used[c] += got
				most[c] = max(most[c], got)
			}
		}
		for c, b := range d.bandwidths {
			require.LessOrEqual(t, used[c], b, "round %d: channel %d is too full", round, c)
		}
		for i, f := range d.flows {
			got := n.Rate(ids[i])
			mark := slices.ContainsFunc(f.Path, func(c network.Channel) bool {
				return used[c]+uint64(4*len(d.flows)) >= d.bandwidths[c] && got+1 >= most[c]
			})
			require.True(t, mark || got == f.Limit, "round %d: flow %d could have more: %+v", round, i, d)
		}
	}
}

// byReference works out when flows end, with rational numbers and the other solver.
func byReference(d drawn) map[uint64]uint64 {
	type state struct {
		i      int
		begins uint64
		left   *big.Rat // bytes
	}
	var waiting, flowing []*state
	for i, f := range d.flows {
		waiting = append(waiting, &state{i, d.starts[i] + f.Latency, new(big.Rat).SetUint64(f.Bytes)})
	}
	slices.SortStableFunc(waiting, func(a, b *state) int { return cmp.Compare(a.begins, b.begins) })
	out, now := make(map[uint64]uint64), uint64(0)
	for len(waiting)+len(flowing) > 0 {
		for len(waiting) > 0 && waiting[0].begins <= now {
			flowing, waiting = append(flowing, waiting[0]), waiting[1:]
		}
		var flows []network.Flow
		for _, s := range flowing {
			flows = append(flows, d.flows[s.i])
		}
		rates := fair(d.bandwidths, flows)
		next := ^uint64(0)
		if len(waiting) > 0 {
			next = waiting[0].begins
		}
		ends := make([]uint64, len(flowing))
		for k, s := range flowing { // left / rate, rounded up but for 1/1024
			ns := new(big.Rat).Quo(s.left, rates[k])
			ns.Mul(ns, big.NewRat(giga, 1))
			ns.Sub(ns, big.NewRat(1, 1024))
			up := new(big.Int).Add(ns.Num(), new(big.Int).Sub(ns.Denom(), big.NewInt(1)))
			if up.Sign() < 0 {
				up.SetUint64(0)
			}
			ends[k] = now + up.Quo(up, ns.Denom()).Uint64()
			next = min(next, ends[k])
		}
		still := flowing[:0]
		for k, s := range flowing {
			moved := new(big.Rat).Mul(rates[k], new(big.Rat).SetFrac(new(big.Int).SetUint64(next-now), big.NewInt(giga)))
			if ends[k] == next {
				out[uint64(s.i)] = next
				continue
			}
			s.left.Sub(s.left, moved)
			still = append(still, s)
		}
		flowing, now = still, next
	}
	return out
}

// Flows that come and go end at the nanosecond that rational numbers say, and no work
// is lost: what has come through each channel is what its flows are long.
func TestTimesAreExactAndNoWorkIsLost(t *testing.T) {
	r, rounds := draws(t)
	for round := range rounds / 3 {
		d := draw(r)
		n := build(t, d.bandwidths...)
		order := make([]int, len(d.flows))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.starts[a], d.starts[b]) })
		got := make(map[uint64]uint64)
		note := func(ended []network.Ended) {
			for _, e := range ended {
				got[e.Tag] = e.At
			}
		}
		bytes := make([]uint64, len(d.bandwidths))
		for _, i := range order {
			note(n.Advance(d.starts[i]))
			start(t, n, d.flows[i])
			for _, c := range d.flows[i].Path {
				bytes[c] += d.flows[i].Bytes
			}
		}
		for at, ok := n.Next(); ok; at, ok = n.Next() {
			note(n.Advance(at))
			require.NoError(t, n.Check())
		}
		require.Equal(t, byReference(d), got, "round %d: %+v", round, d)
		for c, want := range bytes {
			u := n.Usage(network.Channel(c))
			require.Equal(t, want, u.Bytes, "round %d: channel %d", round, c)
			require.LessOrEqual(t, u.Full, u.Busy)
			require.LessOrEqual(t, u.Busy, n.Now())
			least := new(big.Int).Mul(new(big.Int).SetUint64(want), big.NewInt(giga))
			require.GreaterOrEqual(t, u.Busy, least.Quo(least, new(big.Int).SetUint64(d.bandwidths[c])).Uint64(), "faster than channel %d", c)
		}
	}
}

// The time at which a network is looked at, and when its parts are asked what they have
// carried, change nothing.
func TestLookingChangesNothing(t *testing.T) {
	r, rounds := draws(t)
	for range rounds / 10 {
		d := draw(r)
		var all []map[uint64]uint64
		for _, looks := range []int{0, 7} {
			n := build(t, d.bandwidths...)
			for _, f := range d.flows {
				start(t, n, f)
			}
			got := make(map[uint64]uint64)
			for at, ok := n.Next(); ok; at, ok = n.Next() {
				for range looks {
					for _, e := range n.Advance(n.Now() + (at-n.Now())/3) {
						got[e.Tag] = e.At
					}
					n.Usage(network.Channel(r.IntN(len(d.bandwidths))))
				}
				for _, e := range n.Advance(at) {
					got[e.Tag] = e.At
				}
			}
			all = append(all, got)
		}
		require.Equal(t, all[0], all[1])
	}
}
