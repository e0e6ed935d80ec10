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
	Worst   worstOp  `json:"worst_op" show:"worst "`        // among the operations that did not scan
	Scan    *worstOp `json:"worst_scan,omitempty"`
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
	x := newTiming(st, c)
	for range max(repeats, 1) {
		r, err := x.round(ctx)
		if err != nil || !r.timed {
			return Times{}, err
		}
	}
	t, _ = x.worst()
	t.NSPerOp = median(x.ns) / float64(max(len(st.Ops)-st.Warm, 1))
	return t, nil
}

// timing is what the rounds of one contender on one stream took, in ns.
type timing struct {
	contender
	st             *Stream
	ns             []float64 // by round: all operations past Warm
	least, batches []float64 // the least of each operation and batch over the rounds
}

func newTiming(st *Stream, c contender) *timing {
	return &timing{c, st, nil, infinities(len(st.Ops)), infinities(len(st.Ops)/batchOps + 1)}
}

func infinities(n int) []float64 { return slices.Repeat([]float64{math.Inf(1)}, n) }

func (t *timing) round(ctx context.Context) (lap, error) {
	r, err := t.contender.round(ctx, t.batches, t.least)
	t.ns = append(t.ns, r.ns)
	return r, err
}

// worst are the slowest operations, and how many scanned.
func (t *timing) worst() (x Times, scans int) {
	x.TimerNS = clockCost()
	scanned := t.scanned()
	for i := t.st.Warm; i < len(t.least); i++ {
		w := worstOp{Index: i, Op: "alloc", Size: t.st.Ops[i].Size, NS: max(t.least[i]-x.TimerNS, 0)}
		if w.Size == 0 {
			w.Op = "free"
		}
		switch {
		case !scanned[i]:
			if w.NS > x.Worst.NS {
				x.Worst = w
			}
		case x.Scan == nil || w.NS > x.Scan.NS:
			x.Scan = &w
		}
	}
	return x, len(scanned)
}

// median is the middle value, the mean of both middle ones for an even number;
// 0 for none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// interval is where the median of what v was drawn from lies, with 95 % confidence where v
// has six values or more, whatever the distribution: so many values are left out at either
// end as have both tails of the binomial distribution at no more than 5 %.
func interval(v []float64) (low, high float64) {
	s := slices.Sorted(slices.Values(v))
	n, k := len(s), 0
	chance := func(k int) float64 {
		return math.Exp(lnFactorial(n) - lnFactorial(k) - lnFactorial(n-k) - float64(n)*math.Ln2)
	}
	for tail := chance(0); ; k++ { // of k values or fewer below the median
		if tail += chance(k + 1); 2*tail > 0.05 || 2*(k+1) >= n {
			return s[k], s[n-1-k]
		}
	}
}

func lnFactorial(n int) float64 {
	ln, _ := math.Lgamma(float64(n + 1))
	return ln
}
