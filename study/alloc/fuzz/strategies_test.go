package fuzz

import (
	"errors"
	"testing"

	"godwit/bufalloc"
	"godwit/mem"
	"godwit/study/alloc/replay"
)

// fits reports whether some hole holds size bytes; all addresses are multiples of
// unit.
func fits(r *bufalloc.Region, size uint64) bool {
	for s := range r.Walk() {
		if s.Free() && s.Range.Size() >= size {
			return true
		}
	}
	return false
}

// against replays st through a strategy with Check after each step, by which no two
// chunks share a byte, and returns where the first failure was, or -1.
func against(t *testing.T, st *replay.Stream, s bufalloc.Strategy, size uint64) (firstFailure int) {
	t.Helper()
	r, err := bufalloc.NewRegion(0, size, bufalloc.Options{Strategy: s, Granularity: unit})
	if err != nil {
		t.Fatal(err)
	}
	held := make([]bufalloc.Chunk, st.Slots)
	firstFailure = -1
	for i, op := range st.Ops {
		if op.Size == 0 {
			if c := held[op.Slot]; !c.IsZero() {
				free(t, r, c)
			}
		} else if c, err := r.Alloc(op.Size, unit); err == nil {
			held[op.Slot] = c
			at, err := r.Range(c)
			if err != nil || at.Size() != op.Size || at.Start%unit != 0 {
				t.Fatalf("%v, operation %d: %d bytes at %v (%v)", s, i, op.Size, at, err)
			}
		} else {
			if !errors.Is(err, mem.ErrNoMemory) || (s.Exact() && fits(r, op.Size)) {
				t.Fatalf("%v, operation %d: %d bytes fit and were refused: %v", s, i, op.Size, err)
			}
			if firstFailure < 0 {
				firstFailure = i
			}
		}
		if err := r.Check(); err != nil {
			t.Fatalf("%v, operation %d: %v", s, i, err)
		}
	}
	drain(t, r, st, held)
	return firstFailure
}

func free(t *testing.T, r *bufalloc.Region, c bufalloc.Chunk) {
	t.Helper()
	if err := r.Free(c); err != nil {
		t.Fatal(err)
	}
	if err := r.Free(c); !errors.Is(err, bufalloc.ErrStaleChunk) {
		t.Fatalf("%v: freed twice: %v", r.Strategy(), err)
	}
}

// drain frees everything; the strategies that merge have one hole then.
func drain(t *testing.T, r *bufalloc.Region, st *replay.Stream, held []bufalloc.Chunk) {
	t.Helper()
	for slot := range st.Slots {
		if _, err := r.Addr(held[slot]); err == nil {
			free(t, r, held[slot])
		}
	}
	x := r.Stats()
	if x.Chunks != 0 || x.Free != x.Capacity {
		t.Fatalf("%v: %d chunks, %d of %d bytes free after all was freed", r.Strategy(), x.Chunks, x.Free, x.Capacity)
	}
	if r.Strategy() <= bufalloc.GoodFit && x.Holes != 1 {
		t.Fatalf("%v: %d holes in an empty region", r.Strategy(), x.Holes)
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
}

// maxFuzzOps keeps one input's run short.
const maxFuzzOps = 200

// FuzzStrategies holds every strategy to the rules, in a region with
// a quarter to spare and in one with ample room, where strategies must agree
// that nothing fails.
func FuzzStrategies(f *testing.F) {
	f.Add([]byte{255, 0, 0, 31, 0, 0, 1, 31, 255, 8, 0, 31})
	f.Add([]byte{255, 200, 7, 3, 255, 100, 1, 3, 0, 1, 1, 1, 255, 60, 60, 5})
	f.Fuzz(func(t *testing.T, genome []byte) {
		st, err := stream(express(genome, maxFuzzOps))
		if err != nil {
			if !errors.Is(err, mem.ErrInvalidValue) {
				t.Fatal(err)
			}
			return
		}
		var sum uint64
		for _, op := range st.Ops {
			sum += op.Size
		}
		for _, s := range bufalloc.Strategies() {
			against(t, st, s, failure.region(st.PeakLive+3*unit))
			// Buddies and powers of two waste up to a half, and alignment to
			// their size as much again.
			if at := against(t, st, s, 8*sum); at >= 0 {
				t.Fatalf("%v fails at operation %d with eight times the sum of all sizes", s, at)
			}
		}
	})
}
