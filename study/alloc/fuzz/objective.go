package fuzz

import (
	"context"
	"math/bits"

	"godwit/bufalloc"
	"godwit/bufalloc/pack"
	"godwit/internal/suggest"
	"godwit/study/alloc/replay"
)

// Objective is what a search makes as bad as it can.
type Objective string

// The objectives.
const (
	// Overhead: the smallest region in which the strategy never fails, divided
	// by what an offline packing of the same sequence needs. A lower bound of it for
	// sequences so long that not all smaller regions are tried.
	Overhead Objective = "overhead"
	// fragmentation: the greatest external fragmentation, 1 - largest hole /
	// free, in a region of twice the peak of live bytes.
	fragmentation Objective = "fragmentation"
	// failure: how many times the bytes of a request are free when it fails, in
	// a region of 5/4 of the peak; where none fails, the greatest fragmentation.
	failure Objective = "failure"
	// slowOp: the most holes or chunks that one operation looks at, in a region
	// of 5/4 of the peak: counted by Fit, a bound for the others; see cost.
	slowOp Objective = "slow-op"
)

// Objectives lists them all.
func Objectives() []Objective { return []Objective{Overhead, fragmentation, failure, slowOp} }

// ParseObjective returns the objective of that name, else an error wrapping
// mem.ErrInvalidValue that lists them.
func ParseObjective(name string) (Objective, error) {
	return suggest.Pick("objective", name, Objectives(), func(o Objective) string { return string(o) })
}

// region is the region that an objective replays through, in bytes; 0 where it
// searches one.
func (o Objective) region(peak uint64) uint64 {
	switch o {
	case fragmentation:
		return 2 * peak
	case failure, slowOp:
		return (peak + peak/4) &^ (unit - 1)
	}
	return 0
}

// judge scores one sequence for one strategy: higher is worse for it. beat is
// the score that it has to pass to be of interest: work that cannot lead there
// is left out, and the score is then an upper bound that is at most beat.
func judge(ctx context.Context, o Objective, s replay.Subject, st *replay.Stream, beat float64) (float64, error) {
	if o == Overhead {
		return judgeOverhead(ctx, s, st, beat)
	}
	worst := 0.0
	err := replay.Watch(ctx, st, s, o.region(st.PeakLive), func(x replay.Step) {
		worst = max(worst, o.step(s, x))
	})
	return worst, err
}

// step scores one operation.
func (o Objective) step(s replay.Subject, x replay.Step) float64 {
	switch {
	case o == slowOp:
		return float64(cost(s, x))
	case o == failure && !x.OK && x.Op.Size <= x.Before.Free:
		return float64(x.Before.Free) / float64(x.Op.Size)
	}
	return x.After.Fragmentation()
}

// cost is how many holes or chunks an operation looks at: what stands for its
// time, and is the same on every machine. Frees and the bitmap strategies look
// at a fixed few, but for Fit's searches, which count what they look at; trees at
// a path; lists in address order at all chunks and holes, at most. Of allocators
// of one's own nothing is known.
func cost(s replay.Subject, x replay.Step) int {
	switch {
	case x.Op.Size == 0:
		return 1
	case x.After.ScanSteps > x.Before.ScanSteps:
		return 1 + int(x.After.ScanSteps-x.Before.ScanSteps)
	}
	if s == replay.Of(bufalloc.BestFit) {
		return 1 + bits.Len(uint(x.Before.Holes))
	}
	return 1
}

// judgeNodes bounds the packing of a sequence that greedy packing leaves above
// its peak: a count, so that scores are the same everywhere.
const judgeNodes = 4000

func judgeOverhead(ctx context.Context, s replay.Subject, st *replay.Stream, beat float64) (float64, error) {
	size, err := replay.UpperRegion(ctx, st, s)
	if err != nil {
		return 0, err
	}
	most := float64(size) / float64(st.PeakLive) // a packing needs the peak at least
	if most <= beat {
		return most, nil
	}
	// Bisection may have passed over smaller sizes that work, and a search finds
	// the sequences for which it does. What is known for certain counts.
	m, err := replay.MinRegion(ctx, st, s)
	if err != nil {
		return 0, err
	}
	size = m.Least
	items, err := st.Trace().Items(unit)
	if err != nil {
		return 0, err
	}
	packed, err := pack.Greedy(ctx, items)
	if err == nil && packed.Height > st.PeakLive {
		packed, err = pack.Minimize(ctx, items, pack.Options{Nodes: judgeNodes})
	}
	if err != nil {
		return 0, err
	}
	return float64(size) / float64(packed.Height), nil
}

// robsonBound is the least region, in units, with which any allocator that cannot
// move chunks serves every program of at most peak live units in chunks whose
// sizes are powers of two up to largest: peak * (log2(largest)/2 + 1) -
// largest + 1 (Robson, "Bounds for some functions concerning dynamic storage
// allocation", JACM 1974). The logarithm is rounded down.
func robsonBound(peak, largest uint64) float64 {
	if peak == 0 || largest == 0 {
		return 0
	}
	log := float64(bits.Len64(largest) - 1)
	return float64(peak)*(log/2+1) - float64(largest) + 1
}
