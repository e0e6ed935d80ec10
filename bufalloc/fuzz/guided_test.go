package fuzz

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/bufalloc/replay"
)

// Guidance has to pay: at equal sequences and equal seeds, adversaries left out,
// what a guided search finds exceeds 1 by a fifth more than what chance finds.
// With GODWIT_SOAK=1 that is five seeds of three strategies; else one, and few
// sequences, in which it has to find no less.
func TestGuidedAgainstBlind(t *testing.T) {
	strategies, seeds, evals, floor := []bufalloc.Strategy{bufalloc.Fit}, uint64(1), 400, 1.0
	if os.Getenv("GODWIT_SOAK") != "" {
		strategies, seeds, evals, floor = []bufalloc.Strategy{bufalloc.Fit, bufalloc.BestFit, bufalloc.Tight}, 5, 3000, 1.2
	}
	for _, strategy := range strategies {
		least := math.Inf(1)
		for seed := range seeds {
			o := Options{Subject: replay.Of(strategy), Objective: Overhead, Seed: seed + 1, Ops: 400, Evals: evals, Alone: true}
			guided := bestOf(t, o)
			o.Blind = true
			blind := bestOf(t, o)
			ratio := (guided - 1) / (blind - 1)
			t.Logf("%v, seed %d: guided %.4f, blind %.4f: %.3f times the excess", strategy, seed+1, guided, blind, ratio)
			least = min(least, ratio)
		}
		assert.GreaterOrEqual(t, least, floor, "%v", strategy)
	}
}

// bestOf is the best score of a search, before shrinking.
func bestOf(t *testing.T, o Options) float64 {
	s := &searcher{o: o, rng: newRand(o)}
	_, err := s.run(t.Context(), t.Context())
	require.NoError(t, err)
	return s.best.score
}
