package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/ledger"
	"godwit/mem"
	"godwit/mem/trace"
)

const (
	size    = 24
	initial = -1
)

func span(start, end uint64) mem.Range { return mem.Range{Start: start, End: end} }

// collect is what Held yields.
func collect(l *ledger.Ledger[int], m mem.MemoryID) (out []int) {
	for r, w := range l.Held(1, m, span(0, size)) {
		out = append(out, int(r.Start), w)
	}
	return out
}

// TestASmallerCountTakesNothingAway: a step under a count carries nothing of what lies
// beyond it, and what a larger count has carried there before is there still.
func TestASmallerCountTakesNothingAway(t *testing.T) {
	l := ledger.New[int](nil)
	l.Create(1, size, initial)
	l.Create(2, 8, initial)
	l.CountBy(1, 2)
	c := &trace.CommandRecord{
		Accesses: []mem.Access{{Buffer: 1, Range: span(0, size), Memory: 1}},
		Steps:    []trace.StepRecord{{Buffer: 1, Range: span(0, size), To: 1, Late: true, Count: 2}},
	}
	for command, x := range []struct{ count, needed uint64 }{{16, 16}, {4, 0}, {20, 4}, {0, 0}, {size, size - 20}} {
		l.Wrote(command+1, []mem.Access{{Buffer: 2, Range: span(0, 8), Mode: mem.Write}}, false)
		require.Equal(t, x.needed, l.Needed(c, func(*trace.StepRecord) (uint64, bool) { return x.count, true }), "count %d", x.count)
		l.Brought(&c.Steps[0], x.count, true)
	}
	l.Wrote(9, []mem.Access{{Buffer: 1, Range: span(0, 8), Mode: mem.Write}}, false)
	l.Wrote(10, []mem.Access{{Buffer: 2, Range: span(0, 8), Mode: mem.Write}}, false)
	l.Brought(&c.Steps[0], 2, true)
	l.CountBy(1, 0)
	require.EqualValues(t, 6, l.Needed(&trace.CommandRecord{Accesses: c.Accesses}, nil), "what is new was carried as far as the last count")
}

func TestHeldIsWhatAMemoryHadBefore(t *testing.T) {
	l := ledger.New[int](nil)
	l.Create(1, size, initial)
	l.Brought(&trace.StepRecord{Buffer: 1, Range: span(0, 16), To: 2}, 0, false)
	l.Wrote(1, []mem.Access{{Buffer: 1, Range: span(4, 8), Mode: mem.Write, Memory: 1}}, false)
	l.Wrote(2, []mem.Access{{Buffer: 1, Range: span(6, 8), Mode: mem.Write, Memory: 1}}, true)
	require.Equal(t, []int{0, initial, 16, 0}, collect(l, 2), "it has not heard of the writes")
	require.Equal(t, []int{0, 0, 4, 1, 8, 0}, collect(l, 1), "what failed was never there")
	require.Equal(t, []int{0, 0}, collect(l, 3))
	var valid []int
	for r, c := range l.Segments(1, span(0, size)) {
		valid = append(valid, int(r.Start), c.Writer, c.Valid.Len())
	}
	require.Equal(t, []int{0, initial, 2, 4, 1, 1, 6, 2, 0, 8, initial, 2, 16, initial, 1}, valid)
	l.Release(1)
	for r := range l.Segments(1, span(0, size)) {
		t.Fatalf("%v of a buffer that was released", r)
	}
}

func TestWhatWasEvictedIsNeededAgain(t *testing.T) {
	l := ledger.New[int](nil)
	l.Create(1, size, initial)
	reads := &trace.CommandRecord{Accesses: []mem.Access{{Buffer: 1, Range: span(0, size), Memory: 1}}}
	l.Brought(&trace.StepRecord{Buffer: 1, Range: span(0, size), To: 1}, 0, false)
	require.Zero(t, l.Needed(reads, nil))
	require.Zero(t, l.Evicted(1, 1, span(0, 16)), "the host has it")
	require.EqualValues(t, 16, l.Needed(reads, nil))
	require.Equal(t, []int{0, initial}, collect(l, 1), "what it held is remembered")
	l.Wrote(1, []mem.Access{{Buffer: 1, Range: span(0, 4), Mode: mem.Write, Memory: 2}}, false)
	require.EqualValues(t, 4, l.Evicted(1, 2, span(0, size)), "nobody else has it")
	require.Zero(t, l.Evicted(9, 1, span(0, 1)))
}
