package migration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/migration"
)

func TestBadAccessesAreRefusedAndChangeNothing(t *testing.T) {
	p := migration.New(mem.NewTopology("a", "b"), migration.Options{})
	id, err := p.Create(100, mem.SetOf(1))
	require.NoError(t, err)
	gone, err := p.Create(10, mem.MemorySet{})
	require.NoError(t, err)
	require.NoError(t, p.Release(gone))
	second, err := p.Create(100, mem.MemorySet{})
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		accs []mem.Access
		want error
		text string
	}{
		{"an ID that was never given", []mem.Access{use(mem.Read, 7<<32|9, 0, 1, 1)}, mem.ErrInvalidBuffer, "buffer 9.7"},
		{"a released buffer", []mem.Access{use(mem.Read, gone, 0, 1, 1)}, mem.ErrInvalidBuffer, "access 0: buffer 1"},
		{"the zero ID", []mem.Access{use(mem.Read, 0, 0, 1, 1)}, mem.ErrInvalidBuffer, "released, or never created"},
		{"no bytes", []mem.Access{use(mem.Read, id, 5, 5, 1)}, mem.ErrInvalidValue, "[5,5)"},
		{"an inverted range", []mem.Access{use(mem.Read, id, 6, 5, 1)}, mem.ErrInvalidValue, "[6,5)"},
		{"past the end", []mem.Access{use(mem.Read, id, 0, 100, 2), use(mem.Read, id, 99, 101, 1)}, mem.ErrInvalidValue, "access 1 of buffer 0: range [99,101) reaches past the end of its 100 bytes"},
		{"no such memory", []mem.Access{use(mem.Read, id, 0, 1, 3)}, mem.ErrInvalidValue, "memory 3: this topology has memories 0 to 2"},
		{"no such mode", []mem.Access{use(9, id, 0, 1, 1)}, mem.ErrInvalidValue, "Mode(9)"},
		{"one byte written on two memories", []mem.Access{use(mem.Write, id, 0, 50, 1), use(mem.ReadWrite, id, 49, 60, 2)}, mem.ErrInvalidOperation, "bytes [49,50) are written on memories 1 and 2"},
		{"one byte of the second buffer", []mem.Access{use(mem.Write, id, 0, 100, 1), use(mem.Write, second, 0, 10, 1), use(mem.Write, second, 5, 15, 2)}, mem.ErrInvalidOperation, "bytes [5,10) are written on memories 1 and 2"},
		{"one byte behind a shorter write", []mem.Access{use(mem.Write, id, 0, 20, 1), use(mem.Write, id, 30, 40, 1), use(mem.Write, id, 39, 50, 2)}, mem.ErrInvalidOperation, "bytes [39,40) are written on memories 1 and 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := migration.Plan{}
			before, err := p.Segments(id)
			require.NoError(t, err)
			err = p.Plan(&plan, c.accs)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
			require.Empty(t, plan.Steps)
			require.Empty(t, plan.Storage)
			after, err := p.Segments(id)
			require.NoError(t, err)
			require.Equal(t, before, after)
			require.NoError(t, p.Check())
		})
	}
}

func TestBuffersOfNoSizeOrOnNoMemoryAreRefused(t *testing.T) {
	p := migration.New(mem.NewTopology("a"), migration.Options{})
	_, err := p.Create(0, mem.MemorySet{})
	require.ErrorIs(t, err, mem.ErrInvalidSize)
	_, err = p.Create(10, mem.SetOf(1, 2))
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.Zero(t, p.Stats().Buffers)
	require.ErrorIs(t, p.Release(0), mem.ErrInvalidBuffer)
	require.ErrorIs(t, p.Stored(migration.Want{Buffer: 1 << 32, Memory: 0}, mem.Plain), mem.ErrInvalidBuffer)
	require.Empty(t, p.Points(nil, 1<<32, 0, everything))
	require.True(t, p.Stores(1<<32).Empty())
}

func TestTheOnlyCopyCannotBeGivenUp(t *testing.T) {
	p := migration.New(mem.NewTopology("a", "b"), migration.Options{})
	id, err := p.Create(10, mem.SetOf(1))
	require.NoError(t, err)
	require.ErrorIs(t, p.Unstored(migration.Want{Buffer: id, Memory: 1}), mem.ErrInvalidOperation)
	require.NoError(t, p.Stored(migration.Want{Buffer: id, Memory: 2}, mem.Plain))
	require.Equal(t, mem.SetOf(1, 2), p.Stores(id))
	require.NoError(t, p.Unstored(migration.Want{Buffer: id, Memory: 2}), "nothing was there")
	require.NoError(t, p.Unstored(migration.Want{Buffer: id, Memory: 2}), "again")
	require.ErrorIs(t, p.Unstored(migration.Want{Buffer: id, Memory: 9}), mem.ErrInvalidValue)
	require.NoError(t, p.Check())
}

func TestCommittingAPlanThatWasOvertakenPanics(t *testing.T) {
	p := migration.New(mem.NewTopology("a"), migration.Options{})
	id, err := p.Create(10, mem.SetOf(1))
	require.NoError(t, err)
	q := mem.NewTimeline("q", true, nil)
	var first, second migration.Plan
	accs := []mem.Access{use(mem.ReadWrite, id, 0, 10, 1)}
	require.NoError(t, p.Plan(&first, accs))
	require.NoError(t, p.Plan(&second, accs))
	p.Commit(&second, q.Next())
	require.Panics(t, func() { p.Commit(&first, q.Next()) })
	require.Panics(t, func() { p.Commit(&second, q.Next()) }, "twice")
}

func TestStorageNeverToldIsFoundByCheck(t *testing.T) {
	p := migration.New(mem.NewTopology("a"), migration.Options{})
	id, err := p.Create(10, mem.MemorySet{})
	require.NoError(t, err)
	var plan migration.Plan
	require.NoError(t, p.Plan(&plan, []mem.Access{use(mem.Write, id, 0, 10, 1)}))
	p.Commit(&plan, mem.NewTimeline("q", true, nil).Next())
	require.ErrorContains(t, p.Check(), "where there is no storage")
}

func TestPlanAndCommitInSteadyStateAllocateNothing(t *testing.T) {
	p := migration.New(mem.NewTopology("a", "b", "c"), migration.Options{})
	copies, queues := mem.NewTimeline("copies", false, nil), make([]*mem.Timeline, 6)
	for i := range queues {
		queues[i] = mem.NewTimeline("q", i%2 == 0, nil)
	}
	id, err := p.Create(1<<16, mem.SetOf(mem.Host, 1, 2, 3))
	require.NoError(t, err)
	var plan migration.Plan
	var open []mem.Point
	accs := make([]mem.Access, 2)
	i := uint64(0)
	round := func() {
		for range 50 {
			i++
			at := i * 7919 % (1 << 15)
			accs[0] = use(mem.Mode(i%7/3), id, at, at+1<<10, mem.MemoryID(i%4))
			accs[1] = use(mem.Read, id, at/2, at/2+100, accs[0].Memory)
			if err := p.Plan(&plan, accs); err != nil {
				panic(err)
			}
			for k := range plan.Steps {
				open = append(open, copies.Next())
				p.CommitStep(&plan, k, open[len(open)-1])
			}
			open = append(open, queues[i%6].Next())
			p.Commit(&plan, open[len(open)-1])
		}
		for _, at := range open {
			at.Line.End(at, nil)
		}
		open = open[:0]
		p.Retire()
	}
	for range 80 {
		round()
	}
	require.NoError(t, p.Check())
	require.Less(t, testing.AllocsPerRun(20, round), 1.0)
}

func TestAWriterWaitsOnceForEachOfVeryManyReaders(t *testing.T) {
	p := migration.New(mem.NewTopology("a"), migration.Options{})
	id, err := p.Create(100, mem.SetOf(1))
	require.NoError(t, err)
	ooo := mem.NewTimeline("ooo", false, nil)
	var plan migration.Plan
	want := map[mem.Point]bool{}
	for i := range uint64(2000) {
		require.NoError(t, p.Plan(&plan, []mem.Access{use(mem.Read, id, i%50, i%50+50, 1)}))
		at := ooo.Next()
		want[at] = true
		p.Commit(&plan, at)
	}
	require.NoError(t, p.Check())
	require.NoError(t, p.Plan(&plan, []mem.Access{use(mem.Write, id, 0, 100, 1)}))
	require.Len(t, plan.Waits, 2000)
	for _, w := range plan.Waits {
		require.True(t, want[w.Point])
		delete(want, w.Point)
	}
}

// TestStateIsBoundedByWhatIsOutstanding uses ever different ranges of a buffer
// while few points are open at a time: what is remembered does not grow.
func TestStateIsBoundedByWhatIsOutstanding(t *testing.T) {
	p := migration.New(mem.NewTopology("a"), migration.Options{})
	const size, open = 1 << 20, 8
	id, err := p.Create(size, mem.SetOf(1))
	require.NoError(t, err)
	q := mem.NewTimeline("q", false, nil)
	var plan migration.Plan
	most := 0
	for i := range uint64(20_000) {
		at := i * 7919 % (size - 64)
		require.NoError(t, p.Plan(&plan, []mem.Access{use(mem.Read, id, at, at+64, 1)}))
		p.Commit(&plan, q.Next())
		if i >= open {
			q.End(mem.Point{Line: q, Seq: i + 1 - open}, nil)
		}
		if i%100 == 0 {
			rows, err := p.Hazards(id, 1)
			require.NoError(t, err)
			most = max(most, len(rows))
		}
	}
	require.NoError(t, p.Check())
	require.Less(t, most, 8*open)
}
