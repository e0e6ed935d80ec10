package tracelog

import (
	"fmt"

	"godwit/study/page"
)

// Draw has contexts be drawn that begin from now on, by the clock of that name: each command and copy with its reason is
// kept, some 2 KB of memory for each; where last is set, only the last of them (page.Window).
func (l *Log) Draw(clock string, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock, l.last = clock, last
}

// Pictures are the contexts' pictures, of what is known by now.
func (l *Log) Pictures() (out []*page.Run) {
	l.mu.Lock()
	pictures := l.pictures
	l.mu.Unlock()
	for _, p := range pictures {
		out = append(out, p.Run())
	}
	return out
}

// begin begins with a context's picture, if it is wanted. l.mu is held.
func (l *Log) begin(c *sink, capacity []uint64) {
	if l.clock == "" {
		return
	}
	recorder := page.NewRecorder
	if l.last {
		recorder = page.NewWindow
	}
	c.picture = recorder(fmt.Sprintf("context %d", c.number), l.clock, c.names, capacity)
	c.picture.Why = c.why
	c.picture.Note("No critical path: what the host waited for is not known.")
	l.pictures = append(l.pictures, c.picture)
}
