package replay

import (
	"context"
	"errors"

	"godwit/bufalloc"
)

// Point is the state of a region after an operation. Sizes in bytes.
type Point struct {
	Op          int    `json:"op"` // index of the operation
	Live        uint64 `json:"live"`
	Free        uint64 `json:"free"`
	HighWater   uint64 `json:"high_water"`
	LargestFree uint64 `json:"largest_free"`
}

// Fragmentation is the external fragmentation, 1 - LargestFree/Free.
func (p Point) Fragmentation() float64 {
	if p.Free == 0 {
		return 0
	}
	return 1 - float64(p.LargestFree)/float64(p.Free)
}

// worstOp is the slowest operation of a replay.
type worstOp struct {
	Index int     `json:"index"`
	Op    string  `json:"op"`                  // alloc or free
	Size  uint64  `json:"bytes"`               // of an alloc
	NS    float64 `json:"ns" show:"ns|%.0f|-"` // the smallest over the repeats
}

// fragmentation sums up a replay's external fragmentation, sampled.
type fragmentation struct {
	Mean   float64 `json:"mean" show:"mean|%.3f|-"`
	Max    float64 `json:"max" show:"max|%.3f|-"`
	MaxAt  int     `json:"max_at"`  // operation
	AtPeak float64 `json:"at_peak"` // where live bytes peak
}

// Run is one replay through one region.
type Run struct {
	HighWater     uint64        `json:"high_water"`               // bytes
	Failures      int           `json:"failures" show:"failures"` // allocations that did not fit; their frees are left out
	FirstFailure  int           `json:"first_failure"`
	Scans         uint64        `json:"scans"` // searches in full, as a last resort
	Fragmentation fragmentation `json:"fragmentation" show:"frag "`
	Series        []Point       `json:"series,omitempty"`

	Plan *bufalloc.PlanStats `json:"plan,omitempty"` // what a plan was worth, where one was given
}

// samples is about how many points of a replay are looked at for Series.
const samples = 1000

// Replay runs st once through a region of size bytes. Its result is the same
// on every machine. It fails with a *Fault where the subject breaks its contract.
func Replay(ctx context.Context, st *Stream, subject Subject, size uint64) (Run, error) {
	run := Run{FirstFailure: -1}
	every := max(len(st.Ops)/samples, 1)
	sum := 0.0
	err := through(ctx, st, subject, size, all, func(m machine, i int, ok bool) error {
		if !ok {
			if run.Failures == 0 {
				run.FirstFailure = i
			}
			run.Failures++
		}
		if i == len(st.Ops)-1 {
			x := m.stats()
			run.HighWater, run.Scans = x.HighWater, x.Scans
			run.Plan = planStats(m)
		}
		if i%every != 0 && i != st.PeakAt {
			return nil
		}
		p := pointOf(i, m.stats())
		f := p.Fragmentation()
		if i == st.PeakAt {
			run.Fragmentation.AtPeak = f
		}
		if f > run.Fragmentation.Max {
			run.Fragmentation.Max, run.Fragmentation.MaxAt = f, i
		}
		sum += f
		run.Series = append(run.Series, p)
		return ctx.Err()
	})
	if err == nil {
		run.Fragmentation.Mean = sum / float64(len(run.Series))
	}
	return run, err
}

// planStats is what a plan was worth so far; nil for a machine without one.
func planStats(m machine) *bufalloc.PlanStats {
	s, ok := m.(*state)
	if !ok || !s.planned {
		return nil
	}
	x := s.r.PlanStats()
	return &x
}

// through performs a stream's operations in a region of size bytes and shows each
// after it was done. It ends with see's error, and with a *Fault that says where in the
// stream it happened.
func through(ctx context.Context, st *Stream, subject Subject, size uint64, ask asking, see func(m machine, i int, ok bool) error) (err error) {
	m, err := subject.open(ctx, st, size, ask)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	for i, op := range st.Ops {
		ok, err := m.do(op)
		if err != nil {
			return blame(err, st, i, size)
		}
		if err := see(m, i, ok); err != nil {
			return err
		}
	}
	return nil
}

// blame says of a fault where in the stream it happened.
func blame(err error, st *Stream, op int, size uint64) error {
	if f := (*Fault)(nil); errors.As(err, &f) {
		return f.at(st, op, size)
	}
	return err
}
