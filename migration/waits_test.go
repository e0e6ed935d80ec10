package migration

import (
	"errors"
	"fmt"
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

func TestAFailedWriterStaysUntilItsFailureIsTold(t *testing.T) {
	s := store{hazards: rangemap.Make(8, hazard{})}
	l := mem.NewTimeline("q", true, nil)
	at := l.Next()
	s.wrote(mem.Range{End: 8}, at, false, 0)
	failure := errors.New("no")
	l.End(at, failure)
	s.hazards.Update(mem.Range{End: 8}, s.retired)
	h := &s.hazards.Get(0).Value
	require.Equal(t, at, h.writer)
	var ix waitIndex
	require.Equal(t, []mem.Wait{{Point: at, Kind: mem.Data}}, s.data(nil, 0, h, &ix))
	require.Empty(t, s.order(nil, 0, h, &ix), "it has ended")
}
