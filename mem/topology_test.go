package mem_test

import (
	"testing"
	"time"

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
			want := mem.Ring
			switch {
			case a == b:
				want = mem.Same
			case a == mem.Host || b == mem.Host:
				want = mem.Direct
			}
			require.Equal(t, want, way(topo, a, b))
		}
	}
}

func way(topo *mem.Topology, from, to mem.MemoryID) mem.Way {
	l := topo.Link(from, to)
	w, _ := l.Choose(1, mem.Plain)
	return w
}

func TestTheFasterWayIsChosenBySizeAndClass(t *testing.T) {
	l := mem.Link{
		Direct: mem.Path{There: true, Latency: 10 * time.Microsecond, Bandwidth: 10e9},
		Locked: mem.Path{There: true, Latency: 10 * time.Microsecond, Bandwidth: 55e9},
		Ring:   mem.Path{There: true, Latency: 100 * time.Microsecond, Bandwidth: 40e9},
	}
	for _, c := range []struct {
		size  uint64
		class mem.Class
		want  mem.Way
	}{{4 << 10, mem.Plain, mem.Direct}, {1 << 20, mem.Plain, mem.Direct}, {2 << 20, mem.Plain, mem.Ring}, {1 << 30, mem.Plain, mem.Ring}, {1 << 30, mem.Locked, mem.Direct}} {
		w, _ := l.Choose(c.size, c.class)
		require.Equal(t, c.want, w, "%d bytes of class %d", c.size, c.class)
	}
	l.Ring.Bandwidth = 0
	w, _ := l.Choose(1<<30, mem.Plain)
	require.Equal(t, mem.Direct, w, "nothing is known of the ring")
	require.ErrorIs(t, mem.NewTopology("a").SetLink(0, 1, mem.Link{}), mem.ErrInvalidValue)
}

func TestALinkHasADirection(t *testing.T) {
	topo := mem.NewTopology("gpu0", "gpu1")
	require.NoError(t, topo.SetLink(1, 2, mem.DirectLink(0, 1<<30)))
	require.Equal(t, mem.DirectLink(0, 1<<30), topo.Link(1, 2))
	require.Equal(t, mem.Ring, way(topo, 2, 1))
}

func TestSharingIsAnEquivalence(t *testing.T) {
	topo := mem.NewTopology("a", "b", "c", "d", "e")
	require.NoError(t, topo.Share(4, 3))
	require.NoError(t, topo.Share(1, 2))
	require.NoError(t, topo.Share(2, 4))
	require.NoError(t, topo.Share(3, 1), "again")
	for _, id := range []mem.MemoryID{1, 2, 3, 4} {
		require.EqualValues(t, 1, topo.Store(id))
		require.Equal(t, mem.Ring, way(topo, id, 5))
	}
	require.Equal(t, mem.Same, way(topo, 4, 1))
	require.EqualValues(t, 5, topo.Store(5))
	require.ErrorIs(t, topo.SetLink(1, 4, mem.DirectLink(0, 0)), mem.ErrInvalidValue)
}

func TestLinksOfMemoriesThatDoNotExistAreRefused(t *testing.T) {
	topo := mem.NewTopology("gpu0")
	for _, pair := range [][2]mem.MemoryID{{0, 2}, {2, 0}, {1, 1}} {
		require.ErrorIs(t, topo.SetLink(pair[0], pair[1], mem.DirectLink(0, 0)), mem.ErrInvalidValue)
		require.ErrorIs(t, topo.Share(pair[0], pair[1]), mem.ErrInvalidValue)
	}
	require.ErrorIs(t, topo.SetLink(0, 1, mem.Link{Ring: mem.Path{There: true}, Align: 12}), mem.ErrInvalidValue)
	require.NoError(t, topo.SetLink(0, 1, mem.Link{Ring: mem.Path{There: true}, Align: 16}))
}

func TestALinkBetweenWindowsIsChosenByClassAndSize(t *testing.T) {
	t.Parallel()
	path := func(latency time.Duration, speed uint64) mem.Path {
		return mem.Path{There: true, Latency: latency, Bandwidth: speed}
	}
	l := mem.Link{Ring: path(25*time.Microsecond, 50e9), Linked: path(12*time.Microsecond, 390e9), Windows: path(60*time.Microsecond, 370e9)}
	for _, c := range []struct {
		size  uint64
		class mem.Class
		want  mem.Way
	}{
		{4 << 10, mem.Plain, mem.Ring}, {4 << 10, mem.Window, mem.Linked}, {1 << 20, mem.Plain, mem.Ring}, {16 << 20, mem.Plain, mem.Windows},
		{1 << 30, mem.Plain, mem.Windows}, {1 << 20, mem.Window, mem.Linked}, {256 << 20, mem.Window, mem.Linked},
	} {
		way, p := l.Choose(c.size, c.class)
		require.Equal(t, c.want, way, "%d bytes of class %d", c.size, c.class)
		require.True(t, p.There)
	}
	unknown := mem.Link{Ring: mem.Path{There: true}, Linked: path(0, 1e9)}
	way, _ := unknown.Choose(1, mem.Window)
	require.Equal(t, mem.Linked, way, "before a ring of which nothing is known")
	unknown.Direct.There = true
	way, _ = unknown.Choose(1, mem.Plain)
	require.Equal(t, mem.Direct, way)
}

// A context of n devices sets n*n links, few of which differ.
func TestALinkLikeTheLastOneTakesNoMemory(t *testing.T) {
	topo := mem.NewTopology("a", "b", "c")
	l := mem.DirectLink(time.Microsecond, 1<<30)
	require.NoError(t, topo.SetLink(1, 2, l))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = topo.SetLink(2, 3, l)
	}), "what is equal is kept once, and other links are not copied")
	require.Equal(t, l, topo.Link(2, 3))
	require.Equal(t, mem.RingLink(0, 0), topo.Link(3, 2))
}

// What OnlyWay says, Choose says of every size and class; where copies may go several ways
// it says nothing. All links of paths that are not there, there, or known.
func TestTheOnlyWayIsTheOneThatIsChosen(t *testing.T) {
	paths := []mem.Path{{}, {There: true}, {There: true, Latency: time.Microsecond, Bandwidth: 1 << 30}}
	var links []mem.Link
	for n := range 3 * 3 * 3 * 3 * 3 {
		next := func() mem.Path { p := paths[n%3]; n /= 3; return p }
		links = append(links, mem.Link{Direct: next(), Locked: next(), Ring: next(), Linked: next(), Windows: next()})
	}
	told := 0
	for _, l := range links {
		topo := mem.NewTopology("a", "b")
		if topo.SetLink(1, 2, l) != nil {
			continue // it has no way
		}
		only := topo.OnlyWay(1, 2)
		if only != mem.Same {
			told++
		}
		for _, size := range []uint64{1, 1 << 10, 1 << 20, 1 << 40} {
			for _, class := range []mem.Class{mem.Plain, mem.Locked, mem.Window} {
				way, _ := l.Choose(size, class)
				if only != mem.Same {
					require.Equal(t, way, only, "%+v: %d bytes of class %d", l, size, class)
				}
				if l.Linked.There && class == mem.Window {
					require.Equal(t, mem.Linked, way, "between windows the copy engines, whatever is known: %+v, %d bytes", l, size)
				}
			}
		}
		if !l.Linked.There && !l.Windows.There && l.Direct.There != l.Ring.There && (l.Direct.There || !l.Locked.There) {
			require.NotEqual(t, mem.Same, only, "there is one way: %+v", l)
		}
	}
	require.Greater(t, told, 15)
}
