package migration_test

import (
	"errors"
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
	require.Equal(t, []string{"[4,8) 1->0 host", "[24,40) 1->0 host", "[48,60) 1->0 host"}, all.moved())
	require.Contains(t, all.waits, data(failing), "what the host has written is there once it has mapped it")
	g.failPoint(failing, errors.New("no map"))
	require.Equal(t, []string{"[60,64) 1->0 host"}, g.on("q", use(mem.Read, b, 44, 64, mem.Host)).moved(), "who failed to map writes nothing")

	require.ErrorIs(t, g.p.Unmapped(b, mem.Range{Start: 8, End: 24}), mem.ErrInvalidValue)
	require.ErrorIs(t, g.p.Mapped(b, mem.Range{Start: 60, End: 65}, mem.Point{}), mem.ErrInvalidValue)
	require.ErrorIs(t, g.p.Mapped(b, mem.Range{}, mem.Point{}), mem.ErrInvalidValue)
	require.NoError(t, g.p.Unmapped(b, mem.Range{Start: 16, End: 24}))
	require.Equal(t, []string{"[20,24) 1->0 host"}, g.on("q", use(mem.Read, b, 8, 24, mem.Host)).moved())
	require.NoError(t, g.p.Release(b))
	c := g.buffer(64) // of the same slot
	g.on("q", use(mem.Write, c, 0, 64, 1))
	require.Equal(t, []string{"[0,64) 1->0 host"}, g.on("q", use(mem.Read, c, 0, 64, mem.Host)).moved(), "nothing of it is mapped")
}

func TestWhatTheHostHasMappedStillGoesElsewhere(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b"), migration.Options{})
	b := g.buffer(64)
	g.on("q", use(mem.Write, b, 0, 64, 1))
	require.NoError(t, g.p.Mapped(b, mem.Range{Start: 16, End: 32}, mem.Point{}))
	require.Equal(t, []string{"[0,16) 1->0 host", "[32,64) 1->0 host", "[0,64) 1->2 host"},
		g.on("q", use(mem.Read, b, 0, 64, mem.Host), use(mem.Read, b, 0, 64, 2)).moved())
	require.NoError(t, g.p.Unmapped(b, mem.Range{Start: 16, End: 32}))
}

func TestACountThatTheHostHasMappedIsNone(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b", "c", "d"), migration.Options{})
	b, size := g.buffer(64), g.buffer(16)
	require.NoError(t, g.p.SetContentSize(b, size))
	g.on("q", use(mem.Write, b, 0, 64, 1))
	g.on("q", use(mem.Write, size, 0, 16, 1))
	late := g.on("q", use(mem.Read, b, 0, 64, 2)).steps
	require.Len(t, late, 2)
	require.NotNil(t, late[1].Late)
	late[1].Late.Landed(10) // so that 2 holds 10 bytes

	beside := mem.Range{Start: 8, End: 16}
	require.NoError(t, g.p.Mapped(size, beside, mem.Point{}))
	g.on("q", use(mem.Write, size, 0, 8, 1))
	late = g.on("q", use(mem.Read, b, 0, 64, 3)).steps
	require.Len(t, late, 2)
	require.Equal(t, size, late[0].Buffer, "its 8 bytes are not mapped")
	late[1].Late.Landed(10)
	require.NoError(t, g.p.Unmapped(size, beside))

	g.on("q", use(mem.Write, size, 0, 8, 1)) // so that it is not on the host
	mapped := mem.Range{Start: 4, End: 5}
	require.NoError(t, g.p.Mapped(size, mapped, mem.Point{}))
	c := g.on("q", use(mem.Read, b, 0, 64, 4))
	require.Equal(t, []string{"[0,64) 1->4 host"}, c.moved(), "from who has all of it; no count comes over the host's bytes")
	require.Nil(t, c.steps[0].Late, "all bytes count")
	require.NoError(t, g.p.Unmapped(size, mapped))
	require.Equal(t, []string{"[0,8) 1->0 host", "[0,64) 4->2 host"}, g.on("q", use(mem.Read, b, 0, 64, 2)).moved())
	require.NoError(t, g.p.Check())
}
