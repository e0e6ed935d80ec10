package migration_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/eviction"
	"godwit/mem"
	"godwit/migration"
)

const kib = 1 << 10

// parts is a planner with a buffer that is stored by range, on two devices.
func parts(t testing.TB, size uint64) (*migration.Planner, mem.BufferID) {
	p := migration.New(mem.NewTopology("gpu0", "gpu1"), migration.Options{})
	id, err := p.Create(size, mem.MemorySet{})
	require.NoError(t, err)
	require.NoError(t, p.ByRange(id, 512))
	return p, id
}

func at(id mem.BufferID, m mem.MemoryID, from, to uint64) migration.Span {
	return migration.Span{Buffer: id, Memory: m, Range: mem.Range{Start: from, End: to}}
}

func access(s migration.Span, mode mem.Mode) mem.Access {
	return mem.Access{Buffer: s.Buffer, Memory: s.Memory, Range: s.Range, Mode: mode}
}

// write plans and commits a write of a span, exchanging blocks as the runtime does. It
// returns the wants.
func write(t testing.TB, p *migration.Planner, s migration.Span, line *mem.Timeline) []migration.Want {
	var plan, copies migration.Plan
	require.NoError(t, p.Plan(&plan, []mem.Access{access(s, mem.Write)}, s))
	wants := append([]migration.Want(nil), plan.Storage...)
	for i := range wants {
		w := &wants[i]
		if !p.Exchanges(w) {
			require.NoError(t, p.Stored(*w, mem.Plain))
			continue
		}
		var ev migration.Eviction
		require.True(t, p.Leaves(&ev, w, roomy{}))
		for k := range ev.Backs.Storage {
			require.NoError(t, p.Stored(ev.Backs.Storage[k], mem.Plain))
		}
		for k := range ev.Backs.Steps {
			p.CommitStep(&ev.Backs, k, line.Next())
		}
		for k := range ev.Victims {
			p.Evicted(&ev.Victims[k])
		}
		p.Regrow(&copies, w, nil)
		var points []mem.Point
		for k := range copies.Steps {
			points = append(points, line.Next())
			p.CommitStep(&copies, k, points[k])
		}
		p.Regrown(w, mem.Plain, &copies, points)
	}
	require.NoError(t, p.Check())
	require.NoError(t, p.Plan(&plan, []mem.Access{access(s, mem.Write)}, s))
	require.Empty(t, plan.Storage)
	p.Commit(&plan, line.Next())
	require.NoError(t, p.Check())
	return wants
}

// roomy is room without end.
type roomy struct{}

func (roomy) Fits(mem.MemoryID, []migration.Victim) bool                { return true }
func (roomy) Takes(mem.MemoryID, []migration.Want, migration.Want) bool { return true }
func (roomy) Stays(migration.Victim, []migration.Victim) eviction.Why   { return eviction.Goes }
func (roomy) Hangs(mem.Point) eviction.Why                              { return eviction.Goes }

// What is wanted: before, request, after.
func TestWhatBlockIsWanted(t *testing.T) {
	for _, tc := range []struct {
		name string
		have [][2]uint64
		span [2]uint64
		want [][2]uint64 // of the one new block; none where one covers the span
		left [][2]uint64
	}{
		{"the first", nil, [2]uint64{0, 4 * kib}, [][2]uint64{{0, 4 * kib}}, [][2]uint64{{0, 4 * kib}}},
		{"ends are rounded out", nil, [2]uint64{700, 4097}, [][2]uint64{{512, 4608}}, [][2]uint64{{512, 4608}}},
		{"not past the end", nil, [2]uint64{0, 99_999}, [][2]uint64{{0, 99_999}}, [][2]uint64{{0, 99_999}}},
		{"inside", [][2]uint64{{0, 4 * kib}}, [2]uint64{512, 1024}, nil, [][2]uint64{{0, 4 * kib}}},
		{"beside", [][2]uint64{{0, 4 * kib}}, [2]uint64{4 * kib, 8 * kib}, [][2]uint64{{4 * kib, 8 * kib}}, [][2]uint64{{0, 4 * kib}, {4 * kib, 8 * kib}}},
		{"over the end", [][2]uint64{{0, 4 * kib}}, [2]uint64{2 * kib, 6 * kib}, [][2]uint64{{0, 6 * kib}}, [][2]uint64{{0, 6 * kib}}},
		{"over two", [][2]uint64{{0, 4 * kib}, {8 * kib, 12 * kib}}, [2]uint64{2 * kib, 9 * kib}, [][2]uint64{{0, 12 * kib}}, [][2]uint64{{0, 12 * kib}}},
		{"around one", [][2]uint64{{4 * kib, 8 * kib}}, [2]uint64{0, 16 * kib}, [][2]uint64{{0, 16 * kib}}, [][2]uint64{{0, 16 * kib}}},
		{"what was kept in vain goes", [][2]uint64{{0, 4 * kib}, {2 * kib, 6 * kib}}, [2]uint64{4 * kib, 8 * kib}, [][2]uint64{{4 * kib, 8 * kib}}, [][2]uint64{{4 * kib, 8 * kib}}},
		{"what was used again stays", [][2]uint64{{0, 4 * kib}, {2 * kib, 6 * kib}, {0, 1 * kib}}, [2]uint64{4 * kib, 8 * kib}, [][2]uint64{{0, 8 * kib}}, [][2]uint64{{0, 8 * kib}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, id := parts(t, 99_999)
			line := mem.NewTimeline("q", true, nil)
			for _, r := range tc.have {
				write(t, p, at(id, 1, r[0], r[1]), line)
			}
			var got [][2]uint64
			for _, w := range write(t, p, at(id, 1, tc.span[0], tc.span[1]), line) {
				got = append(got, [2]uint64{w.Range.Start, w.Range.End})
			}
			require.Equal(t, tc.want, got)
			var left [][2]uint64
			for _, r := range p.Blocks(nil, id, 1) {
				left = append(left, [2]uint64{r.Start, r.End})
			}
			require.Equal(t, tc.left, left)
		})
	}
}

// Who used an old block is nobody to those who use the new one, but for the copy: it is
// the writer of what was valid, and the rest has none.
func TestANewBlockHasHazardsOfItsOwn(t *testing.T) {
	p, id := parts(t, 64*kib)
	line := mem.NewTimeline("q", false, nil)
	write(t, p, at(id, 1, 0, 4*kib), line)
	old := line.Last()
	var plan, copies migration.Plan
	s := at(id, 1, 2*kib, 8*kib)
	require.NoError(t, p.Plan(&plan, []mem.Access{access(s, mem.Read)}, s))
	w := plan.Storage[0]
	before, other := line.Next(), line.Next()
	p.Regrow(&copies, &w, []mem.Point{before})
	require.Len(t, copies.Steps, 1)
	require.Equal(t, []mem.Wait{{Point: old, Kind: mem.Data}, {Point: before}}, copies.Steps[0].Waits)
	p.CommitStep(&copies, 0, other)
	require.ElementsMatch(t, []mem.Point{old, other}, p.Points(nil, id, 1, everything), "the old block is free after both")
	p.Regrown(&w, mem.Plain, &copies, []mem.Point{other}, before)
	rows, err := p.Hazards(id, 1)
	require.NoError(t, err)
	require.Equal(t, []migration.Hazard{
		{Range: mem.Range{End: 4 * kib}, Writer: other, Step: true},
		{Range: mem.Range{Start: 4 * kib, End: 8 * kib}, Readers: []mem.Point{before}},
		{Range: mem.Range{Start: 8 * kib, End: 64 * kib}},
	}, rows)
	require.NoError(t, p.Check())
	require.NoError(t, p.Plan(&plan, []mem.Access{access(at(id, 1, 4*kib, 8*kib), mem.Read)}))
	require.Equal(t, []mem.Wait{{Point: before}}, plan.Waits, "a reader of what is not there, too")
	// A copy that fails takes with it what only this memory has.
	p.Fail(other, nil)
	require.ErrorIs(t, p.Plan(&plan, []mem.Access{access(at(id, 1, 0, 8), mem.Read)}), mem.ErrPoisoned)
	require.NoError(t, p.Check())
}

// BenchmarkPlanOfOneOfManyBlocks plans, and plans and commits, a command that touches one block of a
// buffer of 100,000.
func BenchmarkPlanOfOneOfManyBlocks(b *testing.B) {
	const n, size = 100_000, 1024
	p, id := parts(b, n*size)
	queue := newPrompt("queue")
	var plan migration.Plan
	for i := range uint64(n) {
		s := at(id, 1, i*size, (i+1)*size)
		if err := p.Plan(&plan, []mem.Access{access(s, mem.Write)}, s); err != nil {
			b.Fatal(err)
		}
		if err := p.Stored(plan.Storage[0], mem.Plain); err != nil {
			b.Fatal(err)
		}
		p.Commit(&plan, queue.point())
	}
	accs, spans := make([]mem.Access, 1), make([]migration.Span, 1)
	for _, commit := range []bool{false, true} {
		b.Run(fmt.Sprintf("commit=%v", commit), func(b *testing.B) {
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i = (i*1664525 + 1013904223) % n
				spans[0] = at(id, 1, i*size, (i+1)*size)
				accs[0] = access(spans[0], mem.ReadWrite)
				if err := p.Plan(&plan, accs, spans...); err != nil {
					b.Fatal(err)
				}
				if commit {
					p.Commit(&plan, queue.point())
				}
			}
		})
	}
}

// Accesses that overlap are planned as what each byte is used for, but each needs one block
// for what it was.
func TestAccessesThatAreCombinedWantABlockForWhatEachWas(t *testing.T) {
	p, id := parts(t, 16*kib)
	line := mem.NewTimeline("q", true, nil)
	for _, r := range [][2]uint64{{0, 2 * kib}, {2 * kib, 4 * kib}, {4 * kib, 8 * kib}, {8 * kib, 12 * kib}} {
		write(t, p, at(id, 1, r[0], r[1]), line)
	}
	var plan migration.Plan
	wants := func(accs ...mem.Access) []migration.Want {
		require.NoError(t, p.Plan(&plan, accs))
		return plan.Storage
	}
	all, middle := access(at(id, 1, 0, 8*kib), mem.Read), access(at(id, 1, 2*kib, 4*kib), mem.Write)
	want := []migration.Want{{Buffer: id, Memory: 1, Range: mem.Range{End: 8 * kib}, Span: mem.Range{End: 8 * kib}}}
	require.Equal(t, want, wants(all, middle))
	require.Equal(t, want, wants(middle, all))
	require.Equal(t, want, wants(all, access(at(id, 1, 8*kib, 12*kib), mem.Write)))
	require.Empty(t, wants(middle, access(at(id, 1, 2*kib, 3*kib), mem.Read), access(at(id, 1, 8*kib, 12*kib), mem.Write)))
}

// Three buffers of 2^63-1 bytes, of each of which a block is stored, would take more than
// can be said.
func TestAFootprintDoesNotWrap(t *testing.T) {
	const size = math.MaxInt64
	p := migration.New(mem.NewTopology("gpu0"), migration.Options{})
	line := mem.NewTimeline("q", true, nil)
	var all []mem.BufferID
	for range 3 {
		id, err := p.Create(size, mem.MemorySet{})
		require.NoError(t, err)
		require.NoError(t, p.ByRange(id, 512))
		all = append(all, id)
		write(t, p, at(id, 1, 0, 512), line)
	}
	require.Equal(t, migration.Footprint{Now: 3 * 512, Peak: 3 * 512, Whole: math.MaxUint64, WholePeak: math.MaxUint64}, p.Footprint(1))
	for i, id := range all {
		require.NoError(t, p.Release(id))
		require.Equal(t, []uint64{2 * size, size, 0}[i], p.Footprint(1).Whole)
	}
	require.EqualValues(t, uint64(math.MaxUint64), p.Footprint(1).WholePeak)
}

// TestABlockThatLeftComesAgainAsWide: what grew before it left is not grown anew, unless much less of it is needed or a part is there.
func TestABlockThatLeftComesAgainAsWide(t *testing.T) {
	p := migration.New(mem.NewTopology("gpu0"), migration.Options{})
	id, err := p.Create(4096, mem.SetOf(mem.Host))
	require.NoError(t, err)
	require.NoError(t, p.ByRange(id, 128))
	want := func(from, to uint64) migration.Want {
		r := mem.Range{Start: from, End: to}
		return migration.Want{Buffer: id, Memory: 1, Range: r, Span: r}
	}
	w := want(0, 1024)
	require.False(t, p.Again(&w), "nothing has left")
	require.NoError(t, p.Stored(want(0, 2048), mem.Plain))
	p.Evicted(&migration.Victim{Candidate: eviction.Candidate{Buffer: id, Memory: 1, Range: mem.Range{End: 2048}}})
	require.True(t, p.Again(&w))
	require.Equal(t, mem.Range{End: 2048}, w.Range)
	for _, no := range []migration.Want{want(0, 896), want(0, 2048), want(1024, 2176)} {
		was := no
		require.False(t, p.Again(&no))
		require.Equal(t, was, no)
	}
	require.NoError(t, p.Stored(want(1920, 2048), mem.Plain))
	w = want(0, 1024)
	require.False(t, p.Again(&w), "a part of it is there")
	require.NoError(t, p.Release(id))
	id, err = p.Create(1500, mem.SetOf(mem.Host))
	require.NoError(t, err)
	require.NoError(t, p.ByRange(id, 128))
	w = want(0, 1024)
	require.False(t, p.Again(&w), "another buffer in its slot: it was one of 2048 bytes")
}
