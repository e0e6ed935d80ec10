package fuzz

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"godwit/internal/journal"
	"godwit/mem"
)

// RoundsTask says what is searched in rounds: each begins with what the one before has left. Its units are made by anybody, in any
// order within a round: docs/design/scale.md.
type RoundsTask struct {
	Strategies []string  `json:"strategies"`
	Against    string    `json:"against,omitempty"` // not "": what hurts the one strategy and not this one
	Objective  Objective `json:"objective"`
	Seed       uint64    `json:"seed"`
	Seeds      int       `json:"seeds"` // searches of each strategy in a round
	Rounds     int       `json:"rounds"`
	Evals      int       `json:"evals"` // of a search
	Ops        int       `json:"ops"`
	Alone      bool      `json:"alone,omitempty"`
	NoLeaks    bool      `json:"no_leaks,omitempty"`
	Corpus     string    `json:"corpus,omitempty"` // the hash of what the first round begins with
}

// JournalName is what heads of journals of rounds say that they are.
const JournalName = "godwit fuzz"

// The bounds of rounds (docs/limits.md).
const (
	maxUnits   = 10_000_000
	keptCorpus = 64 // sequences of a strategy that a round leaves
)

// ID identifies the units: with the same an index means the same.
func (t *RoundsTask) ID(build string) string { return hashOf("godwit fuzz 1", build, t) }

// Rounds are the results of units that are known. It is safe for concurrent use.
type Rounds struct {
	task *RoundsTask
	id   string

	mu       sync.Mutex // protects all below
	journal  adder
	round    int
	units    []searchUnit
	first    int            // of the round that is worked at, the first unit
	sums     []string       // of the rows of units, "" where there is none
	have     int            // how many there are
	results  map[int]result // of this round's
	early    map[int][]byte // rows of later rounds, in a journal that lacks some of this one
	corpora  map[string][]kept
	broken   map[string]bool   // strategies that broke their contract: they are not searched any more
	blobs    map[string][]byte // corpora by hash
	findings []*Finding
	evals    int
}

// adder is what rows are added to.
type adder interface {
	Add(lines []byte) (place int64, err error)
}

// NewRounds are those of a task, none of whose units is made. They begin with a corpus.
func NewRounds(t *RoundsTask, build string, corpus [][]byte) (*Rounds, error) {
	if n := max(len(t.Strategies), 1); t.Rounds < 1 || t.Seeds < 1 || t.Rounds > maxUnits/4/n/t.Seeds {
		return nil, fmt.Errorf("%d rounds of %d searches: %w", t.Rounds, t.Seeds, mem.ErrInvalidValue)
	}
	r := &Rounds{task: t, journal: nowhere{}, results: make(map[int]result), early: make(map[int][]byte), corpora: make(map[string][]kept),
		broken: make(map[string]bool), blobs: make(map[string][]byte)}
	if len(corpus) > 0 {
		t.Corpus = r.addBlob(corpus)
	}
	r.id = t.ID(build)
	for _, name := range t.Strategies {
		r.search(name, t.Corpus, true)
	}
	return r, nil
}

// nowhere keeps no rows.
type nowhere struct{}

func (nowhere) Add([]byte) (int64, error) { return 0, nil }

// addBlob keeps a corpus under its hash.
func (r *Rounds) addBlob(corpus [][]byte) string {
	text, _ := json.Marshal(corpus) // bytes have JSON
	hash := hashOf(corpus)
	r.blobs[hash] = text
	return hash
}

// search adds a round's searches of a strategy.
func (r *Rounds) search(name, corpus string, fresh bool) {
	for k := range r.task.Seeds {
		r.add(searchUnit{Strategy: name, Seed: r.task.Seed + uint64(r.round*r.task.Seeds+k), Corpus: corpus, Fresh: fresh && corpus != ""})
	}
}

func (r *Rounds) add(u searchUnit) { r.units, r.sums = append(r.units, u), append(r.sums, "") }

// Task is what is searched.
func (r *Rounds) Task() *RoundsTask { return r.task }

// ID implements campaign.Work.
func (r *Rounds) ID() string { return r.id }

// Len implements campaign.Work: it grows with each round.
func (r *Rounds) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.units)
}

// Have implements campaign.Work.
func (r *Rounds) Have() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.have
}

// Progress is which round is worked at, from 1, of how many; one more makes smaller what the last has found.
func (r *Rounds) Progress() (round, rounds, findings, evals int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.round+1, r.task.Rounds), r.task.Rounds, len(r.findings), r.evals
}

// Missing implements campaign.Work: a unit is alone.
func (r *Rounds) Missing(from, _ int) (lo, hi int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for lo = max(from, 0); lo < len(r.units) && r.sums[lo] != ""; lo++ {
	}
	return lo, min(lo+1, len(r.units))
}

// Given is for a campaign: what a unit's row depends on besides its index.
func (r *Rounds) Given(i int) (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < 0 || i >= len(r.units) {
		return nil, fmt.Errorf("unit %d of %d: %w", i, len(r.units), mem.ErrInvalidValue)
	}
	return json.Marshal(r.units[i])
}

// Blob is for a campaign: what a hash names, nil where no unit of this round has the hash.
func (r *Rounds) Blob(hash string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blobs[hash]
}

// Failed implements campaign.Work.
func (r *Rounds) Failed(_ context.Context, i int, why string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.Marshal(result{Unit: hashOf(r.units[i]), Error: why})
}

// Keep takes what a journal has, and has rows added to it from now on. It returns how many lines it has left out.
func (r *Rounds) Keep(j *journal.File) (dropped int, err error) {
	ours := false
	err = journal.Each(io.NewSectionReader(j, 0, j.Size()), 0, func(text []byte, _ int64, whole bool) error {
		l, ok := journal.Decode(text)
		if ok && l.Journal != "" {
			ours = l.Journal == JournalName && l.Of == r.id
			return nil
		}
		if ok && whole && ours && l.At >= 0 && l.At < maxUnits {
			r.early[l.At] = l.Row
		} else {
			dropped++
		}
		return nil
	})
	if err != nil {
		return dropped, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late()
	r.journal = j
	return dropped, j.Begin(r.id, r.task)
}

// late takes rows that came early and whose round has begun, as far as they are of its units.
func (r *Rounds) late() {
	for i := r.first; len(r.early) > 0 && i < len(r.units); i++ {
		row, ok := r.early[i]
		if !ok || r.sums[i] != "" {
			continue
		}
		delete(r.early, i)
		if res, err := r.parse(i, row); err == nil {
			r.put(i, row, res)
		}
	}
}

// parse reads a unit's row.
func (r *Rounds) parse(i int, row []byte) (res result, err error) {
	if i < 0 || i >= len(r.units) || json.Unmarshal(row, &res) != nil {
		return res, journal.ErrTorn
	}
	if res.Unit != "" && res.Unit != hashOf(r.units[i]) || res.Unit == "" && res.Error == "" {
		return res, journal.ErrTorn
	}
	return res, nil
}

// Accept implements campaign.Work.
func (r *Rounds) Accept(lines []byte) (why []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var bad error
	err = journal.Each(bytes.NewReader(lines), 0, func(text []byte, _ int64, whole bool) error {
		l, ok := journal.Decode(text)
		res, err := r.parse(l.At, l.Row)
		if !ok || !whole || err != nil {
			bad = errors.Join(bad, journal.ErrTorn)
			return nil
		}
		sum := hashOf(l.Row)
		switch {
		case r.sums[l.At] == "":
			if _, err := r.journal.Add(journal.Encode(l.At, l.Row)); err != nil {
				return err
			}
			if res.Error != "" {
				why = append(why, fmt.Sprintf("unit %d, %s from seed %d: %s", l.At, r.units[l.At].Strategy, r.units[l.At].Seed, res.Error))
			}
			r.put(l.At, l.Row, res)
			r.late()
		case r.sums[l.At] != sum && res.Error == "" && r.sums[l.At] != unlike:
			bad = errors.Join(bad, fmt.Errorf("unit %d, %s from seed %d: %w", l.At, r.units[l.At].Strategy, r.units[l.At].Seed, journal.ErrUnlike))
		}
		return nil
	})
	return why, errors.Join(err, bad)
}

// unlike is the sum of a row that another may differ from: of a unit that was given up, or of an allocator that broke its contract, which
// need not be the same twice.
const unlike = "-"

// put takes a unit's result; with the last of a round the next one begins.
func (r *Rounds) put(i int, row []byte, res result) {
	if r.sums[i] = hashOf(json.RawMessage(row)); res.Error != "" || res.Fault != nil || res.Finding != nil && res.Finding.Fault != nil {
		r.sums[i] = unlike
	}
	r.have++
	r.evals += res.Evals
	if res.Finding != nil {
		if f := res.Finding.finding(); f != nil {
			r.findings = append(r.findings, f)
		}
	}
	r.results[i] = res
	if r.have == len(r.units) && r.round <= r.task.Rounds {
		r.next()
	}
}

// finding is what was shown; nil where its sequence is none.
func (s *shown) finding() *Finding {
	f := s.Finding
	f.Genome = s.Genome
	if len(s.Ops) > 0 {
		st, err := stream(s.Ops)
		if err != nil {
			return nil
		}
		st.Leaks = s.Leaks
		f.shown(st)
	}
	return &f
}

// next begins the next round: searches that begin with the corpus that is left, and what was found to be made smaller. After the
// last there is that alone, and then nothing.
func (r *Rounds) next() {
	was, results := r.first, r.results
	r.first, r.results, r.blobs = len(r.units), make(map[int]result), make(map[string][]byte)
	r.round++
	found := r.found(was, results)
	for _, name := range r.task.Strategies {
		all := r.corpora[name]
		for i := was; i < r.first; i++ {
			if r.units[i].Strategy == name {
				all = append(all, results[i].Kept...)
			}
		}
		r.corpora[name] = cover(distinct(all), keptCorpus)
		if r.round < r.task.Rounds && !r.broken[name] {
			corpus := ""
			if genomes := genomesOf(r.corpora[name]); len(genomes) > 0 {
				corpus = r.addBlob(genomes)
			}
			r.search(name, corpus, false)
		}
	}
	for _, u := range found {
		r.add(u)
	}
}

// distinct leaves out sequences that are there twice.
func distinct(all []kept) []kept {
	seen := make(map[string]bool)
	return slices.DeleteFunc(all, func(k kept) bool {
		again := seen[string(k.Genome)]
		seen[string(k.Genome)] = true
		return again
	})
}

func genomesOf(all []kept) (out [][]byte) {
	for _, k := range all {
		out = append(out, k.Genome)
	}
	return out
}

// found is what a round's searches have found: of each strategy the worst sequence, where it is worse than all before, and its first fault of a kind.
func (r *Rounds) found(was int, results map[int]result) (out []searchUnit) {
	for _, name := range r.task.Strategies {
		top, at := 0.0, -1
		for _, k := range r.corpora[name] {
			top = max(top, k.Score)
		}
		var worst kept
		kinds := make(map[string]bool)
		for i := was; i < r.first; i++ {
			u, res := r.units[i], results[i]
			if u.Strategy != name || u.Shrink != nil {
				continue
			}
			for _, k := range res.Kept {
				if k.Score > top {
					top, at, worst = k.Score, i, k
				}
			}
			if res.Fault != nil && res.Fault.Fault != nil && !kinds[string(res.Fault.Fault.Kind)] {
				kinds[string(res.Fault.Fault.Kind)] = true
				r.broken[name] = true
				out = append(out, searchUnit{Strategy: name, Seed: u.Seed, Shrink: res.Fault})
			}
		}
		if at >= 0 && !r.broken[name] {
			out = append(out, searchUnit{Strategy: name, Seed: r.units[at].Seed, Shrink: &example{Genome: worst.Genome, Score: worst.Score, Evals: results[at].Evals}})
		}
	}
	return out
}

// Run makes what is missing in this process, so many units at once.
func (r *Rounds) Run(ctx context.Context, runner *Runner, jobs int, progress func()) error {
	for r.Have() < r.Len() {
		group, working := errgroup.WithContext(ctx)
		group.SetLimit(max(jobs, 1))
		n := r.Len()
		for i, _ := r.Missing(0, 1); i < n && working.Err() == nil; i, _ = r.Missing(i+1, 1) {
			group.Go(func() error {
				given, err := r.Given(i)
				if err != nil {
					return err
				}
				row, err := runner.Make(working, i, given)
				if err == nil {
					_, err = r.Accept(journal.Encode(i, row))
				}
				progress()
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// Findings are what was found and made smaller, in the order of strategies and seeds.
func (r *Rounds) Findings() []*Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.findings)
	slices.SortStableFunc(out, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(r.task.Strategies, a.Strategy), slices.Index(r.task.Strategies, b.Strategy)), cmp.Compare(a.Seed, b.Seed))
	})
	return out
}

// Save writes the findings to dir, as Finding.Save does, and in dir/corpus/FuzzStrategies what is left of the corpus, a file each that is named
// after strategy, objective and content. It returns how many those are.
func (r *Rounds) Save(ctx context.Context, dir string) (corpus int, err error) {
	for _, f := range r.Findings() {
		if err := f.Save(ctx, dir); err != nil {
			return 0, err
		}
	}
	if err := mkCorpus(dir); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.task.Strategies {
		for _, genome := range genomesOf(r.corpora[name]) {
			file := FileName(fmt.Sprintf("%s-%s-c%s", name, r.task.Objective, hashOf(genome)))
			if err := saveGenome(ctx, filepath.Join(corpusDir(dir), file), genome); err != nil {
				return corpus, err
			}
			corpus++
		}
	}
	return corpus, nil
}
