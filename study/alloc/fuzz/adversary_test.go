package fuzz

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/internal/input"
	"godwit/mem"
	"godwit/study/alloc/replay"
)

// worst is the best score of an adversary's plays in the rooms it has.
func worst(t *testing.T, s bufalloc.Strategy, limit int, which ...int) float64 {
	most := 0.0
	for _, k := range which {
		ops, err := play(t.Context(), replay.Of(s), challenges[k].play, limit, challenges[k].room(limit), nil)
		require.NoError(t, err)
		require.LessOrEqual(t, len(ops), limit+1)
		st, err := stream(ops)
		require.NoError(t, err)
		score, err := judge(t.Context(), Overhead, replay.Of(s), st, 0)
		require.NoError(t, err)
		most = max(most, score)
	}
	return most
}

func TestRobsonsProgramReachesHisBound(t *testing.T) {
	peak, steps := robsonSize(400)
	bound := robsonBound(peak, 1<<steps) / float64(peak)
	assert.InDelta(t, 3.508, bound, 0.001)
	for _, s := range []bufalloc.Strategy{bufalloc.Fit, bufalloc.BestFit, bufalloc.Tight} {
		assert.GreaterOrEqual(t, worst(t, s, 400, 0, 1), bound, "%v", s)
	}
}

func TestBestFitHasAWorseCaseOfItsOwn(t *testing.T) {
	best := worst(t, bufalloc.BestFit, 150, 2)
	t.Logf("bestfit: %.2f with 150 operations", best)
	assert.Greater(t, best, 10.0)
	assert.Less(t, worst(t, bufalloc.Tight, 150, 2), 2.5, "first fit is not what it is for")
}

// Fit takes the smallest hole for small requests, but none above its roof while a lower one
// holds them: best fit's worst case is none of its, with a floor below that raises the roof
// or without, and Robson's bound is what is left.
func TestFitHasNoWorseCaseThanRobsons(t *testing.T) {
	for k := range challenges {
		score := worst(t, bufalloc.Fit, 400, k)
		t.Logf("challenge %d: %.3f", k, score)
		assert.Less(t, score, 3.6)
	}
	assert.Greater(t, worst(t, bufalloc.BestFit, 400, 3), 14.0, "it is one of best fit's")
}

// A score is a bound from below where trying all smaller regions would take too long,
// and so never too high.
func TestScoresAreNotTooHigh(t *testing.T) {
	fit := replay.Of(bufalloc.Fit)
	ops, err := play(t.Context(), fit, challenges[2].play, 400, challenges[2].room(400), nil)
	require.NoError(t, err)
	st, err := stream(ops)
	require.NoError(t, err)
	upper, err := replay.UpperRegion(t.Context(), st, fit)
	require.NoError(t, err)
	require.Greater(t, float64(upper)/float64(st.PeakLive), 1.7, "bisection alone passes over what works")
	score, err := judge(t.Context(), Overhead, fit, st, 0)
	require.NoError(t, err)
	assert.Less(t, score, 1.55)
}

func TestConditionsAreReadAndHeld(t *testing.T) {
	find := replay.ParseSubject
	for _, text := range []string{"", "fit", "fit > x", "fit > 1 and", "none > 1", "fit / > 1", "fit >= 1"} {
		_, err := ParseCondition(text, find)
		require.ErrorIs(t, err, mem.ErrInvalidValue, "%q", text)
	}
	st, err := replay.W1(60, 400, 0, 11)
	require.NoError(t, err)
	c, err := ParseCondition("goodfit > 1.1 and fit / goodfit < 0.95", find)
	require.NoError(t, err)
	small, err := Shrink(t.Context(), st, c, 3000)
	require.NoError(t, err)
	ok, err := c.Holds(t.Context(), small)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Less(t, len(small.Ops), len(st.Ops)/8)
	c, err = ParseCondition("fit > 99", find)
	require.NoError(t, err)
	_, err = Shrink(t.Context(), st, c, 10)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
}

// interrupted is a context that ends when it has been asked so often.
type interrupted struct {
	context.Context
	after, asked int
}

func (c *interrupted) Err() error {
	if c.asked++; c.asked > c.after {
		return context.Canceled
	}
	return nil
}

// TestShrinkingThatIsInterruptedEndsAtOnce: at the next try, with the smallest it has.
func TestShrinkingThatIsInterruptedEndsAtOnce(t *testing.T) {
	st, err := replay.W1(60, 400, 0, 11)
	require.NoError(t, err)
	c, err := ParseCondition("fit > 1.0001", replay.ParseSubject)
	require.NoError(t, err)
	whole := &interrupted{t.Context(), 1 << 30, 0}
	_, err = Shrink(whole, st, c, 3000)
	require.NoError(t, err)
	known := &interrupted{t.Context(), 1 << 30, 0}
	_, err = c.Holds(known, st)
	require.NoError(t, err)
	for at := known.asked + 1; at < whole.asked; at += 1 + whole.asked/20 {
		ctx := &interrupted{t.Context(), at, 0}
		small, err := Shrink(ctx, st, c, 3000)
		require.NoError(t, err)
		require.NotNil(t, small)
		require.Less(t, ctx.asked-at, 60, "asked on after it had ended, at %d of %d", at, whole.asked)
	}
	_, err = Shrink(&interrupted{t.Context(), 0, 0}, st, c, 3000)
	require.ErrorIs(t, err, context.Canceled, "before it is known to hold")
}

func TestACorpusIsReadBackAndMinimised(t *testing.T) {
	dir := t.TempDir()
	o := Options{Subject: replay.Of(bufalloc.Tight), Objective: fragmentation, Ops: 60, Evals: 60}
	for seed := range uint64(8) {
		o.Seed = seed
		f, err := Search(t.Context(), o)
		require.NoError(t, err)
		require.NoError(t, f.Save(t.Context(), dir))
	}
	entries, err := ReadCorpus(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, entries, 8)
	left, removed, err := Minimise(t.Context(), dir, o)
	require.NoError(t, err)
	assert.LessOrEqual(t, left, keptEntries)
	assert.Equal(t, 8, left+removed)
	entries, err = ReadCorpus(t.Context(), dir)
	require.NoError(t, err)
	assert.Len(t, entries, left)
	none, err := ReadCorpus(t.Context(), t.TempDir())
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestACorpusIsReadWithinBounds(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(corpusDir(dir), 0o700))
	file := filepath.Join(corpusDir(dir), "x")
	require.NoError(t, os.WriteFile(file, []byte(corpusHead+`"`+strings.Repeat("x", maxEntry)+`")`), 0o600))
	_, err := ReadCorpus(t.Context(), dir)
	require.ErrorIs(t, err, input.ErrTooLarge)
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink("/dev/zero", file))
	_, err = ReadCorpus(t.Context(), dir)
	require.ErrorIs(t, err, input.ErrKind)
}

// FuzzReadCorpusFile: any text is a genome or an error.
func FuzzReadCorpusFile(f *testing.F) {
	f.Add("go test fuzz v1\n[]byte(\"\\x00a\")\n")
	f.Add("go test fuzz v1\n[]byte(")
	f.Fuzz(func(t *testing.T, text string) {
		if genome, err := parseCorpus(text); err != nil && genome != nil {
			t.Fatal("both")
		}
	})
}
