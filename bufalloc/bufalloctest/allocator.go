package bufalloctest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/alloc/replay"
)

// Allocator replays random streams through allocators that open makes, with all
// answers checked: no chunk overlaps a live one, lies outside or is misaligned,
// and none panics. With eight times the room of all that was ever asked for,
// nothing is refused; a refusal in less room changes nothing and what is freed
// can be had again, so that the same work goes on for ever.
func Allocator(t *testing.T, open replay.OpenAllocator) {
	s := replay.OfAllocator("the allocator", open)
	for seed := range uint64(20) {
		for _, align := range []uint64{1, 64, 4096} {
			st := mixed(t, seed, align, 1)
			run, err := replay.Replay(t.Context(), st, s, room(st, 8))
			require.NoError(t, err, "seed %d, alignment %d", seed, align)
			require.Zero(t, run.Failures, "seed %d, alignment %d: refused with eight times the room", seed, align)
			_, err = replay.Replay(t.Context(), st, s, st.PeakLive)
			require.NoError(t, err, "seed %d, alignment %d, in a region of the peak of live bytes", seed, align)
			_, err = replay.Replay(t.Context(), st.WithHints(seed), s, room(st, 1))
			require.NoError(t, err, "seed %d, alignment %d, with hints", seed, align)
		}
	}
	again := mixed(t, 1, 16, 30)
	run, err := replay.Replay(t.Context(), again, s, room(mixed(t, 1, 16, 1), 8))
	require.NoError(t, err)
	require.Zero(t, run.Failures, "the same work, all of it freed each time, runs out of room in the end")
}

// room is so many times the sum of all sizes of the stream.
func room(st *replay.Stream, times uint64) uint64 {
	sum := uint64(0)
	for _, op := range st.Ops {
		sum += (op.Size + st.Align - 1) &^ (st.Align - 1)
	}
	return times * sum
}

// mixed is a stream of allocations and frees that ends with nothing live, so
// many times.
func mixed(t *testing.T, seed, align uint64, times int) *replay.Stream {
	const slots, steps = 60, 400
	var ops []replay.Op
	for range times {
		rng := rand.New(rand.NewPCG(seed, align))
		var full [slots]bool
		for range steps {
			k := rng.IntN(slots)
			op := replay.Op{Slot: uint32(k)}
			if full[k] = !full[k]; full[k] {
				op.Size = 1 + rng.Uint64N(1<<rng.IntN(20))
			}
			ops = append(ops, op)
		}
		for k := range full {
			if full[k] {
				ops = append(ops, replay.Op{Slot: uint32(k)})
			}
		}
	}
	st, err := replay.NewStream("mixed", align, ops)
	require.NoError(t, err)
	return st
}
