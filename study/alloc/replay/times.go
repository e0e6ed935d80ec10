package replay

import (
	"context"
	"errors"
	"math"
	"slices"
)

// Times are what a machine took; they differ from run to run.
type Times struct {
	NSPerOp float64  `json:"ns_per_op" show:"ns/op|%.0f|-"` // median over repeats of all operations past Stream.Warm
	Worst   WorstOp  `json:"worst_op" show:"worst "`        // among the operations that did not scan
	Scan    *WorstOp `json:"worst_scan,omitempty"`
	TimerNS float64  `json:"timer_ns"` // what reading the clock costs; taken off Worst and Scan
}

// Time replays st through a region of size bytes `repeats` times for the mean
// of an operation, and as often with a clock around each operation for the
// worst. Each repeat starts from an empty region whose bookkeeping is in place.
//
// An allocator in another process takes the times itself; the result is the zero
// Times where it cannot.
func Time(ctx context.Context, st *Stream, subject Subject, size uint64, repeats int) (t Times, err error) {
	c, err := subject.contend(ctx, st, size)
	if err != nil {
		return Times{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	scanned := c.scanned()
	means := make([]float64, 0, repeats)
	least := make([]float64, len(st.Ops))
	for i := range least {
		least[i] = math.Inf(1)
	}
	for range max(repeats, 1) {
		if err := ctx.Err(); err != nil {
			return Times{}, err
		}
		r, err := c.round(ctx, nil, least)
		if err != nil || !r.timed {
			return Times{}, err
		}
		means = append(means, r.ns/float64(max(len(st.Ops)-st.Warm, 1)))
	}
	t = Times{NSPerOp: Median(means), TimerNS: c.clock()}
	t.pick(st, least, scanned)
	return t, nil
}

func (t *Times) pick(st *Stream, least []float64, scanned map[int]bool) {
	for i := st.Warm; i < len(least); i++ {
		w := WorstOp{Index: i, Op: "alloc", Size: st.Ops[i].Size, NS: max(least[i]-t.TimerNS, 0)}
		if w.Size == 0 {
			w.Op = "free"
		}
		switch {
		case !scanned[i]:
			if w.NS > t.Worst.NS {
				t.Worst = w
			}
		case t.Scan == nil || w.NS > t.Scan.NS:
			t.Scan = &w
		}
	}
}

// Median is the middle value, the mean of both middle ones for an even number;
// 0 for none.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
