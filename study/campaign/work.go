package campaign

import (
	"context"
	"encoding/json"

	"godwit/study/alloc/fuzz"
	"godwit/study/alloc/replay"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

// Work is what a campaign makes: rows by index, each by whoever leases its unit. Its methods are safe for concurrent use.
type Work interface {
	ID() string
	// Len is how many rows there are to be. It may grow as rows are accepted, until there are all.
	Len() int
	Have() int
	// Missing is the next run of at most so many indices without a row, from one on; lo is Len where there is none.
	Missing(from, most int) (lo, hi int)
	// Accept keeps rows, given as lines of a journal, and tells why those failed that did. It fails with journal.ErrTorn and
	// journal.ErrUnlike as sweep.Rows does.
	Accept(lines []byte) (why []string, err error)
	// Failed is the row of an index that was given up.
	Failed(ctx context.Context, i int, why string) ([]byte, error)
}

// giver is work whose units say more than an index: Given is what a unit says, Blob what it names by a hash, which a worker asks for.
type giver interface {
	Given(i int) (json.RawMessage, error)
	Blob(hash string) []byte
}

// maker makes rows on a worker.
type maker interface {
	// Make makes the row of an index, of a unit that says what given is.
	Make(ctx context.Context, i int, given json.RawMessage) ([]byte, error)
	Failed(ctx context.Context, i int, why string) ([]byte, error)
	// Check says whether there is such an index.
	Check(i int) bool
}

// task is what a worker is told of a campaign's work. Nothing of it is executed.
type task struct {
	Sweep *sweepTask       `json:"sweep,omitempty"`
	Fuzz  *fuzz.RoundsTask `json:"fuzz,omitempty"`
}

// Makers are how a worker comes to what it makes: what it alone knows.
type Makers struct {
	Build string // as sweep.Config.Build: another's campaign is refused
	// Complete adds to a sweep how machines are found.
	Complete func(c *sweep.Config)
	// Open opens an allocator to be searched, and the same with little patience. It fails where this worker does not allow it.
	Open func(ctx context.Context, name string) (subject, hasty replay.Subject, err error)
}

// sweepTask is a sweep without what only a worker knows.
type sweepTask struct {
	File   string           `json:"file"`
	Data   []byte           `json:"data"`
	Base   scenario.Options `json:"base"`
	Axes   []sweep.Axis     `json:"axes"`
	Stamps bool             `json:"stamps"`
	Fast   bool             `json:"fast"`
}

// Sweep is the work of a sweep's points.
type Sweep struct {
	*sweep.Rows
	Config *sweep.Config
}

// Len implements Work.
func (s *Sweep) Len() int { return s.Points().Len() }

// Failed implements Work and maker.
func (s *Sweep) Failed(ctx context.Context, i int, why string) ([]byte, error) {
	return s.Config.FailedRow(ctx, s.Points().At(i), why)
}

// points are a sweep's as a worker makes them.
type points struct {
	sweep.Points
	c *sweep.Config
}

func (p *points) Check(i int) bool { return i >= 0 && i < p.Len() }

func (p *points) Make(ctx context.Context, i int, _ json.RawMessage) ([]byte, error) {
	return p.c.Row(ctx, p.At(i))
}

func (p *points) Failed(ctx context.Context, i int, why string) ([]byte, error) {
	return p.c.FailedRow(ctx, p.At(i), why)
}

func (s *Sweep) task() *sweepTask {
	c := s.Config
	return &sweepTask{c.File, c.Data, c.Base, c.Axes, c.Stamps, c.Fast}
}

// taskOf is what workers are told of work.
func taskOf(w Work) (t task) {
	switch w := w.(type) {
	case interface{ task() *sweepTask }:
		t.Sweep = w.task()
	case interface{ Task() *fuzz.RoundsTask }:
		t.Fuzz = w.Task()
	}
	return t
}

// maker is how a task is worked at, and the id of its work as it is here: files may have other bytes than there.
func (m *Makers) maker(ctx context.Context, t task, blob func(ctx context.Context, hash string) ([]byte, error)) (maker, string, error) {
	if t.Fuzz != nil {
		r, err := fuzz.NewRunner(ctx, t.Fuzz, m.Open, blob)
		return r, t.Fuzz.ID(m.Build), err
	}
	if t.Sweep == nil {
		t.Sweep = &sweepTask{}
	}
	s := t.Sweep
	c := &sweep.Config{File: s.File, Data: s.Data, Base: s.Base, Axes: s.Axes, Stamps: s.Stamps, Fast: s.Fast, Build: m.Build}
	m.Complete(c)
	id, all, err := c.Identify(ctx)
	return &points{all, c}, id, err
}
