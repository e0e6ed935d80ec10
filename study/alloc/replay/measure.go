package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Options say how Measure works. The zero value searches the smallest region,
// takes no times and uses all cores.
type Options struct {
	Region   uint64 // bytes; 0 searches the smallest that works for each strategy
	Repeats  int    // for times; 0 takes none
	Safe     bool   // also the safe region, where Region is 0; a few hundred replays more
	Workers  int    // 0: as many as there are cores
	Progress func() // called once for every stream and strategy done, from many goroutines
}

// Result is what one strategy makes of one stream. Sizes in bytes.
type Result struct {
	Trace        string `json:"trace" show:"trace"`
	Strategy     string `json:"strategy" show:"strategy"`
	Align        uint64 `json:"align"`
	Ops          int    `json:"ops"`
	PeakLive     uint64 `json:"peak_live" show:"peak live|size"`      // sizes rounded up to Align
	Region       uint64 `json:"region" show:"region|size|never fits"` // the region replayed through; 0 where none works
	MinRegion    uint64 `json:"min_region"`                           // 0 where none works, or none was searched
	Overhead     ratio  `json:"overhead" show:"overhead|%.4f|-"`      // MinRegion / PeakLive; null where there is none
	SafeRegion   uint64 `json:"safe_region"`                          // above it nothing fails that was tried; 0 where none was searched or is known
	Safe         ratio  `json:"safe" show:"safe|%.4f|-"`              // SafeRegion / PeakLive; null where there is none
	Probes       int    `json:"probes,omitempty"`
	Exhaustive   bool   `json:"exhaustive"`              // every smaller size of the grid fails
	FailingAbove uint64 `json:"failing_above,omitempty"` // a larger region that fails nevertheless
	Fault        *Fault `json:"fault,omitempty"`         // how an allocator of one's own broke its contract; then nothing else counts
	Run
	*Times
}

// ratio is one that may be missing: 0 is no ratio, and null in JSON, so that nobody takes
// what never fits or crashed for what is best.
type ratio float64

// MarshalJSON implements json.Marshaler.
func (r ratio) MarshalJSON() ([]byte, error) {
	if r == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// Measure runs every stream through every strategy: searches and replays on
// all cores, and then the times one after the other, so that they do not
// disturb each other. Results are ordered by stream and then by strategy. It
// stops early with ctx's error when ctx ends.
func Measure(ctx context.Context, streams []*Stream, subjects []Subject, o Options) ([]Result, error) {
	results := make([]Result, len(streams)*len(subjects))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(max(o.Workers, 0), runtime.GOMAXPROCS(0)))
	for i := range results {
		st, s := streams[i/len(subjects)], subjects[i%len(subjects)]
		g.Go(func() (err error) {
			results[i], err = measureOne(gctx, st, s, o)
			err = results[i].keepFault(err)
			if o.Progress != nil && err == nil {
				o.Progress()
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if o.Repeats == 0 {
		return results, nil
	}
	for i := range results {
		r := &results[i]
		if r.Region == 0 || r.Fault != nil {
			continue
		}
		t, err := Time(ctx, streams[i/len(subjects)], subjects[i%len(subjects)], r.Region, o.Repeats)
		if err = r.keepFault(err); err != nil {
			return nil, err
		}
		if t.NSPerOp > 0 {
			r.Times = &t
		}
	}
	return results, nil
}

// keepFault keeps a fault as a result; it returns any other error.
func keepFault(at **Fault, err error) error {
	if errors.As(err, at) {
		return nil
	}
	return err
}

// keepFault is of a result in which nothing else counts then.
func (r *Result) keepFault(err error) error {
	if err = keepFault(&r.Fault, err); r.Fault != nil {
		r.Region, r.MinRegion, r.Overhead, r.SafeRegion, r.Safe = 0, 0, 0, 0, 0
	}
	return err
}

func measureOne(ctx context.Context, st *Stream, s Subject, o Options) (Result, error) {
	res := Result{Trace: st.Name, Strategy: s.Name(), Align: st.Align, Ops: len(st.Ops),
		PeakLive: st.PeakLive, Region: o.Region}
	if o.Region == 0 {
		m, err := MinRegion(ctx, st, s)
		if err != nil {
			return res, err
		}
		res.Region, res.MinRegion, res.Probes = m.Region, m.Region, m.Probes
		res.Exhaustive, res.FailingAbove = m.Exhaustive, m.FailingAbove
		res.Overhead = ratio(m.Region) / ratio(st.PeakLive)
		if m.Region == 0 {
			res.FirstFailure = -1
			return res, nil
		}
	}
	if o.Region == 0 && o.Safe {
		x, err := safeRegion(ctx, st, s)
		if err != nil {
			return res, err
		}
		res.SafeRegion, res.Safe = x, ratio(x)/ratio(st.PeakLive)
	}
	run, err := Replay(ctx, st, s, res.Region)
	res.Run = run
	if err == nil && o.Region == 0 && run.Failures > 0 {
		err = fmt.Errorf("%s, %s: %d failures in the region of %d bytes that had worked", st.Name, s.Name(), run.Failures, res.Region)
	}
	return res, err
}

// Mean sums up one strategy over several streams.
type Mean struct {
	Strategy    string  `json:"strategy" show:"geometric mean"`
	Traces      int     `json:"traces" show:"traces"`         // streams with an overhead
	NeverFits   int     `json:"never_fits" show:"never fits"` // streams without one
	Faults      int     `json:"faults" show:"faults"`         // streams on which it broke its contract
	Safe        ratio   `json:"safe" show:"safe|%.4f|-"`      // geometric mean of the safe regions over the peaks; null where a stream has none
	SafeMax     ratio   `json:"safe_max" show:"worst safe|%.4f|-"`
	Overhead    ratio   `json:"overhead" show:"overhead|%.4f|-"`  // geometric mean; null for none
	OverheadMax ratio   `json:"overhead_max" show:"worst|%.4f|-"` // the worst; null for none
	NSPerOp     float64 `json:"ns_per_op" show:"ns/op|%.0f|-"`    // geometric mean; 0 where no times were taken
	Failures    int     `json:"failures" show:"failures"`         // sum
}

// Means sums results up by strategy: those of which all safe regions are known in the
// order of these, then the others in order of first appearance.
func Means(results []Result) []Mean {
	var order []string
	by := make(map[string][]Result)
	for _, r := range results {
		if by[r.Strategy] == nil {
			order = append(order, r.Strategy)
		}
		by[r.Strategy] = append(by[r.Strategy], r)
	}
	var out []Mean
	for _, name := range order {
		out = append(out, meanOf(name, by[name]))
	}
	slices.SortStableFunc(out, func(a, b Mean) int {
		if (a.Safe == 0) != (b.Safe == 0) {
			return cmp.Compare(b.Safe, a.Safe)
		}
		return cmp.Compare(a.Safe, b.Safe)
	})
	return out
}

func meanOf(name string, results []Result) Mean {
	m := Mean{Strategy: name}
	var overhead, safe, ns logs
	for _, r := range results {
		m.Failures += r.Failures
		switch {
		case r.Fault != nil:
			m.Faults++
			continue
		case r.Overhead > 0:
			m.Traces++
		case r.Region == 0:
			m.NeverFits++
		}
		overhead.add(float64(r.Overhead))
		safe.add(float64(r.Safe))
		if r.Times != nil {
			ns.add(r.NSPerOp)
		}
	}
	m.Overhead, m.OverheadMax, m.NSPerOp = ratio(overhead.mean()), ratio(overhead.most), ns.mean()
	if safe.n == len(results) { // a mean of some would flatter
		m.Safe, m.SafeMax = ratio(safe.mean()), ratio(safe.most)
	}
	return m
}

// logs is the geometric mean of positive values in the making.
type logs struct {
	sum, most float64
	n         int
}

// add adds a value; one that is not positive is none.
func (l *logs) add(v float64) {
	if v > 0 {
		l.sum, l.most, l.n = l.sum+math.Log(v), max(l.most, v), l.n+1
	}
}

// mean is 0 for none.
func (l *logs) mean() float64 {
	if l.n == 0 {
		return 0
	}
	return math.Exp(l.sum / float64(l.n))
}
