package mem_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestAFreshTopologyLinksEverythingThroughTheHost(t *testing.T) {
	topo := mem.NewTopology("gpu0", "gpu1")
	require.Equal(t, 3, topo.Len())
	require.Equal(t, "host", topo.Name(mem.Host))
	require.Equal(t, "gpu1", topo.Name(2))
	require.Equal(t, "memory 9", topo.Name(9))
	for a := range mem.MemoryID(3) {
		require.Equal(t, a, topo.Store(a))
		for b := range mem.MemoryID(3) {
			want := mem.RouteHost
			if a == b {
				want = mem.RouteSame
			}
			require.Equal(t, want, topo.Link(a, b).Route)
		}
	}
}

func TestALinkHasADirection(t *testing.T) {
	topo := mem.NewTopology("gpu0", "gpu1")
	require.NoError(t, topo.SetLink(1, 2, mem.Link{Route: mem.RoutePeer, Bandwidth: 1 << 30}))
	require.Equal(t, mem.Link{Route: mem.RoutePeer, Bandwidth: 1 << 30}, topo.Link(1, 2))
	require.Equal(t, mem.RouteHost, topo.Link(2, 1).Route)
}

func TestSharingIsAnEquivalence(t *testing.T) {
	topo := mem.NewTopology("a", "b", "c", "d", "e")
	require.NoError(t, topo.Share(4, 3))
	require.NoError(t, topo.SetLink(1, 2, mem.Link{Route: mem.RouteSame}))
	require.NoError(t, topo.Share(2, 4))
	require.NoError(t, topo.Share(3, 1), "again")
	for _, id := range []mem.MemoryID{1, 2, 3, 4} {
		require.EqualValues(t, 1, topo.Store(id))
		require.Equal(t, mem.RouteHost, topo.Link(id, 5).Route)
	}
	require.Equal(t, mem.RouteSame, topo.Link(4, 1).Route)
	require.EqualValues(t, 5, topo.Store(5))
	require.ErrorIs(t, topo.SetLink(1, 4, mem.Link{Route: mem.RoutePeer}), mem.ErrInvalidValue)
}

func TestLinksOfMemoriesThatDoNotExistAreRefused(t *testing.T) {
	topo := mem.NewTopology("gpu0")
	for _, pair := range [][2]mem.MemoryID{{0, 2}, {2, 0}, {1, 1}} {
		require.ErrorIs(t, topo.SetLink(pair[0], pair[1], mem.Link{Route: mem.RoutePeer}), mem.ErrInvalidValue)
		require.ErrorIs(t, topo.Share(pair[0], pair[1]), mem.ErrInvalidValue)
	}
	require.ErrorIs(t, topo.SetLink(0, 1, mem.Link{Route: mem.RouteHost, Align: 12}), mem.ErrInvalidValue)
	require.NoError(t, topo.SetLink(0, 1, mem.Link{Route: mem.RouteHost, Align: 16}))
}
