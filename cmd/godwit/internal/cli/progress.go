package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"godwit/study/live"
)

// lineEvery is how often how far something is, is said off a terminal.
var lineEvery = time.Minute

// progress is how far something is: a bar on a terminal, a line a minute off it, and a live page's state. Its methods are safe
// for concurrent use.
type progress struct {
	bar   *progressbar.ProgressBar // nil off a terminal
	began time.Time                // immutable
	more  func(s *live.State)      // immutable; adds what else is to be shown; called with no lock held
	stop  chan struct{}
	ended sync.WaitGroup

	mu          sync.Mutex
	what        string // protected by mu
	done, total int64  // in the verb's own measure; total -1 is unknown; protected by mu
}

// newProgress begins with so much to do; -1 is unknown. finish must follow.
func newProgress(total int, what string) *progress { return newProgressOf(total, what, nil) }

// newProgressOf is newProgress with what more adds.
func newProgressOf(total int, what string, more func(s *live.State)) *progress {
	p := &progress{began: time.Now(), more: more, what: what, total: int64(total), stop: make(chan struct{})}
	every := lineEvery
	if term.IsTerminal(int(os.Stderr.Fd())) {
		p.bar, every = newBar(total, what), 200*time.Millisecond
	}
	p.ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				p.show()
			}
		}
	})
	return p
}

// newBar is a bar on the terminal for work that takes over a second.
func newBar(total int, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(&lateWriter{os.Stderr, time.Now().Add(time.Second)}),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(barWidth()),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}

// barWidth leaves room beside a bar for what is done, how much of it, and the times.
func barWidth() int {
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		width = 80
	}
	return min(max(width-60, 5), 40)
}

// lateWriter drops what is written before a moment.
type lateWriter struct {
	w    io.Writer
	from time.Time
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if time.Now().Before(l.from) {
		return len(p), nil
	}
	return l.w.Write(p)
}

// set says how far it is.
func (p *progress) set(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = done, total
}

// add says that so much more is done.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
}

// describe says what is done.
func (p *progress) describe(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
}

// state is how far it is, for all who want to know.
func (p *progress) state() live.State {
	p.mu.Lock()
	s := live.State{Stage: p.what, Done: p.done, Total: max(p.total, 0), Elapsed: time.Since(p.began).Seconds(), ETA: -1}
	p.mu.Unlock()
	if s.Done > 0 && s.Done <= s.Total {
		s.ETA = s.Elapsed * float64(s.Total-s.Done) / float64(s.Done)
	}
	if p.more != nil {
		p.more(&s)
	}
	return s
}

// show shows it on standard error.
func (p *progress) show() {
	s := p.state()
	if p.bar == nil {
		say("%s", line(s))
		return
	}
	what := s.Stage
	for _, f := range s.Facts {
		what += ", " + f.Value + " " + f.Name
	}
	p.bar.Describe(what)
	if s.Total > 0 {
		p.bar.ChangeMax64(s.Total)
		_ = p.bar.Set64(min(s.Done, s.Total-1)) // a full bar draws itself no more; one that cannot be drawn is no error
	} else {
		_ = p.bar.Set64(s.Done)
	}
	_ = p.bar.RenderBlank()
}

// line is a state in a line.
func line(s live.State) string {
	parts := []string{s.Stage}
	if s.Total > 0 {
		parts[0] += fmt.Sprintf(" %s of %s", humanize.Comma(s.Done), humanize.Comma(s.Total))
	} else if s.Done > 0 {
		parts[0] += " " + humanize.Comma(s.Done)
	}
	for _, f := range s.Facts {
		parts = append(parts, f.Value+" "+f.Name)
	}
	parts = append(parts, roughly(s.Elapsed)+" gone")
	if s.ETA >= 0 {
		parts = append(parts, "about "+roughly(s.ETA)+" left")
	}
	const shown = 4
	for _, t := range s.Tables {
		if t.Title != underWay || len(t.Rows) == 0 {
			continue
		}
		var names []string
		for i, r := range t.Rows {
			if i == shown {
				names = append(names, fmt.Sprintf("%d more", len(t.Rows)-shown))
				break
			}
			names = append(names, fmt.Sprintf("%s (%s)", r[0], r[1]))
		}
		parts = append(parts, "under way: "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "; ")
}

// underWay is the title of the table of what is.
const underWay = "under way"

// roughly is a time as people say it.
func roughly(seconds float64) string {
	d := time.Duration(min(seconds, 1e9) * float64(time.Second)).Round(time.Second)
	if d < 10*time.Minute {
		return d.String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// finish takes the bar away.
func (p *progress) finish() {
	close(p.stop)
	p.ended.Wait()
	if p.bar != nil {
		_ = p.bar.Finish() // a bar that cannot be drawn is no error
	}
}
