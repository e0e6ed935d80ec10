package fuzz

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"godwit/mem"
	"godwit/study/alloc/replay"
)

// Options say how a search works.
type Options struct {
	Subject   replay.Subject
	Against   replay.Subject // not nil: what hurts Subject and not this one, by the ratio of their scores
	Objective Objective
	Seed      uint64
	Ops       int                // operations of a sequence at most, up to 2^20; 0 is 400
	Evals     int                // sequences to try, the shrinking left out; 0 is 4,000
	Blind     bool               // no guidance: each sequence is new; what guidance is measured against
	NoLeaks   bool               // a whole region that is refused after all frees is no fault
	Hasty     replay.Subject     // Subject with little patience, to shrink a hang with; nil: Subject
	Alone     bool               // no adversaries: sequences that do not look at addresses
	Corpus    [][]byte           // genomes to begin with, such as those of searches before
	Shrinking time.Duration      // how long what was found is made smaller; 0: as long as it takes
	untimed   bool               // the finding is the same everywhere: it has no times
	Progress  func(best float64) // called after each of Evals, with the best score so far
}

const (
	defaultOps   = 400
	defaultEvals = 4000
	maxOps       = 1 << 20
	population   = 20
	tournament   = 3
	immigrants   = 8    // one in so many is new, without parents
	patience     = 600  // evaluations without gain before starting afresh
	explore      = 8    // the first one in so many are new: the population begins with the best of them
	leastAgainst = 0.01 // scores of the other one count as this at least
	genesAtStart = 40
)

// individual is a genome and what it does to the strategy.
type individual struct {
	genome []byte
	score  float64
}

// searcher is one search. It belongs to one goroutine at a time.
type searcher struct {
	interrupted bool          // and not out of time: who waits gets what there is
	fault       *replay.Fault // the subject broke its contract: the search is over

	o     Options
	rng   *rand.Rand
	pop   []individual
	best  individual // of all times
	evals int
	since int     // evaluations since the population last gained
	peak  float64 // the population's best

	leaking []replay.Op // the sequence that showed a leak
}

// Begin begins a search for the sequence that is worst for the strategy under the objective: Advance as
// often as there is time for it, beside other searches, and Finish once. What it finds does not depend on
// how it was divided. It fails where options are bad.
func Begin(o Options) (*searcher, error) {
	if o.Ops == 0 {
		o.Ops = defaultOps
	}
	if o.Evals == 0 {
		o.Evals = defaultEvals
	}
	if o.Ops < 1 || o.Ops > maxOps || o.Evals < 1 {
		return nil, fmt.Errorf("fuzz: %d operations, %d evaluations: %w", o.Ops, o.Evals, mem.ErrInvalidValue)
	}
	if _, err := ParseObjective(string(o.Objective)); err != nil {
		return nil, err
	}
	if o.Subject == nil {
		return nil, fmt.Errorf("fuzz: nothing to search for: %w", mem.ErrInvalidValue)
	}
	return &searcher{o: o, rng: newRand(o)}, nil
}

// Advance searches until ctx ends, and reports whether there is nothing left to search. That ctx ends is no
// error; errors are defects of bufalloc.
func (s *searcher) Advance(ctx context.Context) (ended bool, err error) {
	err = s.run(ctx, context.WithoutCancel(ctx)) // one sequence is soon judged; the search stops between two
	if errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled) {
		return false, nil // the subject's process has ended with ctx
	}
	if errors.As(err, &s.fault) {
		return true, nil
	}
	return s.evals >= s.o.Evals, err
}

// Best is the worst sequence so far as it is, neither shrunk nor measured: what is kept of a
// search that may be killed. It is nil while there is none that is worse than what the search
// began with.
func (s *searcher) Best() (*Finding, error) {
	if s.evals < len(s.o.Corpus) || len(s.best.genome) == 0 {
		return nil, nil
	}
	return s.asFound()
}

// Finish shrinks what was found and measures it; where ctx was cancelled, and not out of time, it is reported
// as it is. It is the end of the search, whether Advance has reached it (Finding.Stopped says that it has not) or not.
func (s *searcher) Finish(ctx context.Context) (*Finding, error) {
	s.interrupted = errors.Is(ctx.Err(), context.Canceled)
	work := context.WithoutCancel(ctx)
	if s.fault != nil {
		return s.faulty(work, s.fault)
	}
	if s.interrupted {
		return s.asFound()
	}
	return s.finding(work)
}

// newRand gives each strategy and objective random numbers of its own.
func newRand(o Options) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%s", o.Subject.Name(), o.Objective) // a hash never fails
	return rand.New(rand.NewPCG(o.Seed, h.Sum64()))
}

func (s *searcher) run(ctx, work context.Context) error {
	for s.evals < s.o.Evals && ctx.Err() == nil {
		child, err := s.next(work)
		if err != nil {
			return err
		}
		if err := s.consider(work, child); err != nil {
			return err
		}
		if s.o.Progress != nil {
			s.o.Progress(s.best.score)
		}
		if s.since > patience {
			s.pop, s.since, s.peak = s.pop[:0], 0, 0
		}
	}
	return nil
}

// next is the genome to try: first what was known before and what adversaries
// play at their best, then children of the population, newcomers among them.
func (s *searcher) next(ctx context.Context) ([]byte, error) {
	k := s.evals
	if k < len(s.o.Corpus) {
		return s.o.Corpus[k], nil
	}
	k -= len(s.o.Corpus)
	switch {
	case s.o.Blind:
		s.pop = s.pop[:0] // each stands alone
		return s.random(), nil
	case !s.o.Alone && k < len(challenges):
		return s.challenge(ctx, k, nil)
	case !s.o.Alone && s.rng.IntN(2*immigrants) == 0:
		return s.challenge(ctx, s.rng.IntN(len(challenges)), s.rng)
	case len(s.pop) < population || k < s.o.Evals/explore || s.rng.IntN(immigrants) == 0:
		return s.random(), nil
	}
	if parent := s.pick().genome; len(parent) >= geneBytes && s.rng.IntN(2) == 0 {
		return s.grow(parent), nil
	}
	return s.mutate(s.pick().genome), nil
}

// challenge is what an adversary plays, as a genome; one of no gene where genes
// cannot express it.
func (s *searcher) challenge(ctx context.Context, which int, r *rand.Rand) ([]byte, error) {
	c := challenges[which]
	ops, err := play(ctx, s.o.Subject, c.play, s.o.Ops, c.room(s.o.Ops), r)
	if err != nil {
		return nil, err
	}
	genome, err := encode(ops)
	if err != nil {
		return nil, nil //nolint:nilerr // it counts as one that hurts nobody
	}
	return genome, nil
}

// consider evaluates a genome and takes it into the population in the place of
// the mildest of a few drawn from it, where it is no milder.
func (s *searcher) consider(ctx context.Context, genome []byte) error {
	s.evals++
	s.since++
	slot, beat := -1, 0.0
	if len(s.pop) == population {
		slot = s.rng.IntN(population)
		for range tournament - 1 {
			if i := s.rng.IntN(population); s.pop[i].score < s.pop[slot].score {
				slot = i
			}
		}
		beat = s.pop[slot].score
	}
	ops := express(genome, s.o.Ops)
	if err := s.leaks(ctx, ops); err != nil {
		return err
	}
	score, err := s.score(ctx, ops, beat)
	if err != nil {
		return err
	}
	x := individual{genome, score}
	switch {
	case slot < 0:
		s.pop = append(s.pop, x)
	case score >= beat:
		s.pop[slot] = x
	}
	if score > s.peak {
		s.peak, s.since = score, 0
	}
	if score > s.best.score {
		s.best = x
	}
	return nil
}

// score judges operations; a sequence that allocates nothing scores 0.
func (s *searcher) score(ctx context.Context, ops []replay.Op, beat float64) (float64, error) {
	if len(ops) == 0 {
		return 0, nil // the first operation of a sequence is an allocation
	}
	st, err := stream(ops)
	if err != nil {
		return 0, err
	}
	if s.o.Against == nil {
		return judge(ctx, s.o.Objective, s.o.Subject, st, beat)
	}
	a, err := judge(ctx, s.o.Objective, s.o.Subject, st, 0)
	if err != nil {
		return 0, err
	}
	b, err := judge(ctx, s.o.Objective, s.o.Against, st, 0)
	return a / max(b, leastAgainst), err
}

// pick is the worst for the strategy of a few drawn from the population.
func (s *searcher) pick() individual {
	best := s.pop[s.rng.IntN(len(s.pop))]
	for range tournament - 1 {
		if x := s.pop[s.rng.IntN(len(s.pop))]; x.score > best.score {
			best = x
		}
	}
	return best
}

func (s *searcher) gene() []byte {
	g := []byte{byte(s.rng.Uint32()), byte(s.rng.Uint32()), byte(s.rng.Uint32()), byte(s.rng.Uint32())}
	if s.rng.IntN(3) > 0 {
		g[3] &^= 24 // mostly short runs
	}
	return g
}

// random makes a new genome: half of them at random, half after Robson: fill
// with small chunks, free some at even distances, allocate twice the size.
func (s *searcher) random() []byte {
	var g []byte
	if s.rng.IntN(2) == 0 {
		for range 1 + s.rng.IntN(genesAtStart) {
			g = append(g, s.gene()...)
		}
		return g
	}
	stride := byte(1 + s.rng.IntN(3))
	first := s.rng.IntN(4)
	last := min(first+2+s.rng.IntN(8), sizeExponents)
	for e := first; e < last; e++ {
		for range 1 + s.rng.IntN(4) {
			g = append(g, 255, byte(e)<<3, 0, countMask)
		}
		for k := range byte(1 + s.rng.IntN(4)) {
			g = append(g, 0, k*31, stride, countMask)
		}
	}
	return g
}

// mutate copies a genome with one to four changes.
func (s *searcher) mutate(parent []byte) []byte {
	g := slices.Clone(parent)
	for range 1 + s.rng.IntN(4) {
		if len(g) == 0 {
			return s.gene()
		}
		g = s.change(g, s.rng.IntN(len(g)/geneBytes)*geneBytes)
	}
	// What lies beyond Ops has no effect: keep genomes from growing for ever.
	return g[:min(len(g), geneBytes*s.o.Ops)]
}

// change makes one change to g, which it owns, at the gene that starts at at.
func (s *searcher) change(g []byte, at int) []byte {
	switch s.rng.IntN(10) {
	case 0: // another gene
		copy(g[at:], s.gene())
	case 1: // another byte
		g[at+s.rng.IntN(geneBytes)] = byte(s.rng.Uint32())
	case 2: // a little more or less
		g[at+1+s.rng.IntN(geneBytes-1)] += byte(s.rng.IntN(5)) - 2
	case 3: // one gene more
		return slices.Insert(g, at, s.gene()...)
	case 4: // some fewer
		return slices.Delete(g, at, min(at+geneBytes*(1+s.rng.IntN(4)), len(g)))
	case 5: // a stretch again, elsewhere
		end := min(at+geneBytes*(1+s.rng.IntN(6)), len(g))
		to := s.rng.IntN(len(g)/geneBytes+1) * geneBytes
		return slices.Insert(g, to, slices.Clone(g[at:end])...)
	case 6: // twice or half the size
		g[at+1] += byte(s.rng.IntN(2))*16 - 8
	case 8, 9: // a stretch once more behind it, at twice the size: Robson's next step
		end := min(at+geneBytes*(1+s.rng.IntN(8)), len(g))
		next := slices.Clone(g[at:end])
		for i := 0; i < len(next); i += geneBytes {
			if next[i] >= freeKinds {
				next[i+1] += 8
			}
		}
		return slices.Insert(g, end, next...)
	case 7: // the rest of another one
		o := s.pick().genome
		cut := s.rng.IntN(len(o)/geneBytes+1) * geneBytes
		return append(g[:at], o[cut:]...)
	}
	return g
}
