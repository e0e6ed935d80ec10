package fuzz

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"godwit/mem"
	"godwit/study/alloc/replay"
)

// searchUnit is all that a unit's result depends on: a search, or a sequence that is to be made smaller.
type searchUnit struct {
	Strategy string   `json:"strategy"`
	Seed     uint64   `json:"seed"`
	Corpus   string   `json:"corpus,omitempty"` // the hash of what the search begins with; "" is nothing
	Fresh    bool     `json:"fresh,omitempty"`  // nobody knows yet what the corpus does to the strategy
	Shrink   *example `json:"shrink,omitempty"`
}

// example is a sequence that shows something: a score, or a fault.
type example struct {
	Genome []byte        `json:"genome,omitempty"`
	Score  float64       `json:"score,omitempty"`
	Evals  int           `json:"evals"` // after how many it was found
	Fault  *replay.Fault `json:"fault,omitempty"`
	Ops    []replay.Op   `json:"ops,omitempty"` // of a fault
}

// result is a unit's row.
type result struct {
	Unit    string   `json:"unit"`            // the hash of the unit
	Error   string   `json:"error,omitempty"` // why it was given up
	Evals   int      `json:"evals"`
	Kept    []kept   `json:"kept,omitempty"`
	Fault   *example `json:"fault,omitempty"`   // of a search
	Finding *shown   `json:"finding,omitempty"` // of a sequence that was made smaller
}

// shown is a finding with its sequence.
type shown struct {
	Finding
	Ops    []replay.Op `json:"sequence"`
	Leaks  bool        `json:"leaks,omitempty"`
	Genome []byte      `json:"genome,omitempty"`
}

// hashOf is a hash of a value's JSON.
func hashOf(values ...any) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(values) // of values that have JSON; a hash never fails
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// Runner makes the units of rounds. It is safe for concurrent use.
type Runner struct {
	task     *RoundsTask
	subjects map[string]contestant
	blob     func(ctx context.Context, hash string) ([]byte, error)

	mu      sync.Mutex
	corpora map[string][][]byte // by hash; protected by mu
}

// contestant is a strategy, and the same with little patience; nil where that is no other.
type contestant struct{ subject, hasty replay.Subject }

// NewRunner opens the strategies of a task: open may refuse one. blob is asked for a corpus by its hash.
func NewRunner(ctx context.Context, t *RoundsTask, open func(ctx context.Context, name string) (subject, hasty replay.Subject, err error), blob func(ctx context.Context, hash string) ([]byte, error)) (*Runner, error) {
	r := &Runner{task: t, subjects: make(map[string]contestant), blob: blob, corpora: make(map[string][][]byte)}
	names := slices.Clone(t.Strategies)
	if t.Against != "" {
		names = append(names, t.Against)
	}
	for _, name := range names {
		subject, hasty, err := open(ctx, name)
		if err != nil {
			return nil, err
		}
		r.subjects[name] = contestant{subject, hasty}
	}
	return r, nil
}

// Check says whether there may be such a unit.
func (r *Runner) Check(i int) bool { return i >= 0 && i < maxUnits }

// Failed is the row of a unit that was given up: it has nothing to show.
func (r *Runner) Failed(_ context.Context, _ int, why string) ([]byte, error) {
	return json.Marshal(result{Error: why})
}

// Make makes the row of a unit: a pure function of it, as far as the strategy is one.
func (r *Runner) Make(ctx context.Context, _ int, given json.RawMessage) ([]byte, error) {
	var u searchUnit
	if err := json.Unmarshal(given, &u); err != nil {
		return nil, fmt.Errorf("a unit of a search: %w: %w", mem.ErrInvalidValue, err)
	}
	c, ok := r.subjects[u.Strategy]
	if !ok {
		return nil, fmt.Errorf("a unit of a search for %q: %w", u.Strategy, mem.ErrInvalidValue)
	}
	t := r.task
	o := Options{Subject: c.subject, Hasty: c.hasty, Objective: t.Objective, Seed: u.Seed, Ops: t.Ops, Evals: t.Evals,
		Alone: t.Alone, NoLeaks: t.NoLeaks, untimed: true}
	if t.Against != "" {
		o.Against = r.subjects[t.Against].subject
	}
	var err error
	if o.Corpus, err = r.corpus(ctx, u.Corpus); err != nil {
		return nil, err
	}
	s, err := Begin(o)
	if err != nil {
		return nil, err
	}
	res := &result{Unit: hashOf(u)}
	if u.Shrink != nil {
		err = s.smaller(ctx, u.Shrink, res)
	} else {
		err = s.whole(ctx, u.Fresh, res)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(res)
}

// corpus is what a hash stands for.
func (r *Runner) corpus(ctx context.Context, hash string) ([][]byte, error) {
	if hash == "" {
		return nil, nil
	}
	r.mu.Lock()
	genomes, ok := r.corpora[hash]
	r.mu.Unlock()
	if ok {
		return genomes, nil
	}
	text, err := r.blob(ctx, hash)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &genomes); err != nil || hashOf(genomes) != hash {
		return nil, fmt.Errorf("the corpus %s has other bytes than its hash says: %w", hash, mem.ErrInvalidValue)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.corpora) > 2*len(r.subjects) { // of rounds before
		clear(r.corpora)
	}
	r.corpora[hash] = genomes
	return genomes, nil
}

// keptOfUnit is how many sequences a unit tells of.
const keptOfUnit = 16

// whole searches to the end, and tells of the sequences that reach what all that it has kept do.
func (s *searcher) whole(ctx context.Context, fresh bool, res *result) error {
	for ended := false; !ended && ctx.Err() == nil; {
		var err error
		if ended, err = s.Advance(ctx); err != nil {
			return err
		}
	}
	if res.Evals = s.evals; ctx.Err() != nil {
		return ctx.Err()
	}
	if s.fault == nil {
		known := s.o.Corpus
		if fresh {
			known = nil
			for _, genome := range s.o.Corpus {
				s.pop = append(s.pop, individual{genome: genome})
			}
		}
		if err := s.gather(ctx, known, res); !errors.As(err, &s.fault) {
			return err
		}
	}
	res.Fault, res.Kept = &example{Evals: s.evals, Fault: s.fault, Ops: s.showing(s.fault)}, nil
	return nil
}

// gather has the result tell of the population and the best, but for those that are known.
func (s *searcher) gather(ctx context.Context, known [][]byte, res *result) error {
	seen := make(map[string]bool)
	for _, genome := range known {
		seen[string(genome)] = true
	}
	var all []kept
	for _, x := range append(s.pop, s.best) {
		if seen[string(x.genome)] {
			continue
		}
		seen[string(x.genome)] = true
		k, err := s.keptOf(ctx, x.genome)
		if err != nil {
			return err
		}
		if k.Genome != nil {
			all = append(all, k)
		}
	}
	res.Kept = cover(all, keptOfUnit)
	return nil
}

// smaller makes a sequence smaller that shows something, and measures it.
func (s *searcher) smaller(ctx context.Context, x *example, res *result) (err error) {
	var f *Finding
	if s.evals = x.Evals; x.Fault != nil {
		f, err = s.reduce(ctx, x.Fault, x.Ops)
	} else {
		s.best = individual{x.Genome, x.Score}
		f, err = s.finding(ctx)
	}
	if err != nil {
		return err
	}
	f.Stopped = false // a unit has an end
	res.Finding = &shown{Finding: *f, Genome: f.Genome}
	if f.Stream != nil {
		res.Finding.Ops, res.Finding.Leaks = f.Stream.Ops, f.Stream.Leaks
	}
	if x.Fault != nil || f.Genome == nil {
		return nil
	}
	k, err := s.keptOf(ctx, f.Genome)
	if err == nil && k.Genome != nil {
		res.Kept = []kept{k}
	}
	return err
}
