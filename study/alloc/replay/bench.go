package replay

import (
	"context"
	"errors"
	"math"

	"godwit/internal/yardstick"
)

// BenchOptions say what Bench measures.
type BenchOptions struct {
	Live     []int     // W1's numbers of live chunks
	Pairs    int       // timed pairs of a free and an allocation in each workload
	Rounds   int       // every contender runs once in each; medians are over them
	Subjects []Subject // beside the yardstick
	Progress func()    // called Steps times
}

// BenchRow is one contender on one workload, in a region of twice the peak of
// live bytes. A pair is a free and an allocation. Times are processor time of the
// thread, medians over the rounds; Ratio is the median of the ratios to the yardstick in
// the same round, and Low to High is where it lies with 95 % confidence.
type BenchRow struct {
	Workload   string   `json:"workload" show:"workload"`
	Contender  string   `json:"contender" show:"contender"`
	Live       int      `json:"live"` // live chunks at most
	NSPerPair  float64  `json:"ns_per_pair" show:"ns/pair|%.1f|-"`
	Ratio      float64  `json:"ratio" show:"ratio|%.2f|-"`    // to the yardstick
	Low        float64  `json:"ratio_low" show:"from|%.2f|-"` // of Ratio's interval
	High       float64  `json:"ratio_high" show:"to|%.2f|-"`
	BestNS     float64  `json:"best_ns_per_pair" show:"best ns|%.1f|-"` // every batch at its least over the rounds
	BestRatio  float64  `json:"best_ratio" show:"best ratio|%.2f|-"`    // of the least times: what a busy machine disturbs least
	Worst      *worstOp `json:"worst_op,omitempty" show:"worst "`
	WorstScan  *worstOp `json:"worst_scan,omitempty" show:"worst scan "` // the worst of those that searched in full
	Scans      int      `json:"scans" show:"scans"`
	Failures   int      `json:"failures" show:"failures"`
	AllocsPair float64  `json:"heap_allocs_per_pair" show:"heap allocs|%.3g"` // on the Go heap
	BytesChunk float64  `json:"bytes_per_live_chunk" show:"B/chunk|%.0f|-"`   // nodes in use at the peak, those of holes included
	BytesAside float64  `json:"bytes_set_aside_per_live_chunk"`               // for live chunks at most, with room for holes
	Note       string   `json:"note,omitempty"`
	Fault      *Fault   `json:"fault,omitempty"`
}

// yardstickName is the yardstick's name among the contenders.
const yardstickName = "yardstick"

// benchSeed starts all workloads of Bench.
const benchSeed = 1

// BenchStreams are the workloads of Bench: W1 at each number of live chunks,
// after as many warm-up pairs as make the state steady, and the kinds of W2.
func BenchStreams(o BenchOptions) ([]*Stream, error) {
	var out []*Stream
	for _, n := range o.Live {
		st, err := W1(n, o.Pairs, 2*n, benchSeed)
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	for _, k := range []w2Kind{w2FIFO, w2LIFO, W2Mix} {
		st, err := W2(k, max(o.Pairs*2/11, 1), benchSeed) // a group has 5.5 buffers on average
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

// Steps is how often Bench calls Progress over so many streams.
func (o BenchOptions) Steps(streams int) int { return streams * (1 + len(o.Subjects)) }

// Bench times the subjects and the yardstick on every stream, contenders taking
// turns so that what disturbs the machine disturbs all. It stops early with ctx's error when ctx ends.
func Bench(ctx context.Context, streams []*Stream, o BenchOptions) ([]BenchRow, error) {
	var out []BenchRow
	for _, st := range streams {
		rows, err := benchStream(ctx, st, o)
		if err != nil {
			return out, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

func benchStream(ctx context.Context, st *Stream, o BenchOptions) (rows []BenchRow, err error) {
	region, rounds := 2*st.PeakLive, max(o.Rounds, 1)
	ts := []*timing{newTiming(st, &local{st: st, x: &bareState{st: st, a: yardstick.New(region, st.Slots), held: make([]uint32, st.Slots)}})}
	rows = []BenchRow{{Workload: st.Name, Contender: yardstickName}}
	defer func() {
		for _, t := range ts {
			err = errors.Join(err, t.close())
		}
	}()
	for _, s := range o.Subjects {
		c, err := s.contend(ctx, st, region)
		if err != nil {
			return nil, err
		}
		ts, rows = append(ts, newTiming(st, c)), append(rows, BenchRow{Workload: st.Name, Contender: s.Name()})
	}
	for range rounds {
		for i, t := range ts {
			if err := rows[i].round(ctx, t); err != nil {
				return nil, err
			}
		}
	}
	for i, t := range ts {
		rows[i].finish(t, ts[0])
		if o.Progress != nil {
			o.Progress()
		}
	}
	return rows, nil
}

// round lets a contender have its turn. A fault ends the contender and not the
// benchmark.
func (r *BenchRow) round(ctx context.Context, t *timing) error {
	if r.Fault != nil {
		return nil
	}
	if len(t.ns) == 0 {
		var atPeak int
		r.Live, atPeak = t.st.chunks()
		used, aside, err := t.grow()
		if err = keepFault(&r.Fault, err); err != nil || r.Fault != nil {
			return err
		}
		r.BytesChunk, r.BytesAside = float64(used)/float64(atPeak), float64(aside)/float64(t.st.Slots)
	}
	l, err := t.round(ctx)
	if err = keepFault(&r.Fault, err); err != nil || r.Fault != nil {
		return err
	}
	r.Failures, r.AllocsPair = l.failures, float64(l.mallocs)/t.st.pairs()
	if !l.timed {
		r.Note = "takes no times"
	}
	return nil
}

// pairs is the timed pairs of operations.
func (st *Stream) pairs() float64 { return float64(max(len(st.Ops)-st.Warm, 2)) / 2 }

func (r *BenchRow) finish(t, base *timing) {
	if r.Fault != nil {
		r.Note = r.Fault.Error()
		return
	}
	if r.Note == "" {
		r.sum(t, base)
		x, scans := t.worst()
		r.Worst, r.WorstScan, r.Scans = &x.Worst, x.Scan, scans
	}
}

// sum makes the row's times of those of all rounds and batches, its own and the
// yardstick's.
func (r *BenchRow) sum(t, base *timing) {
	ratios := make([]float64, len(t.ns))
	for i := range ratios {
		ratios[i] = t.ns[i] / base.ns[i]
	}
	r.NSPerPair, r.Ratio = median(t.ns)/t.st.pairs(), median(ratios)
	r.Low, r.High = interval(ratios)
	var own, yard float64
	for i, b := range t.batches {
		if !math.IsInf(b, 1) {
			own, yard = own+b, yard+base.batches[i]
		}
	}
	r.BestNS, r.BestRatio = own/t.st.pairs(), own/yard
}

// chunks is the largest number of live chunks up to the peak of bytes, and that there.
func (st *Stream) chunks() (most, atPeak int) {
	for _, op := range st.Ops[:st.PeakAt+1] {
		if op.Size == 0 {
			atPeak--
		} else {
			atPeak++
		}
		most = max(most, atPeak)
	}
	return most, atPeak
}
