package fuzz

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/study/alloc/replay"
)

// Guidance pays on every seed: at equal sequences and equal seeds, adversaries left
// out, what a guided search finds exceeds 1 by at least 1.2 times what chance finds.
// docs/allocator.md has the figures, which take ten minutes; else it is one seed, and
// sequences half as long.
func TestGuidedAgainstBlind(t *testing.T) {
	seeds, ops, evals := 1, 150, 300
	if os.Getenv("GODWIT_SOAK") != "" {
		seeds, ops, evals = 5, 400, 1500
	}
	for _, strategy := range []bufalloc.Strategy{bufalloc.Fit, bufalloc.BestFit, bufalloc.Tight} {
		sum, least := 0.0, math.Inf(1)
		for seed := range seeds {
			o := Options{Subject: replay.Of(strategy), Objective: Overhead, Seed: uint64(seed + 1), Ops: ops, Evals: evals, Alone: true}
			guided := bestOf(t, o)
			o.Blind = true
			blind := bestOf(t, o)
			ratio := (guided - 1) / (blind - 1)
			t.Logf("%v, seed %d: guided %.4f, blind %.4f: %.3f times the excess", strategy, seed+1, guided, blind, ratio)
			sum, least = sum+math.Log(ratio), min(least, ratio)
		}
		mean := math.Exp(sum / float64(seeds))
		t.Logf("%v: %.3f times the excess in the mean, %.3f at least", strategy, mean, least)
		assert.GreaterOrEqual(t, least, 1.2, "%v", strategy)
	}
}

// bestOf is the best score of a search, before shrinking.
func bestOf(t *testing.T, o Options) float64 {
	s := &searcher{o: o, rng: newRand(o)}
	require.NoError(t, s.run(t.Context(), t.Context()))
	return s.best.score
}
