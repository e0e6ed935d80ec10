package fuzz

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc"
	"godwit/mem"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/replay"
)

// Search is a search in one turn.
func Search(ctx context.Context, o Options) (*Finding, error) {
	s, err := Begin(o)
	if err == nil {
		_, err = s.Advance(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.Finish(ctx)
}

func TestAnyBytesExpressAValidStream(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		genome := rapid.SliceOf(rapid.Byte()).Draw(rt, "genome")
		limit := rapid.IntRange(1, 100).Draw(rt, "limit")
		ops := express(genome, limit)
		require.LessOrEqual(rt, len(ops), limit)
		st, err := stream(express(genome, limit))
		if len(ops) == 0 {
			require.ErrorIs(rt, err, mem.ErrInvalidValue)
			return
		}
		require.NoError(rt, err, "NewStream checks that frees follow allocations")
		require.Len(rt, st.Ops, len(ops))
		again, err := encode(ops)
		require.NoError(rt, err)
		require.Equal(rt, ops, express(again, limit), "what is encoded expresses the same")
		require.Equal(rt, ops, renumber(ops))
	})
}

func TestSizesCoverTheRange(t *testing.T) {
	seen := map[uint64]bool{}
	for hi := range 256 {
		for lo := range 256 {
			size := decodeSize(byte(hi), byte(lo))
			require.Positive(t, size)
			require.Less(t, size, uint64(1)<<sizeExponents)
			h, l := encodeSize(size)
			require.Equal(t, size, decodeSize(h, l))
			seen[size] = true
		}
	}
	for size := uint64(1); size <= 1<<mantissaBits; size++ {
		require.True(t, seen[size], "%d units", size)
	}
}

func TestTheSearchFindsWorseThanChance(t *testing.T) {
	for _, objective := range Objectives() {
		o := Options{Subject: replay.Of(bufalloc.Fit), Objective: objective, Seed: 1, Ops: 150, Evals: 250}
		f, err := Search(t.Context(), o)
		require.NoError(t, err)
		o.Blind = true
		chance := bestOf(t, o)
		t.Logf("%s: %.4f, by chance %.4f; %d operations of %d; overhead %.3f, offline x %.3f, Robson %.3f",
			objective, f.Score, chance, f.Ops, f.FoundOps, f.Overhead, f.Price, f.Robson)
		if objective == Overhead || objective == fragmentation {
			assert.Greater(t, f.Score, chance, objective)
		} else { // in so few operations Robson's programs, which chance draws from, are bad enough
			assert.Greater(t, f.Score, 0.8*chance, objective)
		}
		assert.GreaterOrEqual(t, f.Score, f.Found, "shrinking never makes it milder")
		assert.LessOrEqual(t, f.Ops, f.FoundOps)
		assert.GreaterOrEqual(t, f.Offline, f.PeakLive)
		assert.GreaterOrEqual(t, f.Overhead, f.Price)
		assert.Equal(t, o.Evals, f.Evals)
	}
}

func TestTheSameSeedGivesTheSameFinding(t *testing.T) {
	find := func(seed uint64) *Finding {
		f, err := Search(t.Context(), Options{Subject: replay.Of(bufalloc.PoCLTight), Objective: fragmentation, Seed: seed, Ops: 100, Evals: 300, Alone: true})
		require.NoError(t, err)
		f.WorstNS, f.ScanNS = 0, 0 // measured
		return f
	}
	a, b, c := find(5), find(5), find(6)
	assert.Equal(t, a, b)
	assert.NotEqual(t, a.Genome, c.Genome)
	// The same on every machine: PoCL's behaviour does not change under us.
	assert.Equal(t, "24ec75430b53da0", goldenOf(a))
}

func goldenOf(f *Finding) string {
	var sum uint64
	for _, op := range f.Stream.Ops {
		sum = sum*31 + op.Size + uint64(op.Slot)
	}
	return strconv.FormatUint(sum, 16)
}

func TestTheNumbersOfAFindingCanBeHadFromItsFiles(t *testing.T) {
	dir := t.TempDir()
	f, err := Search(t.Context(), Options{Subject: replay.Of(bufalloc.BestFit), Objective: Overhead, Seed: 3, Ops: 100, Evals: 200})
	require.NoError(t, err)
	require.NoError(t, f.Save(t.Context(), dir))
	all, err := formats.OpenAllocs(t.Context(), f.TraceFile)
	require.NoError(t, err)
	st, err := replay.FromTrace(all[0], unit)
	require.NoError(t, err)
	m, err := replay.MinRegion(t.Context(), st, replay.Of(bufalloc.BestFit))
	require.NoError(t, err)
	assert.Equal(t, f.MinRegion, m.Region)
	assert.Equal(t, f.PeakLive, st.PeakLive)

	entry, err := os.ReadFile(f.CorpusFile)
	require.NoError(t, err)
	assert.Contains(t, string(entry), "go test fuzz v1\n[]byte(\"")
	back, err := stream(express(f.Genome, 1<<20))
	require.NoError(t, err)
	assert.Equal(t, f.Stream.Ops, back.Ops)
	assert.Equal(t, filepath.Join(dir, "corpus", "FuzzStrategies", "bestfit-overhead-3"), f.CorpusFile)
}

func TestAStoppedSearchKeepsWhatItFound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	f, err := Search(ctx, Options{Subject: replay.Of(bufalloc.Fit), Objective: fragmentation, Seed: 1, Ops: 60, Evals: 1 << 30,
		Progress: func(float64) {
			if n++; n == 50 {
				cancel()
			}
		}})
	require.NoError(t, err)
	assert.True(t, f.Stopped)
	assert.Zero(t, f.Offline, "nobody waits for what an interrupted search could still do")
	assert.Equal(t, 50, f.Evals)
	assert.Positive(t, f.Score)
	require.NoError(t, f.Save(t.Context(), t.TempDir()))

	f, err = Search(ctx, Options{Subject: replay.Of(bufalloc.Fit), Objective: fragmentation})
	require.NoError(t, err)
	assert.True(t, f.Stopped)
	assert.Nil(t, f.Stream, "stopped before it began")
	require.NoError(t, f.Save(t.Context(), t.TempDir()))
	assert.Empty(t, f.TraceFile)
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{Objective: "other"}, {Objective: Overhead, Ops: -1}, {Objective: Overhead, Evals: -1},
		{Objective: Overhead, Ops: maxOps + 1},
	} {
		_, err := Search(t.Context(), o)
		require.ErrorIs(t, err, mem.ErrInvalidValue)
	}
	_, err := Search(t.Context(), Options{Subject: replay.Of(999), Objective: failure})
	require.Error(t, err)
}

func TestScansAreWhatSlowOpCounts(t *testing.T) {
	before, after := bufalloc.Stats{Holes: 7, Chunks: 5}, bufalloc.Stats{Holes: 7, Chunks: 5, Scans: 1, ScanSteps: 4}
	still, scanned := replay.Step{Op: replay.Op{Size: 1}, Before: before, After: before}, replay.Step{Op: replay.Op{Size: 1}, Before: before, After: after}
	assert.Equal(t, 5, cost(replay.Of(bufalloc.Fit), scanned))
	assert.Equal(t, 1, cost(replay.Of(bufalloc.Fit), still))
	assert.Equal(t, 4, cost(replay.Of(bufalloc.BestFit), still))
	assert.Equal(t, 5, cost(replay.Of(bufalloc.Tight), scanned), "its steps in the tree are counted")
	assert.Equal(t, 1, cost(replay.Of(bufalloc.Tight), replay.Step{Before: before, After: before}))
}

func TestRobsonsBound(t *testing.T) {
	assert.Zero(t, robsonBound(0, 1))
	assert.Equal(t, 100.0, robsonBound(100, 1), "chunks of one unit never fragment")
	assert.Equal(t, 100*(10/2.0+1)-1024+1, robsonBound(100, 1024))
}

func TestParseObjective(t *testing.T) {
	for _, o := range Objectives() {
		got, err := ParseObjective(string(o))
		require.NoError(t, err)
		assert.Equal(t, o, got)
	}
	_, err := ParseObjective("x")
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	assert.Contains(t, err.Error(), "slow-op")
}

// TestASearchThatTakesTurnsFindsTheSame: however it is divided, and what is asked for between.
func TestASearchThatTakesTurnsFindsTheSame(t *testing.T) {
	o := Options{Subject: replay.Of(bufalloc.BestFit), Objective: slowOp, Seed: 4, Ops: 80, Evals: 60}
	whole, err := Search(t.Context(), o)
	require.NoError(t, err)
	var now context.CancelFunc
	turn, n := 1, 0
	o.Progress = func(float64) {
		if n++; n == turn {
			now()
		}
	}
	s, err := Begin(o)
	require.NoError(t, err)
	for ended, last := false, 0.0; !ended; turn, n = turn+1, 0 {
		var ctx context.Context
		ctx, now = context.WithCancel(t.Context())
		ended, err = s.Advance(ctx)
		now()
		require.NoError(t, err)
		best, err := s.Best()
		require.NoError(t, err)
		if best == nil {
			continue
		}
		require.GreaterOrEqual(t, best.Score, last)
		score, err := s.score(t.Context(), best.Stream.Ops, 0)
		require.NoError(t, err)
		require.Equal(t, best.Score, score, "what is saved shows what it says")
		last = best.Score
	}
	require.Greater(t, turn, 5)
	divided, err := s.Finish(t.Context())
	require.NoError(t, err)
	require.Equal(t, whole.Genome, divided.Genome)
	require.Equal(t, []any{whole.Score, whole.Found, whole.Evals, whole.Stopped}, []any{divided.Score, divided.Found, divided.Evals, divided.Stopped})
}
