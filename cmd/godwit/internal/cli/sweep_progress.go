package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"godwit/study/live"
	"godwit/study/sweep"
)

// sweepProgress is how far a sweep is, by commands: its points are of very different size. The commands of as many points are counted
// beforehand as there is time for; others are taken to have as many as these have on average.
type sweepProgress struct {
	*progress
	points sweep.Points // immutable
	wanted int          // immutable: points that are to be done

	mu         sync.Mutex
	under      map[int]time.Time // points that are being made; protected by mu
	known      map[int]int64     // commands of points that are not done; protected by mu
	sum, n     int64             // commands and number of all that ever were known; protected by mu
	knownLeft  int64             // commands of known; protected by mu
	done       int64             // commands of points that were made; protected by mu
	left, fail int               // points; protected by mu
	last       [][]string        // points that were made, the last first; protected by mu
	whys       [][]string        // those of them that failed; protected by mu
}

const (
	countFor       = time.Second // that commands are counted beforehand
	countMost      = 1000        // points
	shownOf        = 20          // points of a kind that a page has
	asExpectedText = "as expected"
)

// newSweepProgress counts commands, and begins. has says which points are wanted; nil is all.
func newSweepProgress(ctx context.Context, c *sweep.Config, points sweep.Points, has func(int) bool) *sweepProgress {
	p := &sweepProgress{points: points, under: make(map[int]time.Time), known: make(map[int]int64)}
	began := time.Now()
	for i := range points.Len() {
		if has != nil && !has(i) {
			continue
		}
		p.wanted++
		if p.wanted > countMost || time.Since(began) > countFor {
			continue
		}
		if s, err := c.Scenario(ctx, points.At(i)); err == nil { // else its run will say so
			p.know(i, len(s.Commands))
		}
	}
	p.left = p.wanted
	p.progress = newProgressOf(int(p.all()), "commands", p.more)
	return p
}

// know notes how many commands a point has. mu is held, or nobody else is here.
func (p *sweepProgress) know(i, commands int) {
	if _, ok := p.known[i]; !ok {
		n := int64(max(commands, 1))
		p.known[i], p.sum, p.n, p.knownLeft = n, p.sum+n, p.n+1, p.knownLeft+n
	}
}

// all is how many commands there are, as far as that is known. mu is held.
func (p *sweepProgress) all() int64 {
	unknown := int64(p.left - len(p.known))
	if p.n > 0 {
		unknown = unknown * p.sum / p.n
	}
	return p.done + p.knownLeft + unknown
}

// begin notes that a point is being made.
func (p *sweepProgress) begin(i, commands int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.know(i, commands)
	p.under[i] = time.Now()
	p.set(p.done, p.all())
}

// end notes that a point is done: made, unless it was known. why is why it failed.
func (p *sweepProgress) end(i int, known bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.known[i]
	p.knownLeft -= n
	delete(p.known, i)
	if p.left--; !known {
		p.done += n
		row := []string{sweep.Label(p.points.At(i)), roughly(time.Since(p.under[i]).Seconds()), asExpectedText}
		if why != "" {
			p.fail++
			row[2] = why
			p.whys = keepFirst(p.whys, row)
		}
		p.last = keepFirst(p.last, row)
	}
	delete(p.under, i)
	p.set(p.done, p.all())
}

// keepFirst puts a row before others, of which some are kept.
func keepFirst(rows [][]string, row []string) [][]string {
	rows = slices.Insert(rows, 0, row)
	return rows[:min(len(rows), shownOf)]
}

// more adds points to a state.
func (p *sweepProgress) more(s *live.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Facts = append(s.Facts, live.Fact{Value: fmt.Sprintf("%s of %s", humanize.Comma(int64(p.wanted-p.left)), humanize.Comma(int64(p.wanted))), Name: "points"})
	if p.fail > 0 {
		s.Facts = append(s.Facts, live.Fact{Value: humanize.Comma(int64(p.fail)), Name: "failed"})
	}
	var rows [][]string
	for _, i := range slices.SortedFunc(maps.Keys(p.under), func(a, b int) int { return p.under[a].Compare(p.under[b]) }) {
		rows = append(rows, []string{sweep.Label(p.points.At(i)), roughly(time.Since(p.under[i]).Seconds()), humanize.Comma(p.known[i])})
	}
	s.Tables = append(s.Tables,
		live.Table{Title: underWay, Header: []string{"point", "for", "commands"}, Rows: rows},
		live.Table{Title: "failed", Header: []string{"point", "took", "why"}, Rows: slices.Clone(p.whys)},
		live.Table{Title: "done", Header: []string{"point", "took", "outcome"}, Rows: slices.Clone(p.last)})
}
