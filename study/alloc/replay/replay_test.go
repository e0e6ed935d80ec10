package replay

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc"
	"godwit/mem"
	"godwit/study/alloc/formats"
)

// open reads one of the committed traces.
func open(t testing.TB, file string, align uint64) *Stream {
	t.Helper()
	all, err := formats.OpenAllocs(t.Context(), filepath.Join("..", "..", "..", "testdata", "traces", file))
	require.NoError(t, err)
	st, err := FromTrace(all[0], align)
	require.NoError(t, err)
	return st
}

// Others have measured best fit on these files, by bisection; the search here
// also looks below what bisection finds.
func TestBestFitOnTheSharedTracesIsWhatOthersMeasured(t *testing.T) {
	for file, want := range map[string]struct {
		align    uint64
		overhead float64
	}{
		"minimalloc/A.1048576.csv": {1, 1.753},
		"minimalloc/B.1048576.csv": {1, 1.701},
		"minimalloc/C.1048576.csv": {1, 1.770},
		"minimalloc/D.1048576.csv": {1, 1.460},
		"minimalloc/E.1048576.csv": {1, 1.860},
		"resnet50-train.csv.gz":    {256, 1.020},
		"gpt2-train.csv.gz":        {256, 1.035},
	} {
		m, err := MinRegion(t.Context(), open(t, file, want.align), Of(bufalloc.BestFit))
		require.NoError(t, err)
		assert.True(t, m.Exhaustive)
		got := float64(m.Region) / float64(open(t, file, want.align).PeakLive)
		assert.InDelta(t, want.overhead, got, 0.016, file)
		assert.LessOrEqual(t, got, want.overhead+0.001, file)
	}
}

// draw makes a small stream.
func draw(t *rapid.T) *Stream {
	var b formats.AllocBuilder
	var live []uint64
	for i, n := 0, rapid.IntRange(1, 80).Draw(t, "n"); i < n; i++ {
		if len(live) > 0 && rapid.IntRange(0, 2).Draw(t, "free") == 0 {
			k := rapid.IntRange(0, len(live)-1).Draw(t, "k")
			b.Free(live[k], 0)
			live = append(live[:k], live[k+1:]...)
			continue
		}
		require.NoError(t, b.Alloc(uint64(i), rapid.Uint64Range(1, 5000).Draw(t, "size"), 0))
		live = append(live, uint64(i))
	}
	st, err := FromTrace(b.Build("drawn", formats.FormatGodwit), 1<<rapid.IntRange(0, 8).Draw(t, "align"))
	require.NoError(t, err)
	return st
}

// fails replays by hand, with no help from the package.
func fails(t require.TestingT, st *Stream, s bufalloc.Strategy, size uint64) bool {
	r, err := bufalloc.NewRegion(0, size, bufalloc.Options{Strategy: s, Granularity: st.Align})
	require.NoError(t, err)
	held := make(map[uint32]bufalloc.Chunk)
	for _, op := range st.Ops {
		if op.Size == 0 {
			require.NoError(t, r.Free(held[op.Slot]))
		} else if held[op.Slot], err = r.Alloc(op.Size, st.Align); err != nil {
			return true
		}
	}
	return false
}

func TestMinRegionIsTheFirstSizeOfTheGridThatWorks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := draw(rt)
		s := bufalloc.Strategies()[rapid.IntRange(0, len(bufalloc.Strategies())-1).Draw(rt, "strategy")]
		m, err := MinRegion(context.Background(), st, Of(s))
		require.NoError(rt, err)
		require.True(rt, m.Exhaustive)
		g := newGrid(st)
		k := 0
		for ; fails(rt, st, s, g.at(k)); k++ {
			require.LessOrEqual(rt, g.at(k), st.PeakLive*maxOverhead*2)
		}
		require.Equal(rt, g.at(k), m.Region, "%v", s)
		if m.FailingAbove > 0 {
			require.True(rt, fails(rt, st, s, m.FailingAbove))
			require.Greater(rt, m.FailingAbove, m.Region)
		}
		run, err := Replay(context.Background(), st, Of(s), m.Region)
		require.NoError(rt, err)
		require.Zero(rt, run.Failures)
		require.LessOrEqual(rt, run.HighWater, m.Region)
	})
}

func TestGridStepsAreAtMostATenthOfAPercentOrOneUnit(t *testing.T) {
	g := newGrid(&Stream{PeakLive: 256 * 700, Align: 256})
	for k := range 8000 {
		step := g.at(k+1) - g.at(k)
		require.Zero(t, g.at(k)%256)
		require.True(t, step == 256 || step*1000 <= g.at(k), "%d after %d", step, g.at(k))
	}
	assert.Greater(t, g.at(8000), uint64(256*700*maxOverhead))
}

func TestAStrategyThatNeverFitsIsSaid(t *testing.T) {
	var b formats.AllocBuilder
	for i := range uint64(1500) { // PoCL's limit is 1,023 chunks
		require.NoError(t, b.Alloc(i, 10, 0))
	}
	st, err := FromTrace(b.Build("many", formats.FormatGodwit), 1)
	require.NoError(t, err)
	res, err := Measure(t.Context(), []*Stream{st}, Strategies(bufalloc.PoCLTight, bufalloc.Fit), Options{Repeats: 1})
	require.NoError(t, err)
	assert.Zero(t, res[0].MinRegion)
	assert.Nil(t, res[0].Times)
	assert.Equal(t, st.PeakLive, res[1].MinRegion)
	means := Means(res)
	assert.Equal(t, 1, means[0].NeverFits)
	assert.InDelta(t, 1.0, float64(means[1].Overhead), 0)
}

func TestASearchOverBudgetSaysSoAndStillWorks(t *testing.T) {
	st := open(t, "minimalloc/A.1048576.csv", 1)
	m, err := minRegion(t.Context(), st, Of(bufalloc.Buddy), 100)
	require.NoError(t, err)
	assert.False(t, m.Exhaustive)
	assert.False(t, fails(t, st, bufalloc.Buddy, m.Region))
	full, err := MinRegion(t.Context(), st, Of(bufalloc.Buddy))
	require.NoError(t, err)
	assert.Less(t, full.Region, m.Region, "buddies fail above what works")
	assert.LessOrEqual(t, m.Least, full.Region, "what is known to fail does")
	assert.Equal(t, full.Region, full.Least)
}

func TestReplayInTooSmallARegionCountsFailuresAndGoesOn(t *testing.T) {
	var b formats.AllocBuilder
	require.NoError(t, b.Alloc(1, 60, 0))
	require.NoError(t, b.Alloc(2, 60, 0))
	require.True(t, b.Free(2, 0))
	require.True(t, b.Free(1, 0))
	require.NoError(t, b.Alloc(3, 100, 0))
	st, err := FromTrace(b.Build("x", formats.FormatGodwit), 1)
	require.NoError(t, err)
	run, err := Replay(t.Context(), st, Of(bufalloc.BestFit), 100)
	require.NoError(t, err)
	assert.Equal(t, 1, run.Failures)
	assert.Equal(t, 1, run.FirstFailure)
	assert.Len(t, run.Series, 5)
	assert.Equal(t, Point{Op: 4, Live: 100, HighWater: 100}, run.Series[4])
}

func TestMeasureIsTheSameForAnyNumberOfWorkers(t *testing.T) {
	var streams []*Stream
	for _, f := range []string{"A", "B", "C"} {
		streams = append(streams, open(t, "minimalloc/"+f+".1048576.csv", 1))
	}
	one, err := Measure(t.Context(), streams, Strategies(bufalloc.Strategies()...), Options{Workers: 1})
	require.NoError(t, err)
	done := make(chan struct{}, 100)
	four, err := Measure(t.Context(), streams, Strategies(bufalloc.Strategies()...), Options{Workers: 4, Progress: func() { done <- struct{}{} }})
	require.NoError(t, err)
	assert.Equal(t, one, four)
	assert.Len(t, done, len(one))
	fixed, err := Measure(t.Context(), streams[:1], Strategies(bufalloc.Strategies()[:1]...), Options{Region: 1 << 30, Repeats: 2})
	require.NoError(t, err)
	assert.Zero(t, fixed[0].MinRegion)
	assert.Positive(t, fixed[0].NSPerOp)
	assert.Positive(t, fixed[0].Worst.NS)
}

func TestTimesTellScansApart(t *testing.T) {
	st := open(t, "minimalloc/B.1048576.csv", 1)
	m, err := MinRegion(t.Context(), st, Of(bufalloc.Fit))
	require.NoError(t, err)
	for _, size := range []uint64{m.Region, 100 * m.Region} {
		run, err := Replay(t.Context(), st, Of(bufalloc.Fit), size)
		require.NoError(t, err)
		times, err := Time(t.Context(), st, Of(bufalloc.Fit), size, 2)
		require.NoError(t, err)
		assert.Equal(t, run.Scans > 0, times.Scan != nil)
	}
}

func TestCancelling(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	st := open(t, "minimalloc/A.1048576.csv", 1)
	_, err := MinRegion(ctx, st, Of(bufalloc.Fit))
	require.ErrorIs(t, err, context.Canceled)
	_, err = Replay(ctx, st, Of(bufalloc.Fit), 1<<30)
	require.ErrorIs(t, err, context.Canceled)
	_, err = Time(ctx, st, Of(bufalloc.Fit), 1<<30, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = Measure(ctx, []*Stream{st}, Strategies(bufalloc.Strategies()...), Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestStreamErrors(t *testing.T) {
	_, err := FromTrace(&formats.Allocs{Name: "empty"}, 1)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	var b formats.AllocBuilder
	require.NoError(t, b.Alloc(1, 1<<53, 0))
	huge := b.Build("huge", formats.FormatGodwit)
	_, err = FromTrace(huge, 1)
	require.ErrorIs(t, err, mem.ErrInvalidSize)
	_, err = FromTrace(huge, 3)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	for _, ops := range [][]Op{{{Size: 0}}, {{Size: 1}, {Size: 1}}, {{Size: 1, Slot: 7}}} {
		st := &Stream{Name: "bad", Align: 1, Slots: 1, Ops: ops}
		require.ErrorIs(t, st.seal(), mem.ErrInvalidValue)
	}
	_, err = MinRegion(t.Context(), &Stream{}, Of(bufalloc.Fit))
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	st := open(t, "minimalloc/A.1048576.csv", 1)
	_, err = Replay(t.Context(), st, Of(bufalloc.Strategy(99)), 1<<30)
	require.Error(t, err)
	_, err = Time(t.Context(), st, Of(bufalloc.Fit), 0, 1)
	require.ErrorIs(t, err, mem.ErrInvalidSize)
}

func TestAStreamBecomesTheTraceItCameFrom(t *testing.T) {
	st := open(t, "minimalloc/A.1048576.csv", 1)
	back, err := FromTrace(st.Trace(), 1)
	require.NoError(t, err)
	assert.Equal(t, st.Ops, back.Ops)
	peak, at := st.Trace().PeakLive()
	assert.Equal(t, []any{st.PeakLive, st.PeakAt}, []any{peak, at})
}

func TestMedian(t *testing.T) {
	assert.Zero(t, median(nil))
	assert.Equal(t, 2.0, median([]float64{3, 1, 2}))
	assert.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
}
