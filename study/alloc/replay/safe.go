package replay

import (
	"cmp"
	"context"
	"sort"

	"godwit/mem"
)

// A user gives a region once, and a strategy that works in the smallest region may
// fail in a larger one. So the safe region is what is told beside it: over a grid of
// 0.5 % from the peak of live bytes to a multiple of it, the next size above the
// largest that fails. The sizes between those of the grid are sampled: of 64 drawn at
// random above it, none may fail, else the safe region lies above the largest that does.

const (
	safeStep    = 200 // a grid size is a 200th larger than the one before
	safeSamples = 64
	safeSeed    = 38
)

// safeTimes is how many times the peak of live bytes the grid reaches, by alignment:
// compilers' buffers (MiniMalloc), whose alignment is 1, want more room.
func safeTimes(st *Stream) float64 {
	if st.Align == 1 {
		return 3.2
	}
	return 2
}

// safeRegion finds the region above which the strategy fails on st in none of the sizes
// tried; 0 where the grid's last fails. It fails as MinRegion does.
func safeRegion(ctx context.Context, st *Stream, s Subject) (uint64, error) {
	p := newProber(st, s)
	sizes := safeGrid(st)
	if x, ok := s.(region); ok && x.strategy.Monotone() {
		return p.bisect(ctx, sizes)
	}
	k := len(sizes)
	for ; k > 0; k-- {
		if ok, err := p.try(ctx, sizes[k-1]); err != nil {
			return 0, err
		} else if !ok {
			break
		}
	}
	if k == len(sizes) {
		return 0, nil
	}
	failing, err := p.sample(ctx, sizes[k], sizes[len(sizes)-1])
	if err != nil {
		return 0, err
	}
	for sizes[k] <= failing { // the last of the grid works, and no sample is larger
		k++
	}
	return sizes[k], nil
}

// bisect is safeRegion for a strategy of which one size that works tells of all larger.
func (p *prober) bisect(ctx context.Context, sizes []uint64) (uint64, error) {
	var err error
	k := sort.Search(len(sizes), func(i int) bool {
		ok, terr := p.try(ctx, sizes[i])
		err = cmp.Or(err, terr)
		return ok
	})
	if err != nil || k == len(sizes) {
		return 0, err
	}
	return sizes[k], nil
}

// safeGrid is the sizes that are tried, ascending.
func safeGrid(st *Stream) []uint64 {
	end := uint64(safeTimes(st) * float64(st.PeakLive))
	sizes := []uint64{st.PeakLive}
	for {
		last := sizes[len(sizes)-1]
		next, ok := mem.AlignUp(last+max(last/safeStep, 1), st.Align)
		if !ok || next > end {
			return sizes
		}
		sizes = append(sizes, next)
	}
}

// sample tries sizes drawn at random between two that work, and returns the largest that
// fails; 0 where none does.
func (p *prober) sample(ctx context.Context, low, high uint64) (failing uint64, err error) {
	rng := splitmix(safeSeed)
	for range safeSamples {
		size := low + rng.next()%(high-low+1)
		size -= (size - low) % p.st.Align
		ok, err := p.try(ctx, size)
		if err != nil {
			return 0, err
		}
		if !ok {
			failing = max(failing, size)
		}
	}
	return failing, nil
}
