package network_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/network"
	"godwit/mem"
)

const giga = 1_000_000_000 // bytes a second: a byte a nanosecond

func build(t testing.TB, bandwidths ...uint64) *network.Network {
	n, err := network.New(bandwidths)
	require.NoError(t, err)
	return n
}

func start(t testing.TB, n *network.Network, f network.Flow) network.FlowID {
	id, err := n.Start(f)
	require.NoError(t, err)
	return id
}

// ends runs n until nothing is under way, and returns when each tag has ended.
func ends(n *network.Network) map[uint64]uint64 {
	out := make(map[uint64]uint64)
	for at, ok := n.Next(); ok; at, ok = n.Next() {
		for _, e := range n.Advance(at) {
			out[e.Tag] = e.At
		}
	}
	return out
}

// Times that can be worked out on paper, to the nanosecond.
func TestClosedForms(t *testing.T) {
	type flow = network.Flow
	path := func(c ...network.Channel) []network.Channel { return c }
	for name, c := range map[string]struct {
		channels []uint64
		flows    []flow
		ends     []uint64
	}{
		"one transfer: the latency and the bytes":          {[]uint64{2 * giga}, []flow{{path(0), 1000, 70, 0, 0}}, []uint64{570}},
		"a started nanosecond counts":                      {[]uint64{3 * giga}, []flow{{path(0), 1000, 0, 0, 0}}, []uint64{334}},
		"one byte over the slowest of a path":              {[]uint64{9 * giga, 1, 7 * giga}, []flow{{path(0, 1, 2), 1, 0, 0, 0}}, []uint64{giga}},
		"no bytes take the latency":                        {[]uint64{giga}, []flow{{path(0), 0, 42, 0, 0}, {nil, 0, 0, 0, 0}}, []uint64{42, 0}},
		"two over one link":                                {[]uint64{giga}, []flow{{path(0), 1000, 0, 0, 0}, {path(0), 1000, 0, 0, 0}}, []uint64{2000, 2000}},
		"three over one link, a third each":                {[]uint64{giga}, []flow{{path(0), 1000, 0, 0, 0}, {path(0), 1000, 0, 0, 0}, {path(0), 1000, 0, 0, 0}}, []uint64{3000, 3000, 3000}},
		"the one left goes faster":                         {[]uint64{giga}, []flow{{path(0), 1000, 0, 0, 0}, {path(0), 3000, 0, 0, 0}}, []uint64{2000, 4000}},
		"the one that comes shares what is left":           {[]uint64{giga}, []flow{{path(0), 1000, 0, 0, 0}, {path(0), 1000, 400, 0, 0}}, []uint64{1600, 2000}},
		"three unequal paths: 2/3, 1/3 and 1/3, then more": {[]uint64{giga, 2 * giga, giga}, []flow{{path(0), 3000, 0, 0, 0}, {path(0, 1), 3000, 0, 0, 0}, {path(1, 2), 3000, 0, 0, 0}}, []uint64{6000, 6000, 3000}},
		"a narrow one leaves room for the wide one":        {[]uint64{3 * giga, giga}, []flow{{path(0), 8000, 0, 0, 0}, {path(0, 1), 1000, 0, 0, 0}}, []uint64{3000, 1000}},
		"both ways at once, each way alone":                {[]uint64{giga, giga}, []flow{{path(0), 1000, 0, 0, 0}, {path(1), 1000, 0, 0, 0}}, []uint64{1000, 1000}},
		"both ways at once, with less for both":            {[]uint64{giga, giga, giga + giga/2}, []flow{{path(0, 2), 1500, 0, 0, 0}, {path(1, 2), 1500, 0, 0, 0}}, []uint64{2000, 2000}},
		"a channel that is crossed twice":                  {[]uint64{giga}, []flow{{path(0, 0), 1000, 0, 0, 0}}, []uint64{2000}},
		"a limit of its own":                               {[]uint64{giga}, []flow{{path(0), 100, 0, giga / 10, 0}, {path(0), 900, 0, 0, 0}}, []uint64{1000, 1000}},
		"a limit alone":                                    {nil, []flow{{nil, 100, 5, giga / 10, 0}}, []uint64{1005}},
	} {
		n := build(t, c.channels...)
		for i, f := range c.flows {
			f.Tag = uint64(i)
			start(t, n, f)
		}
		got := ends(n)
		for i, want := range c.ends {
			require.Equal(t, want, got[uint64(i)], "%s: flow %d", name, i)
		}
		require.Zero(t, n.Live(), name)
	}
}

// One that comes later finds the others where they are, and rates are worked out once
// for all that begins and ends at an instant.
func TestAnInstantIsSolvedOnce(t *testing.T) {
	n := build(t, giga, giga)
	for tag := range uint64(100) {
		start(t, n, network.Flow{Path: []network.Channel{0}, Bytes: 10, Tag: tag})
	}
	require.Empty(t, n.Advance(500))
	require.Equal(t, network.Work{Solves: 1, Channels: 1, Classes: 2, Changed: 1}, n.Work())
	for tag := range uint64(100) {
		start(t, n, network.Flow{Path: []network.Channel{0}, Bytes: 5, Tag: 100 + tag})
	}
	id := start(t, n, network.Flow{Path: []network.Channel{1}, Bytes: giga, Tag: 200}) // another part of the network
	n.Advance(500)
	require.Equal(t, uint64(giga), n.Rate(id))
	require.Equal(t, uint64(2), n.Work().Solves)
	require.Equal(t, uint64(4), n.Work().Classes)
	ended := n.Advance(1499)
	require.Empty(t, ended, "two hundred share what one hundred had half of")
	ended = n.Advance(1500)
	require.Len(t, ended, 200)
	for i, e := range ended {
		require.Equal(t, network.Ended{Tag: uint64(i), At: 1500}, e, "in the order of their starts")
	}
	require.Equal(t, network.Usage{Bytes: 1500, Busy: 1500, Full: 1500}, n.Usage(0))
	require.Equal(t, network.Usage{Bytes: 1000, Busy: 1000, Full: 1000}, n.Usage(1))
}

func TestWhatHasNoEnd(t *testing.T) {
	n := build(t, 1)
	start(t, n, network.Flow{Path: []network.Channel{0}, Bytes: network.MaxBytes})
	n.Advance(0)
	at, ok := n.Next()
	require.True(t, ok)
	require.Equal(t, uint64(network.Never), at, "some 146 billion years")
	require.Empty(t, n.Advance(1<<63))
	require.Equal(t, 1, n.Live())
}

func TestFaults(t *testing.T) {
	for _, b := range []uint64{0, 1<<47 + 1} {
		_, err := network.New([]uint64{giga, b})
		require.ErrorIs(t, err, mem.ErrInvalidValue)
		require.ErrorContains(t, err, "channel 1")
	}
	n := build(t, giga)
	for _, f := range []network.Flow{
		{Bytes: 1}, {Bytes: network.MaxBytes + 1, Limit: 1}, {Path: []network.Channel{1}}, {Path: []network.Channel{-1}},
	} {
		_, err := n.Start(f)
		require.ErrorIs(t, err, mem.ErrInvalidValue, "%+v", f)
	}
	require.Zero(t, n.Live())
}
