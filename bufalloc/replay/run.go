package replay

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

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

// WorstOp is the slowest operation of a replay.
type WorstOp struct {
	Index int     `json:"index"`
	Op    string  `json:"op"`    // alloc or free
	Size  uint64  `json:"bytes"` // of an alloc
	NS    float64 `json:"ns"`    // the smallest over the repeats
}

// Fragmentation sums up a replay's external fragmentation, sampled.
type Fragmentation struct {
	Mean   float64 `json:"mean"`
	Max    float64 `json:"max"`
	MaxAt  int     `json:"max_at"`  // operation
	AtPeak float64 `json:"at_peak"` // where live bytes peak
}

// Run is one replay through one region.
type Run struct {
	HighWater     uint64        `json:"high_water"` // bytes
	Failures      int           `json:"failures"`   // allocations that did not fit; their frees are left out
	FirstFailure  int           `json:"first_failure"`
	Scans         uint64        `json:"scans"` // searches in full, as a last resort
	Fragmentation Fragmentation `json:"fragmentation"`
	Series        []Point       `json:"series,omitempty"`
}

// samples is about how many points of a replay are looked at for Series.
const samples = 1000

// state is a replay in progress.
type state struct {
	st     *Stream
	r      *bufalloc.Region
	chunks []bufalloc.Chunk // by slot; the zero chunk where an allocation failed
}

func newState(st *Stream, s bufalloc.Strategy, size uint64) (*state, error) {
	r, err := newRegion(st, s, size)
	if err != nil {
		return nil, err
	}
	return &state{st, r, make([]bufalloc.Chunk, st.Slots)}, nil
}

// do performs an operation. ok is false where an allocation did not fit.
func (s *state) do(op Op) (ok bool) {
	if op.Size != 0 {
		c, err := s.r.Alloc(op.Size, s.st.Align)
		s.chunks[op.Slot] = c
		return err == nil
	}
	if c := s.chunks[op.Slot]; !c.IsZero() {
		if err := s.r.Free(c); err != nil {
			panic(fmt.Sprintf("replay: %s, slot %d: %v", s.st.Name, op.Slot, err)) // only replay holds the chunk
		}
	}
	return true
}

func (s *state) point(i int) Point {
	x := s.r.Stats()
	return Point{i, x.Live + x.Slack, x.Free, x.HighWater, x.LargestFree}
}

// Replay runs st once through a region of size bytes. Its result is the same
// on every machine.
func Replay(ctx context.Context, st *Stream, strategy bufalloc.Strategy, size uint64) (Run, error) {
	s, err := newState(st, strategy, size)
	if err != nil {
		return Run{}, err
	}
	run := Run{FirstFailure: -1}
	every := max(len(st.Ops)/samples, 1)
	sum := 0.0
	for i, op := range st.Ops {
		if !s.do(op) {
			if run.Failures == 0 {
				run.FirstFailure = i
			}
			run.Failures++
		}
		if i%every != 0 && i != st.PeakAt {
			continue
		}
		if err := ctx.Err(); err != nil {
			return run, err
		}
		p := s.point(i)
		f := p.Fragmentation()
		if i == st.PeakAt {
			run.Fragmentation.AtPeak = f
		}
		if f > run.Fragmentation.Max {
			run.Fragmentation.Max, run.Fragmentation.MaxAt = f, i
		}
		sum += f
		run.Series = append(run.Series, p)
	}
	run.Fragmentation.Mean = sum / float64(len(run.Series))
	x := s.r.Stats()
	run.HighWater, run.Scans = x.HighWater, x.Scans
	return run, nil
}

// Times are what a machine took; they differ from run to run.
type Times struct {
	NSPerOp float64  `json:"ns_per_op"` // median over repeats of all operations past Stream.Warm
	Worst   WorstOp  `json:"worst_op"`  // among the operations that did not scan
	Scan    *WorstOp `json:"worst_scan,omitempty"`
	TimerNS float64  `json:"timer_ns"` // what reading the clock costs; taken off Worst and Scan
}

// Time replays st through a region of size bytes `repeats` times for the mean
// of an operation, and as often with a clock around each operation for the
// worst. Each repeat starts from an empty region whose bookkeeping is in place.
func Time(ctx context.Context, st *Stream, strategy bufalloc.Strategy, size uint64, repeats int) (Times, error) {
	s, err := newState(st, strategy, size)
	if err != nil {
		return Times{}, err
	}
	scanned := s.scanned()
	means := make([]float64, 0, repeats)
	least := make([]float64, len(st.Ops))
	for i := range least {
		least[i] = math.Inf(1)
	}
	for range max(repeats, 1) {
		if err := ctx.Err(); err != nil {
			return Times{}, err
		}
		means = append(means, s.mean())
		s.each(least)
	}
	t := Times{NSPerOp: Median(means), TimerNS: clockCost()}
	t.pick(st, least, scanned)
	return t, nil
}

// scanned finds the operations that search in full as a last resort; nil where
// none does.
func (s *state) scanned() map[int]bool {
	s.r.Reset()
	for _, op := range s.st.Ops {
		s.do(op)
	}
	if s.r.Stats().Scans == 0 {
		return nil
	}
	s.r.Reset()
	at := make(map[int]bool)
	last := uint64(0)
	for i, op := range s.st.Ops {
		s.do(op)
		if op.Size == 0 {
			continue
		}
		if n := s.r.Stats().Scans; n != last {
			at[i], last = true, n
		}
	}
	return at
}

// mean times the operations past Warm together, in ns.
func (s *state) mean() float64 {
	s.r.Reset()
	for _, op := range s.st.Ops[:s.st.Warm] {
		s.do(op)
	}
	timed := s.st.Ops[s.st.Warm:]
	start := time.Now()
	for _, op := range timed {
		s.do(op)
	}
	return float64(time.Since(start).Nanoseconds()) / float64(max(len(timed), 1))
}

// each times every operation and keeps the least time seen for it, in ns.
func (s *state) each(least []float64) {
	s.r.Reset()
	epoch := time.Now()
	for i, op := range s.st.Ops {
		start := time.Since(epoch)
		s.do(op)
		least[i] = min(least[i], float64(time.Since(epoch)-start))
	}
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

// clockCost is the least time between two readings of the clock, in ns.
func clockCost() float64 {
	least := math.Inf(1)
	epoch := time.Now()
	for range 2000 {
		start := time.Since(epoch)
		least = min(least, float64(time.Since(epoch)-start))
	}
	return least
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
