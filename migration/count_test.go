package migration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/migration"
)

// counting is a buffer of 64 bytes, written on memory 1, and a size buffer that
// says how many of them matter.
type counting struct {
	t           *testing.T
	p           *migration.Planner
	data, size  mem.BufferID
	work, moves *mem.Timeline
	plan        migration.Plan
}

func newCounting(t *testing.T) *counting {
	c := &counting{t: t, p: migration.New(mem.NewTopology("a", "b", "c"), migration.Options{}),
		work: mem.NewTimeline("work", false, nil), moves: mem.NewTimeline("moves", false, nil)}
	var err error
	c.data, err = c.p.Create(64, mem.MemorySet{})
	require.NoError(t, err)
	c.size, err = c.p.Create(8, mem.MemorySet{})
	require.NoError(t, err)
	require.NoError(t, c.p.SetContentSize(c.data, c.size))
	return c
}

// run plans and commits one access. It returns the steps.
func (c *counting) run(id mem.BufferID, mode mem.Mode, m mem.MemoryID, r mem.Range) []migration.Step {
	require.NoError(c.t, c.p.Plan(&c.plan, []mem.Access{{Buffer: id, Range: r, Mode: mode, Memory: m}}))
	for _, w := range c.plan.Storage {
		require.NoError(c.t, c.p.Stored(w, mem.Plain))
	}
	for i := range c.plan.Steps {
		c.p.CommitStep(&c.plan, i, c.moves.Next())
	}
	c.p.Commit(&c.plan, c.work.Next())
	require.NoError(c.t, c.p.Check())
	return c.plan.Steps
}

// land tells late steps what the count is, and returns what the last one moved.
func (c *counting) land(count uint64) (moved mem.Range) {
	for i := range c.plan.Steps {
		if l := c.plan.Steps[i].Late; l != nil {
			moved = l.Resolve(count)
			l.Landed(count)
		}
	}
	return moved
}

var all = mem.Range{End: 64}

func TestAStepOfACountedBufferWaitsForItsCountOnTheHost(t *testing.T) {
	c := newCounting(t)
	c.run(c.data, mem.Write, 1, all)
	c.run(c.size, mem.Write, 1, mem.Range{End: 8})
	steps := c.run(c.data, mem.Read, 2, all)
	require.Len(t, steps, 2)
	require.Equal(t, c.size, steps[0].Buffer)
	require.Equal(t, mem.Host, steps[0].To)
	require.Equal(t, mem.Range{End: 8}, steps[0].Range)
	require.Nil(t, steps[0].Late)
	require.Equal(t, all, steps[1].Range, "planned in full")
	require.Equal(t, c.size, steps[1].Late.Count)
	require.Equal(t, mem.Version(2), steps[1].Late.Version)
	require.Equal(t, []int{0}, steps[1].Late.After)
	require.Contains(t, c.p.Explain(&steps[1]), "as far as version 2 of buffer 1 counts")

	rows, err := c.p.Hazards(c.size, mem.Host)
	require.NoError(t, err)
	require.Equal(t, mem.Point{Line: c.moves, Seq: 2}, rows[0].Readers[0], "who changes the count there waits for the copy")
	require.Equal(t, uint64(8), c.p.Stats().BytesMoved, "what moves of the rest nobody knows yet")
	require.Equal(t, uint64(64), c.p.Stats().LateBytes)

	other, err := c.p.Create(64, mem.MemorySet{})
	require.NoError(t, err)
	c.run(other, mem.Write, 1, all)
	c.run(c.size, mem.Write, 1, mem.Range{End: 8})
	c.run(c.data, mem.Write, 1, all)
	require.NoError(t, c.p.Plan(&c.plan, []mem.Access{{Buffer: other, Range: all, Memory: 2}, {Buffer: c.data, Range: all, Memory: 2}}))
	require.Len(t, c.plan.Steps, 3, "the count, though other bytes come before it")
	require.NoError(t, c.p.Plan(&c.plan, []mem.Access{{Buffer: c.data, Range: all, Memory: mem.Host}, {Buffer: c.size, Range: mem.Range{End: 8}, Memory: mem.Host}}))
	require.Len(t, c.plan.Steps, 2, "a count that is read as well comes once")
}

func TestPartsThatWereCarriedByDifferentCountsAreStepsOfTheirOwn(t *testing.T) {
	c := newCounting(t)
	c.run(c.data, mem.Write, 1, all)
	c.run(c.size, mem.Write, 1, mem.Range{End: 8})
	c.run(c.data, mem.Read, 2, all)
	c.land(0)
	c.run(c.data, mem.Write, 1, mem.Range{End: 32})
	c.run(c.data, mem.Read, 2, mem.Range{End: 32})
	c.land(16)
	for line, points := range map[*mem.Timeline]uint64{c.work: 5, c.moves: 3} { // else the points tell the parts apart
		for seq := range points {
			line.End(mem.Point{Line: line, Seq: seq + 1}, nil)
		}
	}
	c.run(c.size, mem.Write, 1, mem.Range{End: 8})
	steps := c.run(c.data, mem.Read, 2, all)
	require.Len(t, steps, 3)
	require.Equal(t, mem.Range{Start: 16, End: 32}, steps[1].Late.Resolve(48))
	require.Equal(t, mem.Range{Start: 32, End: 48}, steps[2].Late.Resolve(48))
}

func TestWhenTheCountChangesOnlyWhatWasNotCarriedIsBrought(t *testing.T) {
	c := newCounting(t)
	c.run(c.data, mem.Write, 1, all)
	for i, turn := range []struct {
		count uint64
		moved mem.Range
	}{
		{16, mem.Range{Start: 0, End: 16}},
		{40, mem.Range{Start: 16, End: 40}},
		{8, mem.Range{Start: 40, End: 40}}, // fewer: nothing, and nothing is forgotten
		{32, mem.Range{Start: 40, End: 40}},
		{0, mem.Range{Start: 40, End: 40}},
		{1 << 63, mem.Range{Start: 40, End: 64}}, // more than there are: all
		{12, mem.Range{Start: 64, End: 64}},
	} {
		c.run(c.size, mem.Write, 1, mem.Range{End: 8})
		segs, err := c.p.Segments(c.data)
		require.NoError(t, err)
		require.Equal(t, mem.SetOf(1), segs[0].Valid, "turn %d: only the last writer has it all", i)
		require.Len(t, c.run(c.data, mem.Read, 2, all), 2, "turn %d", i)
		require.Equal(t, turn.moved, c.land(turn.count), "turn %d", i)
	}
	require.NoError(t, c.p.SetContentSize(c.data, 0))
	require.Len(t, c.run(c.data, mem.Read, 2, all), 1, "without a count: what no count has carried")
	require.Equal(t, mem.Range{Start: 64, End: 64}, c.land(0))
	require.NoError(t, c.p.Release(c.size))
}

// A count whose parts are on two devices comes to the host in two steps.
func TestACountInPartsIsBroughtInParts(t *testing.T) {
	c := newCounting(t)
	c.run(c.data, mem.Write, 1, all)
	c.run(c.size, mem.Write, 1, mem.Range{End: 4})
	c.run(c.size, mem.Write, 2, mem.Range{Start: 4, End: 8})
	steps := c.run(c.data, mem.Read, 2, all)
	require.Len(t, steps, 3)
	require.Equal(t, []int{0, 1}, steps[2].Late.After)
	require.Equal(t, []mem.MemoryID{1, 2}, []mem.MemoryID{steps[0].From, steps[1].From})
}

func TestCheckFindsACountThatIsOneSided(t *testing.T) {
	c := newCounting(t)
	c.p.Unlink(c.size)
	require.ErrorContains(t, c.p.Check(), "does not know of it")
}

func TestSizeBuffersThatCannotBe(t *testing.T) {
	c := newCounting(t)
	small, err := c.p.Create(7, mem.MemorySet{})
	require.NoError(t, err)
	other, err := c.p.Create(8, mem.MemorySet{})
	require.NoError(t, err)
	gone, err := c.p.Create(8, mem.MemorySet{})
	require.NoError(t, err)
	require.NoError(t, c.p.Release(gone))
	for _, bad := range []struct {
		name     string
		id, size mem.BufferID
		want     error
	}{
		{"too small", other, small, mem.ErrInvalidSize},
		{"itself", other, other, mem.ErrInvalidValue},
		{"released", other, gone, mem.ErrInvalidBuffer},
		{"of a released buffer", gone, other, mem.ErrInvalidBuffer},
		{"a cycle", c.size, c.data, mem.ErrInvalidValue},
		{"of a size buffer", c.size, other, mem.ErrInvalidValue},
		{"has one itself", other, c.data, mem.ErrInvalidValue},
	} {
		require.ErrorIs(t, c.p.SetContentSize(bad.id, bad.size), bad.want, bad.name)
		require.NoError(t, c.p.Check(), bad.name)
	}
	require.ErrorIs(t, c.p.Release(c.size), mem.ErrInvalidOperation)
	require.NoError(t, c.p.SetContentSize(c.data, other))
	require.NoError(t, c.p.Release(c.size))
	require.NoError(t, c.p.Release(c.data))
	require.NoError(t, c.p.Release(other))
	require.NoError(t, c.p.Check())
}
