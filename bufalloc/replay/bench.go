package replay

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"godwit/bufalloc"
	"godwit/bufalloc/internal/yardstick"
)

// BenchOptions say what Bench measures.
type BenchOptions struct {
	Live       []int               // W1's numbers of live chunks
	Pairs      int                 // timed pairs of a free and an allocation in each workload
	Rounds     int                 // every contender runs once in each; medians are over them
	Strategies []bufalloc.Strategy // beside the yardstick
	Overhead   bool                // also search the smallest regions
	PoCL       *PoCL               // nil: left out
	Progress   func()              // called Steps times
}

// BenchRow is one contender on one workload, in a region of twice the peak of
// live bytes. A pair is a free and an allocation. Times are medians over the
// rounds; Ratio is the median of the ratios to the yardstick in the same round.
// BestNS and BestRatio are what a busy machine disturbs least; for PoCL, which
// runs in a process of its own, they are of its best round.
type BenchRow struct {
	Workload   string   `json:"workload"`
	Contender  string   `json:"contender"`
	Live       int      `json:"live"` // live chunks at most
	NSPerPair  float64  `json:"ns_per_pair"`
	Ratio      float64  `json:"ratio"`            // to the yardstick
	BestNS     float64  `json:"best_ns_per_pair"` // every batch at its least over the rounds
	BestRatio  float64  `json:"best_ratio"`       // of the least times: what a busy machine disturbs least
	Worst      *WorstOp `json:"worst_op,omitempty"`
	WorstScan  *WorstOp `json:"worst_scan,omitempty"` // the worst of those that searched in full
	Scans      int      `json:"scans"`
	Failures   int      `json:"failures"`
	AllocsPair float64  `json:"heap_allocs_per_pair"`           // on the Go heap
	BytesChunk float64  `json:"bytes_per_live_chunk"`           // nodes in use at the peak, those of holes included
	BytesAside float64  `json:"bytes_set_aside_per_live_chunk"` // for live chunks at most, with room for holes
	Overhead   float64  `json:"overhead,omitempty"`             // smallest region / peak live
	Note       string   `json:"note,omitempty"`
}

// YardstickName is the yardstick's name among the contenders.
const YardstickName = "yardstick"

// contender is an allocator on one stream.
type contender interface {
	reset()
	run(ops []Op) (failures int)
	each(least []float64)              // keeps the least time of each operation, in ns
	bookkeeping() (used, aside uint64) // bytes
}

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
	for _, k := range []W2Kind{W2FIFO, W2LIFO, W2Mix} {
		st, err := W2(k, max(o.Pairs*2/11, 1), benchSeed) // a group has 5.5 buffers on average
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

// Steps is how often Bench calls Progress over so many streams.
func (o BenchOptions) Steps(streams int) int { return streams * (1 + len(o.Strategies)) }

// Bench times the strategies, the yardstick and, where given, PoCL's allocator
// on every stream, contenders taking turns so that what disturbs the machine
// disturbs all. It stops early with ctx's error when ctx ends.
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

func benchStream(ctx context.Context, st *Stream, o BenchOptions) ([]BenchRow, error) {
	region, rounds := 2*st.PeakLive, max(o.Rounds, 1)
	cs := []contender{&bareState{st: st, a: yardstick.New(region, st.Slots), held: make([]uint32, st.Slots)}}
	rows := []BenchRow{{Workload: st.Name, Contender: YardstickName, Live: st.peakChunks()}}
	for _, s := range o.Strategies {
		x, err := newState(st, s, region)
		if err != nil {
			return nil, err
		}
		cs = append(cs, &timedState{x})
		rows = append(rows, BenchRow{Workload: st.Name, Contender: s.String(), Live: rows[0].Live})
	}
	ns, least, batches := make([][]float64, len(cs)), make([][]float64, len(cs)), make([][]float64, len(cs))
	for round := range rounds {
		for i, c := range cs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if round == 0 {
				least[i], batches[i] = infinities(len(st.Ops)), infinities(len(st.Ops)/batchOps+1)
				c.reset()
				c.run(st.Ops[:st.PeakAt+1]) // grows what grows
				used, aside := c.bookkeeping()
				rows[i].BytesChunk = float64(used) / float64(st.liveAt(st.PeakAt))
				rows[i].BytesAside = float64(aside) / float64(st.Slots)
			}
			ns[i] = append(ns[i], rows[i].round(c, st, batches[i]))
			c.each(least[i])
		}
	}
	for i := range rows {
		rows[i].sum(ns[i], ns[0], batches[i], batches[0], len(st.Ops)-st.Warm)
		if err := rows[i].finish(ctx, st, cs[i], least[i], o); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress()
		}
	}
	if o.PoCL != nil {
		return benchPoCL(ctx, rows, st, o.PoCL, rounds)
	}
	return rows, nil
}

// batchOps is the number of operations of a batch: few enough that a busy
// machine leaves each of them alone in some round, many enough that the clock
// costs nothing.
const batchOps = 512

// round times one pass over the operations past Warm, in batches, and counts
// what it allocates on the heap. It returns ns per pair.
func (r *BenchRow) round(c contender, st *Stream, batches []float64) float64 {
	c.reset()
	r.Failures = c.run(st.Ops[:st.Warm])
	timed := st.Ops[st.Warm:]
	pairs := float64(max(len(timed), 2)) / 2
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var ns float64
	for k := 0; len(timed) > 0; k++ {
		n := min(batchOps, len(timed))
		start := time.Now()
		r.Failures += c.run(timed[:n])
		took := float64(time.Since(start).Nanoseconds())
		batches[k] = min(batches[k], took)
		ns += took
		timed = timed[n:]
	}
	runtime.ReadMemStats(&after)
	r.AllocsPair = float64(after.Mallocs-before.Mallocs) / pairs
	if after.Mallocs-before.Mallocs < 16 {
		r.AllocsPair = 0 // ReadMemStats and the runtime's own
	}
	return ns / pairs
}

// sum makes the row's times of those of all rounds and batches, its own and the
// yardstick's, over so many operations.
func (r *BenchRow) sum(ns, base, batches, baseBatches []float64, ops int) {
	ratios := make([]float64, len(ns))
	for i := range ns {
		ratios[i] = ns[i] / base[i]
	}
	r.NSPerPair, r.Ratio = Median(ns), Median(ratios)
	var own, yard float64
	for i, b := range batches {
		if !math.IsInf(b, 1) {
			own, yard = own+b, yard+baseBatches[i]
		}
	}
	r.BestNS, r.BestRatio = own/(float64(max(ops, 2))/2), own/yard
}

// finish adds the worst operations and, where asked for, the overhead.
func (r *BenchRow) finish(ctx context.Context, st *Stream, c contender, least []float64, o BenchOptions) error {
	t := Times{TimerNS: clockCost()}
	var scanned map[int]bool
	ts, isRegion := c.(*timedState)
	if isRegion {
		scanned = ts.scanned()
	}
	t.pick(st, least, scanned)
	r.Worst, r.WorstScan, r.Scans = &t.Worst, t.Scan, len(scanned)
	if !isRegion || !o.Overhead {
		return nil
	}
	m, err := MinRegion(ctx, st, ts.r.Strategy())
	if err != nil {
		return err
	}
	r.Overhead = float64(m.Region) / float64(st.PeakLive)
	return nil
}

// poclSeconds is how long PoCL's allocator, which is O(n), may take for a stream
// under each of its two strategies.
const poclSeconds = 2

// poclChunkBytes is the size of PoCL's chunk_info.
const poclChunkBytes = 64

// benchPoCL adds PoCL's allocator.
func benchPoCL(ctx context.Context, rows []BenchRow, st *Stream, p *PoCL, rounds int) ([]BenchRow, error) {
	for _, strategy := range []string{"tight", "wasteful"} {
		run, err := p.Run(ctx, st, strategy, 2*st.PeakLive, rounds, poclSeconds)
		if err != nil {
			return rows, err
		}
		row := BenchRow{Workload: st.Name, Contender: "pocl-c-" + strategy, Live: rows[0].Live,
			NSPerPair: 2 * Median(run.NSPerOp), Failures: run.Failures, BytesChunk: poclChunkBytes, BytesAside: poclChunkBytes}
		row.Ratio = row.NSPerPair / rows[0].NSPerPair
		row.BestNS = 2 * slices.Min(run.NSPerOp)
		row.BestRatio = row.BestNS / rows[0].BestNS
		if run.Failures > 0 {
			row.Note = fmt.Sprintf("%d allocations failed; its array holds 1,023 chunks", run.Failures)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func infinities(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Inf(1)
	}
	return v
}

// peakChunks is the largest number of live chunks, up to the peak of bytes.
func (st *Stream) peakChunks() int {
	n, most := 0, 0
	for _, op := range st.Ops[:st.PeakAt+1] {
		if op.Size == 0 {
			n--
		} else {
			n++
		}
		most = max(most, n)
	}
	return most
}

// liveAt is the number of live chunks after operation at.
func (st *Stream) liveAt(at int) int {
	n := 0
	for _, op := range st.Ops[:at+1] {
		if op.Size == 0 {
			n--
		} else {
			n++
		}
	}
	return n
}

// timedState is a region as a contender.
type timedState struct{ *state }

func (s *timedState) reset() { s.r.Reset() }

func (s *timedState) run(ops []Op) (failures int) {
	for _, op := range ops {
		if !s.do(op) {
			failures++
		}
	}
	return failures
}

func (s *timedState) each(least []float64) { s.state.each(least) }

func (s *timedState) bookkeeping() (used, aside uint64) {
	x := s.r.Stats()
	return uint64(x.Chunks+x.Holes) * nodeBytes, x.Bookkeeping
}

// nodeBytes is the size of a node in bufalloc and in the yardstick.
const nodeBytes = 32

// bareState is the yardstick as a contender.
type bareState struct {
	st   *Stream
	a    *yardstick.Allocator
	held []uint32
}

func (s *bareState) reset() { s.a.Reset() }

func (s *bareState) do(op Op) bool {
	if op.Size != 0 {
		i := s.a.Alloc(op.Size)
		s.held[op.Slot] = i
		return i != yardstick.None
	}
	if i := s.held[op.Slot]; i != yardstick.None {
		s.a.Free(i)
	}
	return true
}

func (s *bareState) run(ops []Op) (failures int) {
	for _, op := range ops {
		if !s.do(op) {
			failures++
		}
	}
	return failures
}

func (s *bareState) each(least []float64) {
	s.a.Reset()
	epoch := time.Now()
	for i, op := range s.st.Ops {
		start := time.Since(epoch)
		s.do(op)
		least[i] = min(least[i], float64(time.Since(epoch)-start))
	}
}

func (s *bareState) bookkeeping() (used, aside uint64) {
	return uint64(s.a.Nodes()) * nodeBytes, s.a.Bookkeeping()
}
