package fuzz

import (
	"context"

	"godwit/study/alloc/replay"
)

// shrinkEvals bounds the work of making a finding small.
const shrinkEvals = 500

// shrinker makes a sequence smaller while it keeps what it shows.
type shrinker struct {
	ops    []replay.Op
	region uint64 // bytes; 0 where what is shown is of no region
	keeps  func(ctx context.Context, ops []replay.Op, region uint64) (bool, error)
	left   int // tries
}

// shrink makes a sequence smaller that scores no less.
func (s *searcher) shrink(ctx context.Context, ops []replay.Op, score float64) ([]replay.Op, float64, error) {
	k := &shrinker{ops: ops, left: shrinkEvals}
	k.keeps = func(_ context.Context, ops []replay.Op, _ uint64) (bool, error) { // a try that was begun is ended
		x, err := s.score(ctx, ops, score*(1-1e-9)) // what is milder is soon known
		if err != nil || x < score {
			return false, err
		}
		score = x
		return true, nil
	}
	limit := ctx
	if s.o.Shrinking > 0 {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, s.o.Shrinking)
		defer cancel()
	}
	err := k.run(limit)
	return k.ops, score, err
}

// run drops chunks, whole with their frees, and then frees alone, in ever
// smaller groups (Zeller and Hildebrandt, "Simplifying and isolating
// failure-inducing input", IEEE TSE 2002), and rounds sizes to powers of two, as
// long as the sequence keeps what it shows.
func (k *shrinker) run(ctx context.Context) error {
	for _, pass := range []func(context.Context) error{k.dropChunks, k.dropFrees, k.roundSizes, k.dropChunks} {
		if err := pass(ctx); err != nil {
			return err
		}
	}
	return nil
}

// try adopts ops where they keep what is to be shown.
func (k *shrinker) try(ctx context.Context, ops []replay.Op) (bool, error) {
	if k.left == 0 || len(ops) == 0 || ctx.Err() != nil {
		return false, nil
	}
	k.left--
	ops = renumber(ops)
	ok, err := k.keeps(ctx, ops, k.region)
	if ok && err == nil {
		k.ops = ops
	}
	return ok, err
}

// drop tries to do without groups of things, of which there are count() in the
// sequence; without(lo, hi) is the sequence less those in [lo, hi).
func (k *shrinker) drop(ctx context.Context, count func() int, without func(lo, hi int) []replay.Op) error {
	for size := count() / 2; size >= 1; size /= 2 {
		for lo := 0; lo < count() && k.left > 0 && ctx.Err() == nil; {
			ok, err := k.try(ctx, without(lo, lo+size))
			if err != nil {
				return err
			}
			if !ok {
				lo += size
			}
		}
	}
	return nil
}

// keep is the sequence of the operations that ok says.
func (k *shrinker) keep(ok func(op replay.Op) bool) []replay.Op {
	var out []replay.Op
	for _, op := range k.ops {
		if ok(op) {
			out = append(out, op)
		}
	}
	return out
}

func (k *shrinker) dropChunks(ctx context.Context) error {
	count := func() int { return len(k.keep(func(op replay.Op) bool { return op.Size > 0 })) }
	return k.drop(ctx, count, func(lo, hi int) []replay.Op {
		return k.keep(func(op replay.Op) bool { return int(op.Slot) < lo || int(op.Slot) >= hi })
	})
}

func (k *shrinker) dropFrees(ctx context.Context) error {
	count := func() int { return len(k.keep(func(op replay.Op) bool { return op.Size == 0 })) }
	return k.drop(ctx, count, func(lo, hi int) []replay.Op {
		n := -1
		return k.keep(func(op replay.Op) bool {
			if op.Size == 0 {
				n++
			}
			return op.Size > 0 || n < lo || n >= hi
		})
	})
}

// roundSizes makes each size that occurs a power of two wherever it occurs.
func (k *shrinker) roundSizes(ctx context.Context) error {
	done := make(map[uint64]bool)
	for i := 0; i < len(k.ops) && k.left > 0 && ctx.Err() == nil; i++ {
		size := k.ops[i].Size
		if size&(size-1) == 0 || done[size] {
			continue
		}
		done[size] = true
		low := size
		for low&(low-1) != 0 {
			low &= low - 1
		}
		ok, err := k.try(ctx, resize(k.ops, size, low))
		if err == nil && !ok {
			_, err = k.try(ctx, resize(k.ops, size, 2*low))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func resize(ops []replay.Op, from, to uint64) []replay.Op {
	out := make([]replay.Op, len(ops))
	for i, op := range ops {
		if op.Size == from {
			op.Size = to
		}
		out[i] = op
	}
	return out
}

// renumber gives every chunk a slot of its own, in the order of allocation.
func renumber(ops []replay.Op) []replay.Op {
	number, next := make(map[uint32]uint32), uint32(0)
	out := make([]replay.Op, len(ops))
	for i, op := range ops {
		if op.Size > 0 {
			number[op.Slot] = next
			next++
		}
		out[i] = replay.Op{Size: op.Size, Slot: number[op.Slot]}
	}
	return out
}
