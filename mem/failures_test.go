package mem_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// A model that remembers everything is asked the same: a failure is never
// forgotten, a cause exactly where it was dropped.
func TestACauseCanBeDroppedAndTheFailureStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := mem.NewTimeline("q", false, nil)
		want := make(map[mem.Point]error)
		for range rapid.IntRange(1, 8).Draw(t, "runs") {
			// Whole pages of failures too, which share their bits.
			n := rapid.OneOf(rapid.IntRange(1, 50), rapid.IntRange(4000, 9000)).Draw(t, "points")
			every := rapid.SampledFrom([]int{1, 1, 2, 3, 64}).Draw(t, "one in")
			drop := rapid.Bool().Draw(t, "dropped")
			for i := range n {
				p := l.Next()
				if i%every > 0 {
					l.End(p, nil)
					want[p] = nil
					continue
				}
				l.End(p, errTest)
				want[p] = errTest
				if drop {
					l.DropCause(p)
					l.DropCause(p) // changes nothing
					want[p] = mem.ErrFailed
				}
			}
		}
		for p, err := range want {
			if p.Err() != err || p.Succeeded() != (err == nil) {
				t.Fatalf("%v: %v, want %v; succeeded: %v", p, p.Err(), err, p.Succeeded())
			}
		}
	})
}

func TestDroppingTheCauseOfWhatHasNotFailedChangesNothing(t *testing.T) {
	l := mem.NewTimeline("q", true, nil)
	p, q := l.Next(), l.Next()
	l.End(p, nil)
	l.DropCause(p)
	l.DropCause(q)
	require.True(t, p.Succeeded())
	l.End(q, errTest)
	require.ErrorIs(t, q.Err(), errTest)
}

// Half of a million points fail and nobody asks why: what is left is at most a
// bit for each.
func TestFailuresWithoutCausesCostABitEach(t *testing.T) {
	l := mem.NewTimeline("q", true, nil)
	const n = 1 << 20
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			l = mem.NewTimeline("q", true, nil)
			for i := range n {
				p := l.Next()
				if i%2 == 0 {
					l.End(p, errTest)
					l.DropCause(p)
				} else {
					l.End(p, nil)
				}
			}
		}
	}).AllocedBytesPerOp()
	require.ErrorIs(t, mem.Point{Line: l, Seq: 1}.Err(), mem.ErrFailed)
	require.Less(t, allocated, int64(n/8*2))
}
