package fuzz

import (
	"context"
	"errors"
	"math/rand/v2"

	"godwit/study/alloc/replay"
)

// An adversary plays against an allocator and looks at the addresses it gives
// before deciding what comes next: a program that no fixed sequence can be. What
// it played is a sequence like any other, to be judged, mutated and shrunk.

// adversary is one of them. It stops by itself, when it has played limit
// operations (errEnough) or the allocator refuses. r varies what it does; nil
// asks for what suits the limit best.
type adversary func(g *board, limit int, r *rand.Rand) error

// challenges are the adversaries, each with a size of region to play in, in units.
// Since strategies place by distance from the ends, what works in one region need
// not in another. Their order is part of what a seed means.
var challenges = []struct {
	play adversary
	room func(limit int) uint64
}{
	{robson, endless},
	{robson, underBound},
	{creep(1900, false), endless},
	{creep(2, false), endless},
	{creep(2, true), endless},
}

// endless is a region that no play of so many operations fills.
func endless(limit int) uint64 { return uint64(limit) << 24 }

// underBound is a region in which Robson's program cannot be served.
func underBound(limit int) uint64 {
	peak, steps := robsonSize(limit)
	return max(uint64(0.98*robsonBound(peak, 1<<steps)), 1)
}

// errEnough ends a play: the limit is reached, or the allocator refused.
var errEnough = errors.New("fuzz: the play is over")

// board is a game in units of unit, with the chunks in order of age.
type board struct {
	g     *replay.Game
	limit int
	live  []piece

	refused uint64 // the request that ended the play, in units; 0 for none
}

// piece is a live chunk: where it is and how large, in units.
type piece struct {
	slot     uint32
	at, size uint64
}

func (b *board) alloc(size uint64) (piece, error) {
	if len(b.g.Ops()) >= b.limit {
		return piece{}, errEnough
	}
	slot, addr, ok, err := b.g.Alloc(size * unit)
	if err != nil {
		return piece{}, err
	}
	if !ok {
		b.refused = size
		return piece{}, errEnough
	}
	p := piece{slot, addr / unit, size}
	b.live = append(b.live, p)
	return p, nil
}

// free gives back what keep does not keep.
func (b *board) free(keep func(piece) bool) error {
	live := b.live[:0]
	for i, p := range b.live {
		if keep(p) {
			live = append(live, p)
			continue
		}
		if len(b.g.Ops()) >= b.limit {
			b.live = append(live, b.live[i:]...)
			return errEnough
		}
		if err := b.g.Free(p.slot); err != nil {
			return err
		}
	}
	b.live = live
	return nil
}

// robson is the program that shows Robson's bound ("Bounds for some functions
// concerning dynamic storage allocation", JACM 1974), which no allocator beats:
// in step i it keeps the chunks that lie on an address congruent f modulo 2^i,
// where f is the one of two candidates that wastes the most, frees all others,
// and fills up with chunks of 2^i units, for which there is no room between.
func robson(b *board, limit int, r *rand.Rand) error {
	peak, steps := robsonSize(limit)
	if r != nil {
		peak = 4 + r.Uint64N(2*peak)
		steps = 2 + r.IntN(steps+1)
	}
	for range peak {
		if _, err := b.alloc(1); err != nil {
			return err
		}
	}
	f := uint64(0)
	for i := 1; i <= steps; i++ {
		size := uint64(1) << i
		if b.wasted(f+size/2, size) > b.wasted(f, size) {
			f += size / 2
		}
		if err := b.free(func(p piece) bool { return p.on(f, size) }); err != nil {
			return err
		}
		live := uint64(0)
		for _, p := range b.live {
			live += p.size
		}
		for ; live+size <= peak; live += size {
			if _, err := b.alloc(size); err != nil {
				return err
			}
		}
	}
	return nil
}

// on reports whether p holds an address congruent f modulo size, a power of two.
func (p piece) on(f, size uint64) bool { return (f-p.at)&(size-1) < p.size }

// wasted is the room around the chunks that would be kept, in units.
func (b *board) wasted(f, size uint64) uint64 {
	sum := uint64(0)
	for _, p := range b.live {
		if p.on(f, size) {
			sum += size - p.size
		}
	}
	return sum
}

// robsonSize is the peak in units, and the steps, for which Robson's bound over
// the peak is largest among programs of about limit operations. A program of
// peak M takes 2.9 M.
func robsonSize(limit int) (peak uint64, steps int) {
	peak, steps = max(uint64(limit)*32/100, 4), 1
	for k := 2; 1<<k < peak; k++ {
		if robsonBound(peak, 1<<k) > robsonBound(peak, 1<<steps) {
			steps = k
		}
	}
	return peak, steps
}

// creep is for allocators that take the smallest hole. Robson showed that best
// fit's worst case is about the peak times the largest chunk ("Worst case
// fragmentation of first fit and best fit storage allocation strategies", The
// Computer Journal 1977), where no strategy's must be more than about the peak
// times half the logarithm of it. This program is simpler than his and
// leaves one unit live for each of ever larger gaps:
//
// All holes have at most `gap` units, but for the free end. The chunk C at the
// end has gap+2. A guard behind it goes to the end, since no hole holds it.
// Then C is freed and gap+1 units are asked for: the smallest hole that holds
// them is C's, and one unit of it remains, the smallest hole of all. The
// next unit asked for goes there, a fence. The chunk in front of it is freed
// again: a gap of gap+1, and the guard is the next C.
//
// A play of n steps has n units and two chunks of the largest size live, and an
// extent of n times that size. The first gap decides whom it hurts the most: large
// ones the plain best fit, small ones a strategy that takes the smallest hole for
// small requests alone. Fit does so below a roof over the live bytes (bufalloc's rule 7),
// which a chunk below all others raises: the floor. It counts as live itself, so that more
// than so many units as there are operations hurt less.
func creep(first uint64, floored bool) adversary {
	return func(b *board, limit int, r *rand.Rand) error {
		gap, step, floor := first, uint64(1), uint64(0)
		if floored {
			floor = uint64(limit)
		}
		if r != nil {
			gap = 1 << r.IntN(11)
			gap += r.Uint64N(gap)
			step = 1 + r.Uint64N(1+gap/16) // for those that tell sizes apart by bins
			floor *= r.Uint64N(8)
		}
		if floor > 0 {
			if _, err := b.alloc(floor); err != nil {
				return err
			}
		}
		return b.creep(gap, step)
	}
}

// creep plays on until the limit.
func (b *board) creep(gap, step uint64) error {
	c, err := b.alloc(gap + 2*step)
	for err == nil {
		var guard, front piece
		if guard, err = b.alloc(gap + 3*step); err != nil {
			break
		}
		if err = b.free(func(p piece) bool { return p != c }); err != nil {
			break
		}
		if front, err = b.alloc(gap + step); err != nil {
			break
		}
		if _, err = b.alloc(step); err != nil {
			break
		}
		err = b.free(func(p piece) bool { return p != front })
		c, gap = guard, gap+step
	}
	return err
}

// play lets an adversary play against the subject in a region of room
// units, and returns what it played, with the request that was refused at its end.
func play(ctx context.Context, s replay.Subject, a adversary, limit int, room uint64, r *rand.Rand) (ops []replay.Op, err error) {
	g, err := replay.NewGame(ctx, s, unit, limit+1, room*unit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	b := &board{g: g, limit: limit}
	if err := a(b, limit, r); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	ops = renumber(g.Ops())
	if b.refused != 0 {
		ops = append(ops, replay.Op{Size: b.refused * unit, Slot: uint32(len(ops))})
	}
	return renumber(ops), nil
}
