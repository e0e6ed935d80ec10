package replay

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"godwit/mem"
)

// The smallest region is searched on a grid: sizes from the peak of live bytes
// upward, each at most 0.1 % larger than the one before (or one alignment unit,
// where that is more), to a thousand times the peak.
//
// Bisection alone would be wrong. A strategy that fails in one region may pass
// in a smaller one, because the size changes where it places chunks (GoodFit
// and Fit place by distance from the ends; buddies by powers of two). So the
// search has two parts. Doubling steps and then bisection find some size that
// works, and one just below that fails: an upper bound, from a few dozen
// replays. Then every grid size below it that has not been tried is tried, from
// the smallest, and the first that works is the answer. Replays that fail do so
// early, so this costs little; where it would take more than scanBudget
// operations it is left out, and minResult.Exhaustive says so.

// minResult is the outcome of MinRegion. Sizes in bytes.
type minResult struct {
	Region       uint64 // the smallest size that works; 0 where none was found
	Least        uint64 // all smaller sizes of the grid fail: Region where Exhaustive; 0 where Region is
	FailingAbove uint64 // the largest size beyond Region seen to fail; 0 where none did
	Probes       int    // replays done
	Exhaustive   bool   // every smaller size of the grid was tried and fails
}

// maxOverhead bounds the grid, as a multiple of the peak of live bytes.
const maxOverhead = 1024

// scanBudget bounds the operations replayed by the search's second part.
const scanBudget = 400_000_000

// grid is the sizes that are tried, made as far as needed.
type grid struct {
	align uint64
	sizes []uint64
}

func newGrid(st *Stream) *grid { return &grid{st.Align, []uint64{st.PeakLive}} }

// at is the k-th size.
func (g *grid) at(k int) uint64 {
	for len(g.sizes) <= k {
		last := g.sizes[len(g.sizes)-1]
		step := last / 1000 &^ (g.align - 1)
		g.sizes = append(g.sizes, last+max(step, g.align))
	}
	return g.sizes[k]
}

// prober replays one stream through regions of many sizes.
type prober struct {
	st      *Stream
	subject Subject
	works   map[uint64]bool // by size
	ops     int             // replayed in all
}

// try reports whether the strategy never fails in a region of size bytes.
func (p *prober) try(ctx context.Context, size uint64) (bool, error) {
	if ok, known := p.works[size]; known {
		return ok, nil
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	done := 0
	err := through(ctx, p.st, p.subject, size, toRefusal, func(_ machine, i int, ok bool) error {
		if !ok {
			return errRefused
		}
		done = i + 1
		return nil
	})
	p.ops += done
	if err != nil && !errors.Is(err, errRefused) {
		return false, err
	}
	p.works[size] = err == nil
	return err == nil, nil
}

// errRefused ends a replay at the first allocation that was refused.
var errRefused = errors.New("refused")

// MinRegion finds the smallest region in which the strategy never fails on st,
// to 0.1 %. It returns early with ctx's error when ctx ends. Sound for
// subjects that are not monotone in the region's size; see above. It fails with
// a *Fault where the subject breaks its contract.
func MinRegion(ctx context.Context, st *Stream, s Subject) (minResult, error) {
	return minRegion(ctx, st, s, scanBudget)
}

// UpperRegion is the first part of MinRegion alone: a size that works, by
// bisection, and 0 where none was found. It takes a few dozen replays; a smaller
// size may work too.
func UpperRegion(ctx context.Context, st *Stream, s Subject) (uint64, error) {
	p, g := newProber(st, s), newGrid(st)
	hi, err := p.bracket(ctx, g)
	if err != nil || hi < 0 {
		return 0, err
	}
	return g.at(hi), nil
}

func newProber(st *Stream, s Subject) *prober {
	return &prober{st: st, subject: s, works: make(map[uint64]bool)}
}

func minRegion(ctx context.Context, st *Stream, s Subject, budget int) (minResult, error) {
	if st.PeakLive == 0 {
		return minResult{}, fmt.Errorf("%s: a stream not made by this package: %w", st.Name, mem.ErrInvalidValue)
	}
	p, g := newProber(st, s), newGrid(st)
	hi, err := p.bracket(ctx, g)
	if err == nil && hi < 0 {
		return p.powerOfTwo(ctx)
	}
	if err != nil {
		return minResult{Probes: len(p.works)}, err
	}
	res := minResult{Exhaustive: true}
	best, least := hi, hi
	for k, start := 0, p.ops; k < hi; k++ {
		ok, err := p.try(ctx, g.at(k))
		if err != nil {
			return res, err
		}
		if ok {
			best, least = k, k
			break
		}
		if p.ops-start > budget {
			least = k + 1
			res.Exhaustive = least == hi
			break
		}
	}
	res.Region, res.Least, res.Probes = g.at(best), g.at(least), len(p.works)
	for size, ok := range p.works {
		if !ok && size > res.Region {
			res.FailingAbove = max(res.FailingAbove, size)
		}
	}
	return res, nil
}

// powerOfTwo is what is left to try where nothing on the grid works: some
// allocators manage powers of two alone.
func (p *prober) powerOfTwo(ctx context.Context) (minResult, error) {
	for size := uint64(1) << bits.Len64(p.st.PeakLive-1); size/maxOverhead <= p.st.PeakLive; size *= 2 {
		ok, err := p.try(ctx, size)
		if ok || err != nil {
			return minResult{Region: size, Least: p.st.PeakLive, Probes: len(p.works)}, err
		}
	}
	return minResult{Probes: len(p.works)}, nil
}

// bracket finds, by doubling steps and bisection, a grid index that works and
// whose predecessor fails; -1 where not even the grid's end works.
func (p *prober) bracket(ctx context.Context, g *grid) (int, error) {
	lo, hi := -1, 0 // lo fails (or is before the grid), hi is tried next
	for step := 1; ; step *= 2 {
		ok, err := p.try(ctx, g.at(hi))
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if g.at(hi)/maxOverhead >= p.st.PeakLive {
			return -1, nil
		}
		lo, hi = hi, hi+step
	}
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		ok, err := p.try(ctx, g.at(mid))
		if err != nil {
			return 0, err
		}
		if ok {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, nil
}
