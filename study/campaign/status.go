package campaign

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"godwit/study/alloc/fuzz"
)

// Status is how a campaign goes.
type Status struct {
	Campaign string   `json:"campaign"`
	ID       string   `json:"id"`
	Kind     string   `json:"kind"` // sweep or fuzz
	Done     int      `json:"done"` // points, or units
	Total    int      `json:"total"`
	Failed   int      `json:"failed"` // of those that were made since the coordinator began
	Rate     float64  `json:"rows_per_s"`
	Elapsed  float64  `json:"elapsed_s"` // since the coordinator began
	ETA      float64  `json:"eta_s"`     // below 0 where nobody knows
	Workers  []Member `json:"workers"`
	Round    int      `json:"round,omitempty"` // of a search in rounds
	Rounds   int      `json:"rounds,omitempty"`
	Findings int      `json:"findings,omitempty"`
	Evals    int      `json:"evals,omitempty"`
	Given    int      `json:"exhausted"`             // units that no worker came to the end of
	Trouble  string   `json:"trouble,omitempty"`     // what the coordinator is trying again
	Why      []string `json:"failures,omitempty"`    // the last of them
	Unlike   string   `json:"differences,omitempty"` // the first two rows that differ
	Ended    bool     `json:"ended"`
}

// Member is a worker as the coordinator hears of it.
type Member struct {
	Name   string  `json:"name" show:"worker"`
	Jobs   int     `json:"jobs" show:"jobs"`
	Made   int     `json:"made" show:"made"` // rows, since it began
	Rate   float64 `json:"rows_per_s" show:"a second|%.1f"`
	Silent float64 `json:"silent_s" show:"silent s|%.1f"` // since it was heard of

	seen time.Time
}

const (
	rateOver  = 20 * time.Second // what rates are taken over
	whysKept  = 10
	forgotten = time.Minute
)

// meter takes the rate of a count.
type meter struct {
	at []sample
}

type sample struct {
	when time.Time
	n    int
}

// rate notes a count, and is its rate over some seconds.
func (m *meter) rate(now time.Time, n int) float64 {
	if k := len(m.at); k == 0 || now.Sub(m.at[k-1].when) > rateOver/40 {
		m.at = append(m.at, sample{now, n})
	}
	for len(m.at) > 2 && now.Sub(m.at[1].when) > rateOver {
		m.at = m.at[1:]
	}
	if d := now.Sub(m.at[0].when).Seconds(); d > 0 {
		return float64(n-m.at[0].n) / d
	}
	return 0
}

// board is what is known of a campaign, for who asks.
type board struct {
	mu      sync.Mutex
	began   time.Time
	all     meter
	workers map[string]*Member
	rates   map[string]*meter
	failed  int
	given   int
	whys    []string
	trouble string
	unlike  error // the first two rows that differ
	ended   bool
}

// hear notes what a worker says.
func (b *board) hear(g greeting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.workers == nil {
		b.workers, b.rates = make(map[string]*Member), make(map[string]*meter)
	}
	w := b.workers[g.Name]
	if w == nil {
		if len(b.workers) >= 1<<14 {
			return
		}
		w = &Member{Name: g.Name}
		b.workers[g.Name], b.rates[g.Name] = w, &meter{}
	}
	if g.Made < w.Made { // it was started again
		b.rates[g.Name] = &meter{}
	}
	w.Made, w.Jobs, w.seen = g.Made, g.Jobs, now
	w.Rate = b.rates[g.Name].rate(now, g.Made)
}

// fail notes that a row says why it failed.
func (b *board) fail(n int, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed += n; why != "" {
		b.whys = append(b.whys, why)
		b.whys = b.whys[max(0, len(b.whys)-whysKept):]
	}
}

func (b *board) troubled(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble = why
}

// Status is how it goes, now.
func (c *Coordinator) Status() Status {
	c.board.mu.Lock()
	defer c.board.mu.Unlock()
	b := &c.board
	now := time.Now()
	if b.began.IsZero() {
		b.began = now
	}
	s := Status{Campaign: c.Name, ID: c.Work.ID(), Kind: "sweep", Done: c.Work.Have(), Total: c.Work.Len(), Failed: b.failed, Given: b.given,
		Trouble: b.trouble, Why: slices.Clone(b.whys), Ended: b.ended, ETA: -1, Elapsed: now.Sub(b.began).Seconds(), Workers: []Member{}}
	if f, ok := c.Work.(*fuzz.Rounds); ok {
		s.Kind = "fuzz"
		s.Round, s.Rounds, s.Findings, s.Evals = f.Progress()
	}
	if b.unlike != nil {
		s.Unlike = b.unlike.Error()
	}
	if s.Rate = b.all.rate(now, s.Done); s.Rate > 0 && s.Kind == "sweep" {
		s.ETA = float64(s.Total-s.Done) / s.Rate
	}
	if s.Kind == "fuzz" && s.Rate > 0 { // rounds have about as many units each
		s.ETA = (float64(s.Total)*float64(s.Rounds)/float64(s.Round) - float64(s.Done)) / s.Rate
	}
	for name, w := range b.workers {
		w.Silent = now.Sub(w.seen).Seconds()
		if w.Silent > forgotten.Seconds() {
			delete(b.workers, name)
			delete(b.rates, name)
			continue
		}
		m := *w
		if w.Silent > ackWait.Seconds() {
			m.Rate = 0
		}
		s.Workers = append(s.Workers, m)
	}
	slices.SortFunc(s.Workers, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// Active is how many workers were heard of in the last seconds.
func (s *Status) Active() (n int) {
	for _, w := range s.Workers {
		if w.Silent < ackWait.Seconds() {
			n++
		}
	}
	return n
}

// Ask asks the coordinator of a campaign how it goes.
func Ask(ctx context.Context, nc *nats.Conn, name string) (s Status, err error) {
	within, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	msg, err := nc.RequestWithContext(within, statusOf(name), nil)
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrReconnectBufExceeded) {
		return s, fmt.Errorf("campaign %s: no coordinator answers: %w", name, err)
	}
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(msg.Data, &s)
}
