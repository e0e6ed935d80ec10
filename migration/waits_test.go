package migration

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// TestWaitListsHoldWhatIsNeededAndNoMore compares a list with its definition:
// every point asked for as Data is there as Data; every other is there as Order
// unless another one comes after it; nothing else is there, and nothing twice.
func TestWaitListsHoldWhatIsNeededAndNoMore(t *testing.T) {
	lines := make([]*mem.Timeline, 12)
	for i := range lines {
		lines[i] = mem.NewTimeline(fmt.Sprint("q", i), i%3 > 0, nil) // names tell them apart in deep comparisons
		for range 12 {
			lines[i].Next()
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		asked := map[mem.Point]mem.WaitKind{}
		var ix waitIndex
		ix.reset()
		base := rapid.IntRange(0, 3).Draw(t, "base")
		list := make([]mem.Wait, base)
		for range rapid.IntRange(1, 120).Draw(t, "n") {
			w := mem.Wait{Point: mem.Point{
				Line: lines[rapid.IntRange(0, len(lines)-1).Draw(t, "line")],
				Seq:  rapid.Uint64Range(1, 12).Draw(t, "seq"),
			}}
			if rapid.IntRange(0, 3).Draw(t, "data") == 0 {
				w.Kind = mem.Data
			}
			asked[w.Point] = max(asked[w.Point], w.Kind)
			list = ix.add(list, base, w)
		}
		got := map[mem.Point]mem.WaitKind{}
		for _, w := range list[base:] {
			require.NotContains(t, got, w.Point, "twice")
			got[w.Point] = w.Kind
		}
		want := map[mem.Point]mem.WaitKind{}
		for p, kind := range asked {
			covered := false
			for q := range asked {
				covered = covered || p != q && p.Before(q)
			}
			if kind == mem.Data || !covered {
				want[p] = kind
			}
		}
		require.Equal(t, want, got)
	})
}

// TestReadersEqualASet adds readers to random ranges, ends some, and compares
// what a writer of each byte would wait for with a set of points.
func TestReadersEqualASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 16
		s := store{hazards: rangemap.Make(size, hazard{})}
		lines := []*mem.Timeline{mem.NewTimeline("a", true, nil), mem.NewTimeline("b", true, nil), mem.NewTimeline("c", true, nil), mem.NewTimeline("d", false, nil)}
		var readers [size][]mem.Point
		var writer [size]mem.Point
		var open []mem.Point
		for range rapid.IntRange(1, 150).Draw(t, "n") {
			r := mem.Range{Start: rapid.Uint64Range(0, size-1).Draw(t, "start")}
			r.End = rapid.Uint64Range(r.Start+1, size).Draw(t, "end")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				at := lines[3].Next()
				s.wrote(r, at, false, 0)
				for i := r.Start; i < r.End; i++ {
					readers[i], writer[i] = nil, at
				}
				open = append(open, at)
			case 1, 2, 3:
				if len(open) > 0 { // the oldest of a line, as an in-order queue would
					at := open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
					i := slices.IndexFunc(open, func(p mem.Point) bool { return p.Line == at.Line })
					open[i].Line.End(open[i], nil)
					open = slices.Delete(open, i, i+1)
				}
			default:
				at := lines[rapid.IntRange(0, 3).Draw(t, "line")].Next()
				s.read(r, at)
				for i := r.Start; i < r.End; i++ {
					readers[i] = append(readers[i], at)
				}
				open = append(open, at)
			}
			require.NoError(t, s.check())
			for i := range uint64(size) {
				require.ElementsMatch(t, waitsFor(writer[i], readers[i]), waitsOf(&s, i), "byte %d", i)
			}
		}
	})
}

func waitsOf(s *store, off uint64) []mem.Wait {
	var ix waitIndex
	return s.order(nil, 0, s.hazards.Seek(off).Ref(), &ix)
}

// waitsFor is the definition of what waitsOf should find.
func waitsFor(writer mem.Point, readers []mem.Point) (out []mem.Wait) {
	all := append([]mem.Point{writer}, readers...)
	for _, p := range all {
		later := slices.ContainsFunc(all, func(q mem.Point) bool { return q != p && !q.Reached() && p.Before(q) })
		if !p.Reached() && !later {
			out = append(out, mem.Wait{Point: p})
		}
	}
	return out
}

func TestAFailedWriterStaysUntilItsFailureIsTold(t *testing.T) {
	s := store{hazards: rangemap.Make(8, hazard{})}
	l := mem.NewTimeline("q", true, nil)
	at := l.Next()
	s.wrote(mem.Range{End: 8}, at, false, 0)
	failure := errors.New("no")
	l.End(at, failure)
	s.hazards.Update(mem.Range{End: 8}, s.retired)
	require.Equal(t, at, s.hazards.Seek(0).Ref().writer)
	var ix waitIndex
	require.Equal(t, []mem.Wait{{Point: at, Kind: mem.Data}}, s.data(nil, 0, s.hazards.Seek(0).Ref(), &ix))
	require.Empty(t, s.order(nil, 0, s.hazards.Seek(0).Ref(), &ix), "it has ended")
}
