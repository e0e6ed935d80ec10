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
// docs/allocator.md has the figures. Ten minutes.
func TestGuidedAgainstBlind(t *testing.T) {
	if os.Getenv("GODWIT_SOAK") == "" {
		t.Skip("a soak; TestTheSearchFindsWorseThanChance is its short form")
	}
	for _, strategy := range []bufalloc.Strategy{bufalloc.Fit, bufalloc.BestFit, bufalloc.Tight} {
		const seeds = 5
		sum, least := 0.0, math.Inf(1)
		for seed := range uint64(seeds) {
			o := Options{Subject: replay.Of(strategy), Objective: Overhead, Seed: seed + 1, Ops: 400, Evals: 1500, Alone: true}
			guided := bestOf(t, o)
			o.Blind = true
			blind := bestOf(t, o)
			ratio := (guided - 1) / (blind - 1)
			t.Logf("%v, seed %d: guided %.4f, blind %.4f: %.3f times the excess", strategy, seed+1, guided, blind, ratio)
			sum, least = sum+math.Log(ratio), min(least, ratio)
		}
		mean := math.Exp(sum / seeds)
		t.Logf("%v: %.3f times the excess in the mean, %.3f at least", strategy, mean, least)
		assert.GreaterOrEqual(t, least, 1.2, "%v", strategy)
	}
}

// bestOf is the best score of a search, before shrinking.
func bestOf(t *testing.T, o Options) float64 {
	s := &searcher{o: o, rng: newRand(o)}
	_, err := s.run(t.Context(), t.Context())
	require.NoError(t, err)
	return s.best.score
}
