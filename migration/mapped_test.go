package migration_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/migration"
)

func TestNoStepGoesOverWhatTheHostHasMapped(t *testing.T) {
	g := begin(t, mem.NewTopology("a"), migration.Options{})
	b := g.buffer(64)
	g.on("q", use(mem.Write, b, 0, 64, 1))
	for _, r := range []mem.Range{{Start: 40, End: 48}, {Start: 8, End: 16}, {Start: 16, End: 24}, {Start: 12, End: 20}} {
		require.NoError(t, g.p.Mapped(b, r, mem.Point{}))
	}
	line := mem.NewTimeline("maps", true, nil)
	failing := line.Next()
	require.NoError(t, g.p.Mapped(b, mem.Range{Start: 60, End: 64}, failing))
	all := g.on("q", use(mem.Read, b, 4, 64, mem.Host))
	require.Equal(t, []string{"[4,8) 1->0 direct", "[24,40) 1->0 direct", "[48,60) 1->0 direct"}, all.moved())
	require.Contains(t, all.waits, data(failing), "what the host has written is there once it has mapped it")
	g.failPoint(failing, errors.New("no map"))
	require.Equal(t, []string{"[60,64) 1->0 direct"}, g.on("q", use(mem.Read, b, 44, 64, mem.Host)).moved(), "who failed to map writes nothing")

	require.ErrorIs(t, g.p.Unmapped(b, mem.Range{Start: 8, End: 24}, mem.Point{}), mem.ErrInvalidValue)
	require.ErrorIs(t, g.p.Mapped(b, mem.Range{Start: 60, End: 65}, mem.Point{}), mem.ErrInvalidValue)
	require.ErrorIs(t, g.p.Mapped(b, mem.Range{}, mem.Point{}), mem.ErrInvalidValue)
	require.NoError(t, g.p.Unmapped(b, mem.Range{Start: 16, End: 24}, mem.Point{}))
	require.Equal(t, []string{"[20,24) 1->0 direct"}, g.on("q", use(mem.Read, b, 8, 24, mem.Host)).moved())
	require.NoError(t, g.p.Release(b))
	c := g.buffer(64) // of the same slot
	g.on("q", use(mem.Write, c, 0, 64, 1))
	require.Equal(t, []string{"[0,64) 1->0 direct"}, g.on("q", use(mem.Read, c, 0, 64, mem.Host)).moved(), "nothing of it is mapped")
}

func TestWhatTheHostHasMappedStillGoesElsewhere(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b"), migration.Options{})
	b := g.buffer(64)
	g.on("q", use(mem.Write, b, 0, 64, 1))
	require.NoError(t, g.p.Mapped(b, mem.Range{Start: 16, End: 32}, mem.Point{}))
	require.Equal(t, []string{"[0,16) 1->0 direct", "[32,64) 1->0 direct", "[0,64) 1->2 ring"},
		g.on("q", use(mem.Read, b, 0, 64, mem.Host), use(mem.Read, b, 0, 64, 2)).moved())
	require.NoError(t, g.p.Unmapped(b, mem.Range{Start: 16, End: 32}, mem.Point{}))
	require.NoError(t, g.p.Written(b, mem.Host, mem.Range{Start: 16, End: 24}))
	require.Equal(t, []string{"[16,24) 0->2 direct"}, g.on("q", use(mem.Read, b, 0, 64, 2)).moved())
}

// hostMaps plans a map for writing, without content, and its unmap, neither of
// which has run, and returns their points.
func (g *program) hostMaps(b mem.BufferID, start, end uint64) (on, at mem.Point) {
	g.t.Helper()
	if g.queues["maps"] == nil {
		g.queues["maps"] = mem.NewTimeline("maps", false, nil)
	}
	on, at = g.queues["maps"].Next(), g.queues["maps"].Next()
	access := []mem.Access{use(mem.Write, b, start, end, mem.Host)}
	var plan migration.Plan
	require.NoError(g.t, g.p.Plan(&plan, access))
	require.NoError(g.t, g.p.Stored(migration.Want{Buffer: b, Memory: mem.Host}, mem.Plain))
	g.p.CommitUse(&plan, on)
	require.NoError(g.t, g.p.Plan(&plan, access))
	g.p.CommitUnmap(&plan, at, on)
	require.NoError(g.t, g.p.Check())
	return on, at
}

func TestAnUnmapThatFailsWithItsMapLeavesWhatWasThere(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b"), migration.Options{})
	b := g.buffer(64)
	w := g.on("q", use(mem.Write, b, 0, 32, 1)) // and [32,64) was never written
	g.on("q", use(mem.Read, b, 0, 8, 2))
	r := g.on("r", use(mem.Read, b, 0, 32, 1))
	on, at := g.hostMaps(b, 4, 48)
	on2, at2 := g.hostMaps(b, 16, 24)                     // what it replaces hangs on the first
	over := g.on("q", use(mem.Write, b, 20, 22, 2))       // and this on nobody
	step := g.on("q", use(mem.Read, b, 4, 8, 1)).steps[0] // it has taken the place of r
	require.Contains(t, step.waits, data(at))
	g.failPoint(on, errLost)
	g.failPoint(on2, errLost)
	g.failPoint(at, errLost)
	g.failPoint(at2, errLost)
	segments, err := g.p.Segments(b)
	require.NoError(t, err)
	var got []string
	for _, s := range segments {
		got = append(got, fmt.Sprint(s.Range, s.Version, s.Valid, s.Poison != nil))
	}
	require.Equal(t, []string{"[0,8) 1 {1,2} false", "[8,20) 1 {1} false", "[20,22) 4 {2} false", "[22,32) 1 {1} false", "[32,64) 0 {} false"}, got)
	again := g.on("s", use(mem.Read, b, 4, 8, 1))
	require.Equal(t, []mem.Wait{data(w.at)}, again.waits, "it rests on who wrote it, not on the step that fails")
	require.Contains(t, g.on("t", use(mem.Write, b, 4, 8, 1)).waits, order(step.at), "and r is waited for through it")
	require.Equal(t, []mem.Wait{data(over.at)}, g.on("s", use(mem.Read, b, 20, 22, 2)).waits)
	require.Equal(t, []mem.Wait{data(w.at)}, g.on("s", use(mem.Read, b, 16, 20, 1)).waits, "so does what two unmaps have replaced")
	g.failPoint(step.at, errLost)
	require.Contains(t, g.on("t", use(mem.Write, b, 8, 9, 1)).waits, order(r.at))
}

func TestAnUnmapThatFailsByItselfLosesWhatTheHostWrote(t *testing.T) {
	g := begin(t, mem.NewTopology("a"), migration.Options{})
	b := g.buffer(64)
	g.on("q", use(mem.Write, b, 0, 64, 1))
	on, at := g.hostMaps(b, 0, 64)
	on.Line.End(on, nil)
	g.failPoint(at, errLost)
	require.ErrorIs(t, g.p.Plan(&migration.Plan{}, []mem.Access{use(mem.Read, b, 0, 64, 1)}), mem.ErrPoisoned)
	g.on("q", use(mem.Write, b, 0, 64, 1))
	on, at = g.hostMaps(b, 0, 64)
	require.NoError(t, g.p.Unstored(migration.Want{Buffer: b, Memory: 1})) // who held what was there
	g.failPoint(on, errLost)
	g.failPoint(at, errLost)
	require.ErrorIs(t, g.p.Plan(&migration.Plan{}, []mem.Access{use(mem.Read, b, 0, 64, 1)}), mem.ErrPoisoned)
}
