package fuzz

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"godwit/bufalloc/pack"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/replay"
)

// Finding is the worst sequence that a search found, shrunk. Sizes in bytes.
type Finding struct {
	Strategy  string    `json:"strategy" show:"strategy"`
	Against   string    `json:"against,omitempty"`
	Objective Objective `json:"objective" show:"objective"`
	Seed      uint64    `json:"seed"`
	Score     float64   `json:"score" show:"score|%.4f|-"` // see the objectives
	Found     float64   `json:"score_before_shrinking"`
	Evals     int       `json:"evals" show:"sequences"`
	Stopped   bool      `json:"stopped"` // by time or a signal
	Ops       int       `json:"ops" show:"ops"`
	FoundOps  int       `json:"ops_before_shrinking"`

	PeakLive  uint64  `json:"peak_live" show:"peak live|size|-"`
	MinRegion uint64  `json:"min_region" show:"region|size|-"`    // 0: never fits
	AtMost    bool    `json:"at_most"`                            // a smaller region may work: trying all takes too long
	Overhead  float64 `json:"overhead" show:"/ peak|%.4f|-"`      // MinRegion / PeakLive
	Offline   uint64  `json:"offline"`                            // what a packing needs that knows the sequence
	Price     float64 `json:"price" show:"/ offline|%.4f|-"`      // MinRegion / Offline
	Robson    float64 `json:"robson" show:"Robson / peak|%.3f|-"` // Robson's bound / PeakLive, for this peak and largest size
	Region    uint64  `json:"region"`                             // in which the rest is counted and measured
	Scans     uint64  `json:"scans" show:"scans"`
	WorstNS   float64 `json:"worst_ns" show:"worst ns|%.0f|-"` // the slowest operation that did not scan
	ScanNS    float64 `json:"scan_ns" show:"scan ns|%.0f|-"`   // the slowest that did, 0 for none

	TraceFile  string         `json:"trace_file,omitempty"`
	CorpusFile string         `json:"corpus_file,omitempty"`
	Fault      *replay.Fault  `json:"fault,omitempty"` // the strategy broke its contract: nothing else counts
	Stream     *replay.Stream `json:"-"`               // nil where the search was stopped before it found any
	Genome     []byte         `json:"-"`
}

// offlineNodes bounds the final offline packing; a count, so that it ends alike
// everywhere.
const offlineNodes = 200_000

// timeRepeats is how often the finding is replayed for its times.
const timeRepeats = 5

// asFound is the best as it is.
func (s *searcher) asFound() (*Finding, error) {
	f := s.blank()
	f.Stopped, f.Found = s.evals < s.o.Evals, s.best.score
	ops := express(s.best.genome, s.o.Ops)
	f.FoundOps = len(ops)
	if len(ops) == 0 {
		return f, nil
	}
	return f, f.show(ops, s.best)
}

// show has the finding be ops; before is what they were shrunk from.
func (f *Finding) show(ops []replay.Op, before individual) (err error) {
	f.Score, f.Ops = before.score, len(ops)
	if f.Genome, err = encode(ops); err != nil {
		f.Genome = before.genome // too many live at once for single genes: the one before shrinking does as well
	}
	st, err := stream(ops)
	if err == nil {
		f.shown(st)
	}
	return err
}

// finding shrinks the best and measures it.
func (s *searcher) finding(ctx context.Context) (*Finding, error) {
	f, err := s.asFound()
	if err != nil || f.Stream == nil {
		return f, err
	}
	ops, score, err := s.shrink(ctx, express(s.best.genome, s.o.Ops), s.best.score)
	if err == nil {
		err = f.show(ops, individual{s.best.genome, score})
	}
	if err != nil {
		return nil, err
	}
	if err = f.measure(ctx, s.o.Subject); err == nil && !s.o.untimed {
		err = f.clock(ctx, s.o.Subject)
	}
	return f, err
}

func (s *searcher) blank() *Finding {
	f := &Finding{Strategy: s.o.Subject.Name(), Objective: s.o.Objective, Seed: s.o.Seed, Evals: s.evals}
	if s.o.Against != nil {
		f.Against = s.o.Against.Name()
	}
	return f
}

// fileName says what was searched.
func (f *Finding) fileName() string {
	name := fmt.Sprintf("%s-%s-%d", f.Strategy, f.Objective, f.Seed)
	if f.Against != "" {
		name = fmt.Sprintf("%s-against-%s-%s-%d", f.Strategy, f.Against, f.Objective, f.Seed)
	}
	return FileName(name)
}

// FileName is name in letters that any file system takes.
func FileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, name)
}

// measure puts the finding beside the yardsticks.
func (f *Finding) measure(ctx context.Context, s replay.Subject) error {
	st := f.Stream
	f.PeakLive = st.PeakLive
	m, err := replay.MinRegion(ctx, st, s)
	if err != nil {
		return err
	}
	f.MinRegion, f.AtMost = m.Region, m.Region > 0 && !m.Exhaustive
	items, err := st.Trace().Items(unit)
	if err != nil {
		return err
	}
	packed, err := pack.Minimize(ctx, items, pack.Options{Nodes: offlineNodes})
	if err != nil {
		return err
	}
	f.Offline = packed.Height
	f.Overhead = float64(f.MinRegion) / float64(f.PeakLive)
	f.Price = float64(f.MinRegion) / float64(f.Offline)
	f.Robson = robsonOf(st) / float64(f.PeakLive/unit)
	if f.Region = f.Objective.region(st.PeakLive); f.Region == 0 {
		f.Region = max(f.MinRegion, st.PeakLive)
	}
	run, err := replay.Replay(ctx, st, s, f.Region)
	f.Scans = run.Scans
	return err
}

// clock takes the times of the slowest operations here.
func (f *Finding) clock(ctx context.Context, s replay.Subject) error {
	times, err := replay.Time(ctx, f.Stream, s, f.Region, timeRepeats)
	f.WorstNS = times.Worst.NS
	if times.Scan != nil {
		f.ScanNS = times.Scan.NS
	}
	return err
}

func robsonOf(st *replay.Stream) float64 {
	var largest uint64
	for _, op := range st.Ops {
		largest = max(largest, op.Size)
	}
	return robsonBound(st.PeakLive/unit, largest/unit)
}

// summary is the line of a trace's file that says what it shows.
func (f *Finding) summary() string {
	if f.Fault != nil {
		return f.Fault.Error()
	}
	if f.Offline == 0 {
		return fmt.Sprintf("score %.4f after %d sequences; interrupted before it was shrunk and measured", f.Score, f.Evals)
	}
	return fmt.Sprintf("score %.4f after %d sequences; region %d bytes: %.4f x offline, %.4f x peak; Robson's bound %.4f x peak",
		f.Score, f.Evals, f.MinRegion, f.Price, f.Overhead, f.Robson)
}

// Save writes the finding to dir, which it makes: a trace in Godwit's CSV, and
// in dir/corpus/FuzzStrategies an entry for the fuzz target of that name. The
// files are named after strategy, objective and seed, and complete or not there; of
// ctx only its process.Guard counts.
func (f *Finding) Save(ctx context.Context, dir string) error {
	if f.Stream == nil {
		return nil
	}
	if err := mkCorpus(dir); err != nil {
		return err
	}
	f.TraceFile = filepath.Join(dir, f.Stream.Name+".csv")
	comments := []string{fmt.Sprintf("godwit fuzz: strategy %s, objective %s, seed %d", f.Strategy, f.Objective, f.Seed), f.summary()}
	if f.Fault != nil {
		f.Fault.Again = f.Fault.Command(f.TraceFile, f.Stream)
		comments = append(comments, f.Fault.Again)
	}
	if err := formats.SaveAllocs(ctx, f.TraceFile, f.Stream.Trace(), comments...); err != nil {
		return err
	}
	if len(f.Genome) == 0 {
		return nil
	}
	f.CorpusFile = filepath.Join(corpusDir(dir), f.Stream.Name)
	return saveGenome(ctx, f.CorpusFile, f.Genome)
}
