package mover_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/mover"
	"godwit/devices/null"
	"godwit/devices/soft"
	"godwit/mem"
)

func TestACopyBetweenHostMemoriesIsOneLeg(t *testing.T) {
	a, b := newHost(t, soft.HostOptions{}), newHost(t, soft.HostOptions{})
	tr := newTransport(t, mover.TransportOptions{})
	src, dst := end(t, a, 1<<20), end(t, b, 1<<20)
	from, err := a.View(src.Block, 0, 1<<20)
	require.NoError(t, err)
	for i := range from {
		from[i] = byte(i * 7)
	}
	out := make([]mem.Point, 1)
	for _, route := range []mem.Route{mem.RoutePeer, mem.RouteHost} {
		to, err := b.View(dst.Block, 0, 1<<20)
		require.NoError(t, err)
		clear(to)
		dst.Route = route
		require.NoError(t, tr.Copy(src, []mover.End{dst}, 1<<20, nil, out))
		require.NoError(t, out[0].Wait(context.Background()))
		require.True(t, bytes.Equal(from, to))
	}
	require.EqualValues(t, 2, tr.Stats().Direct)
	require.EqualValues(t, 2, tr.Stats().Legs)
}

func TestAGatedTransferHoldsNoStaging(t *testing.T) {
	a, b := null.New(devices.Config{Name: "a"}), null.New(devices.Config{Name: "b"})
	t.Cleanup(func() { require.NoError(t, a.Close()); require.NoError(t, b.Close()) })
	tr := newTransport(t, mover.TransportOptions{Budget: 64 << 10, Chunk: 16 << 10})
	src, dst := end(t, a, 1<<20), end(t, b, 1<<20)
	dst.Route = mem.RouteHost
	user := mem.NewTimeline("user", false, nil)
	gate := user.Next()
	gated := make([]mem.Point, 100)
	for i := range gated {
		require.NoError(t, tr.Copy(src, []mover.End{dst}, 1<<20, []mem.Wait{{Point: gate, Kind: mem.Data}}, gated[i:i+1]))
	}
	require.Zero(t, tr.Stats().InFlight)
	free := make([]mem.Point, 1)
	require.NoError(t, tr.Copy(src, []mover.End{dst}, 1<<20, nil, free))
	require.NoError(t, free[0].Wait(context.Background()))
	for _, p := range gated {
		require.False(t, p.Reached())
	}
	user.End(gate, nil)
	for _, p := range gated {
		require.NoError(t, p.Wait(context.Background()))
	}
}
