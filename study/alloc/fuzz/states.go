package fuzz

import (
	"bytes"
	"cmp"
	"context"
	"math/bits"
	"slices"

	"godwit/study/alloc/replay"
)

// state is what an allocator is in after an operation, as far as two sequences are told apart by it: how many holes it has, how
// much is free and how much of that is one hole, and whether the request was refused. A bit pattern.
type state uint16

func stateOf(x replay.Step) state {
	s := state(min(bits.Len(uint(x.After.Holes)), 15))                         // a power of two
	s |= state(8*x.After.Free/max(x.After.Capacity, 1)) << 4                   // eighths
	s |= state(8*x.After.LargestFree/max(x.After.Free, 1)) << 8                // eighths
	s |= state(min(bits.Len64(x.After.ScanSteps-x.Before.ScanSteps), 7)) << 12 // of searches that are counted
	if !x.OK {
		s |= 1 << 15
	}
	return s
}

// kept is a sequence that is kept, and what it reaches.
type kept struct {
	Genome []byte  `json:"genome"`
	Score  float64 `json:"score"`
	States []state `json:"states"` // ascending
}

// keptOf is what a genome does to the strategy.
func (s *searcher) keptOf(ctx context.Context, genome []byte) (k kept, err error) {
	ops := express(genome, s.o.Ops)
	if len(ops) == 0 {
		return k, nil
	}
	k.Genome = genome
	if k.Score, err = s.score(ctx, ops, 0); err != nil {
		return k, err
	}
	st, err := stream(ops)
	if err != nil {
		return k, err
	}
	region := s.o.Objective.region(st.PeakLive)
	if region == 0 {
		region = fragmentation.region(st.PeakLive)
	}
	seen := make(map[state]bool)
	err = replay.Watch(ctx, st, s.o.Subject, region, func(x replay.Step) { seen[stateOf(x)] = true })
	for x := range seen {
		k.States = append(k.States, x)
	}
	slices.Sort(k.States)
	return k, err
}

// cover is a few sequences, at most so many, that together reach what all do: the one that is worst for the strategy, and then always the one
// that reaches most of what is left (Chvátal, "A greedy heuristic for the set-covering problem", 1979); of equals the worse one, and the
// shorter. It depends on what there is alone, not on its order.
func cover(all []kept, most int) (out []kept) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b kept) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(len(a.Genome), len(b.Genome)), bytes.Compare(a.Genome, b.Genome))
	})
	seen := make(map[state]bool)
	for len(out) < most && len(all) > 0 {
		best, gain := 0, -1
		for i, k := range all {
			n := 0
			for _, x := range k.States {
				if !seen[x] {
					n++
				}
			}
			if n > gain {
				best, gain = i, n
			}
			if len(out) == 0 {
				break // the worst
			}
		}
		if gain == 0 {
			break
		}
		for _, x := range all[best].States {
			seen[x] = true
		}
		out = append(out, all[best])
		all = slices.Delete(all, best, best+1)
	}
	return out
}
