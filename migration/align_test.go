package migration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/migration"
)

// words is a buffer of 64 bytes on two memories whose link copies words of 8,
// with storage on both.
func words(t *testing.T) *counting {
	topo := mem.NewTopology("a", "b", "c")
	require.NoError(t, topo.SetLink(1, 2, mem.Link{Direct: mem.Path{There: true}, Align: 8}))
	c := &counting{t: t, p: migration.New(topo, migration.Options{}), work: mem.NewTimeline("work", false, nil), moves: mem.NewTimeline("moves", false, nil)}
	var err error
	c.data, err = c.p.Create(61, mem.MemorySet{})
	require.NoError(t, err)
	return c
}

func (c *counting) ended() {
	for _, l := range []*mem.Timeline{c.work, c.moves} {
		for p := l.Next(); p.Seq > 0; p.Seq-- {
			if !p.Reached() {
				l.End(p, nil)
			}
		}
	}
}

func TestEndsAreWidenedWhereThatDoesNoHarm(t *testing.T) {
	r := func(start, end uint64) mem.Range { return mem.Range{Start: start, End: end} }
	whole := r(0, 61)
	for _, turn := range []struct {
		name   string
		before func(c *counting)
		read   mem.Range
		want   mem.Range
	}{
		{"both ends", func(c *counting) { c.run(c.data, mem.Write, 1, whole) }, r(11, 29), r(8, 32)},
		{"as far as the buffer goes", func(c *counting) { c.run(c.data, mem.Write, 1, whole) }, r(57, 60), r(56, 61)},
		{"ends that are words", func(c *counting) { c.run(c.data, mem.Write, 1, whole) }, r(8, 32), r(8, 32)},
		{"not over what is newer at the destination", func(c *counting) {
			c.run(c.data, mem.Write, 1, whole)
			c.run(c.data, mem.Write, 2, r(29, 31))
		}, r(11, 29), r(8, 29)},
		{"not over what the source does not hold", func(c *counting) {
			c.run(c.data, mem.Write, 1, r(11, 61))
			c.run(c.data, mem.Write, 3, r(9, 11))
		}, r(11, 29), r(11, 32)},
		{"not over what was never written", func(c *counting) { c.run(c.data, mem.Write, 1, r(11, 30)) }, r(11, 29), r(11, 29)},
		{"over what is as new there", func(c *counting) {
			c.run(c.data, mem.Write, 1, whole)
			c.run(c.data, mem.Read, 2, r(0, 8))
			c.ended()
			c.run(c.data, mem.Write, 1, r(3, 8))
			c.ended()
		}, r(3, 8), r(0, 8)},
	} {
		c := words(t)
		turn.before(c)
		c.ended()
		steps := c.run(c.data, mem.Read, 2, turn.read)
		require.Len(t, steps, 1, turn.name)
		require.Equal(t, turn.want, steps[0].Range, turn.name)
		require.Equal(t, turn.want.Size()-turn.read.Size(), steps[0].RideAlong, turn.name)
		require.Equal(t, turn.read.Size(), steps[0].Bytes(), turn.name)
		c.ended()
		require.Empty(t, c.run(c.data, mem.Read, 2, turn.want), "%s: what came along is there", turn.name)
	}
}

func TestEndsAreNotWidenedOverWhatOthersUse(t *testing.T) {
	c := words(t)
	c.run(c.data, mem.Write, 1, mem.Range{End: 61})
	c.run(c.data, mem.Read, 2, mem.Range{End: 61})
	c.ended()
	c.run(c.data, mem.Write, 1, mem.Range{Start: 11, End: 61})
	c.ended()
	c.run(c.data, mem.Read, 2, mem.Range{Start: 8, End: 10}) // under way while the copy is planned
	steps := c.run(c.data, mem.Read, 2, mem.Range{Start: 11, End: 20})
	require.Equal(t, mem.Range{Start: 11, End: 24}, steps[0].Range, "a reader of the bytes before need not end")
	require.Empty(t, steps[0].Waits)
}

func TestNeighboursAreNotWidenedOverEachOther(t *testing.T) {
	c := words(t)
	c.run(c.data, mem.Write, 1, mem.Range{End: 61})
	c.ended()
	c.run(c.data, mem.Write, 1, mem.Range{Start: 13, End: 20}) // its copy waits for it
	steps := c.run(c.data, mem.Read, 2, mem.Range{Start: 3, End: 37})
	require.Len(t, steps, 3)
	require.Equal(t, mem.Range{Start: 0, End: 13}, steps[0].Range)
	require.Equal(t, mem.Range{Start: 13, End: 20}, steps[1].Range)
	require.Equal(t, mem.Range{Start: 20, End: 40}, steps[2].Range)
}

func TestNothingRidesAlongIntoAHostThatIsWriting(t *testing.T) {
	topo := mem.NewTopology("a")
	require.NoError(t, topo.SetLink(1, mem.Host, mem.Link{Direct: mem.Path{There: true}, Align: 8}))
	g := begin(t, topo, migration.Options{})
	b := g.buffer(64)
	g.on("q", use(mem.Write, b, 0, 64, 1))
	require.NoError(t, g.p.Mapped(b, mem.Range{Start: 16, End: 64}, mem.Point{})) // invalidated: the host's bytes look stale
	require.Equal(t, mem.Range{Start: 9, End: 12}, g.on("q", use(mem.Read, b, 9, 12, mem.Host)).steps[0].Range)
	require.NoError(t, g.p.Unmapped(b, mem.Range{Start: 16, End: 64}, mem.Point{}))
	require.Equal(t, mem.Range{Start: 24, End: 32}, g.on("q", use(mem.Read, b, 25, 28, mem.Host)).steps[0].Range)
	require.ErrorIs(t, g.p.Mapped(b+1, mem.Range{End: 1}, mem.Point{}), mem.ErrInvalidBuffer)
	require.ErrorIs(t, g.p.Unmapped(b+1, mem.Range{End: 1}, mem.Point{}), mem.ErrInvalidBuffer)
}
