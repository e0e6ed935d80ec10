package mover_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/mover"
	"godwit/mem"
)

// yields has a transfer give way, for the commands of a timeline.
func (f *fabric) yields(of *mem.Timeline, way mem.Way, from int, to []int, waits ...mem.Wait) []mem.Point {
	t := mover.Transfer{Way: way, From: f.ends[from], Size: blockSize, For: of, Waits: waits, Points: make([]mem.Point, len(to))}
	for _, i := range to {
		t.To = append(t.To, f.ends[i])
	}
	require.NoError(f.t, f.m.Move(&t))
	return t.Points
}

// TestWhatGivesWayGoesInPiecesByEveryWay, also where queues are to be flushed, and from one destination to the next.
func TestWhatGivesWayGoesInPiecesByEveryWay(t *testing.T) {
	for _, kinds := range [][]string{{"host", "tce", "tce", "tce"}, {"host", "lazy", "lazy", "lazy"}, {"host", "bus", "bus", "bus2"}} {
		f := newFabric(t, mover.Options{Chunk: 64 << 10, Budget: 4 << 20}, kinds...)
		want := pattern(1)
		f.write(0, want)
		of, held := mem.NewTimeline("of", true, nil), mem.NewTimeline("held", true, nil)
		gate := held.Next()
		out := f.yields(of, mem.Direct, 0, []int{1}, mem.Wait{Point: gate, Kind: mem.Data})
		out = append(out, f.yields(of, mem.Ring, 1, []int{2, 3}, mem.Wait{Point: out[0], Kind: mem.Data})...)
		before := f.m.Stats().Legs
		held.End(gate, nil)
		for i, p := range out {
			require.NoError(t, p.WaitPassed(ctx), kinds)
			require.True(t, bytes.Equal(want, f.read(i+1)), "%v: destination %d", kinds, i)
		}
		require.GreaterOrEqual(t, f.m.Stats().Legs-before, uint64(blockSize/(32<<10)), kinds)
		require.EqualValues(t, 2, f.m.Stats().Yielded)
	}
}

// TestWhatIsRaisedGoesAtOnce, with what it waits for.
func TestWhatIsRaisedGoesAtOnce(t *testing.T) {
	for _, byLine := range []bool{false, true} {
		f := newFabric(t, mover.Options{Chunk: 8 << 10}, "host", "tce", "tce")
		of, held := mem.NewTimeline("of", true, nil), mem.NewTimeline("held", true, nil)
		gate := held.Next()
		first := f.yields(of, mem.Direct, 0, []int{1}, mem.Wait{Point: gate, Kind: mem.Order})[0]
		second := f.yields(mem.NewTimeline("other", true, nil), mem.Direct, 1, []int{0}, mem.Wait{Point: first, Kind: mem.Order})[0]
		f.m.Raise(gate) // of nobody
		if byLine {
			f.m.Raise(of.Next())
		}
		f.m.Raise(second)
		before := f.m.Stats().Legs
		held.End(gate, nil)
		require.NoError(t, second.Wait(ctx))
		require.EqualValues(t, 2, f.m.Stats().Legs-before)
	}
}

// TestAPieceThatFailsFailsItsDestination, and no other; a failure before it all; an abort what has not begun.
func TestAPieceThatFailsFailsItsDestination(t *testing.T) {
	f := newFabric(t, mover.Options{Chunk: 8 << 10, Budget: 4 << 20}, "host", "tce", "tce")
	of, held := mem.NewTimeline("of", true, nil), mem.NewTimeline("held", true, nil)
	f.write(0, pattern(2))
	gate := held.Next()
	out := f.yields(of, mem.Direct, 0, []int{1, 2}, mem.Wait{Point: gate, Kind: mem.Data})
	f.submits.Fail(10)
	held.End(gate, nil)
	var failed int
	for i, p := range out {
		if err := p.Wait(ctx); err != nil {
			failed++
			continue
		}
		require.True(t, bytes.Equal(pattern(2), f.read(i+1)))
	}
	require.Equal(t, 1, failed)

	gate = held.Next()
	out = f.yields(of, mem.Direct, 0, []int{1, 2}, mem.Wait{Point: gate, Kind: mem.Data})
	held.End(gate, errTest)
	for _, p := range out {
		require.ErrorIs(t, p.Wait(ctx), errTest)
	}
	gate = held.Next()
	out = f.yields(of, mem.Direct, 0, []int{1}, mem.Wait{Point: gate, Kind: mem.Data})
	f.m.Abort(errTest)
	held.End(gate, nil)
	require.ErrorIs(t, out[0].Wait(ctx), errTest)
}
