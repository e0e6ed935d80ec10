package runtime

import (
	"math/bits"
	"sync/atomic"

	"godwit/mem"
)

// Gates: what ends only once the program does something. A user event does, and a host
// call may, since it runs the program's code. What waits for one, and what waits for
// that, hangs on it. Memory that is given again in stream order, and blocks that are
// evicted, must not make a command wait for what hangs on a gate: the program may do
// what opens the gate only after that command. Commands wait for each other anyway where
// the program says so; this is about waits that it knows nothing of.
//
// A closed gate is a bit; the last bit stands for all gates beyond the first 63, and is
// closed while one of these is. A point has the bits of those that it hung on when it
// was submitted. Of an in-order queue all that comes after a command that hangs hangs
// too: so the queue keeps the bits, and where they begin. A bit serves another gate only
// after it has been cleared wherever it is kept. While no gate is closed nothing is kept
// and nothing is looked up.

// gateSet is some gates.
type gateSet uint64

const others gateSet = 1 << 63

// gates are the closed ones, and who hangs on them. Unless said, fields are protected by
// Context.mu; a host call ends without it.
type gates struct {
	closed atomic.Uint64 // a gateSet; safe without the lock
	calls  atomic.Uint64 // of closed: those of host calls; safe without the lock
	beyond atomic.Int64  // closed gates that others stands for; safe without the lock
	stale  gateSet       // bits that may still be kept of gates that are open again
	pages  map[pageOf]*gatePage
	spare  []*gatePage              // to be used anew
	lines  map[*mem.Timeline]*Queue // the users' queues
	dueAt  int                      // pages
}

// gatePage has the gates of neighbouring points of a timeline that is not in order: 8
// bytes a point where a program enqueues very many that hang.
type gatePage [64]gateSet

type pageOf struct {
	line *mem.Timeline
	n    uint64 // Seq / 64
}

// minPages is how many pages are kept without looking which are still needed.
const minPages = 16

// shut closes a new gate. c.mu is held.
func (g *gates) shut(call bool) gateSet {
	free := ^(gateSet(g.closed.Load()) | g.stale | others)
	if free == 0 && g.stale != 0 {
		g.wash()
		free = ^(gateSet(g.closed.Load()) | others)
	}
	gate := others
	if free != 0 {
		gate = 1 << bits.TrailingZeros64(uint64(free))
		g.stale |= gate
	} else {
		g.beyond.Add(1)
	}
	if g.closed.Or(uint64(gate)); call {
		g.calls.Or(uint64(gate))
	} else if gate == others {
		g.calls.And(^uint64(others))
	}
	return gate
}

// open opens a gate. It may be called without locks.
func (g *gates) open(gate gateSet) {
	if gate == others && g.beyond.Add(-1) > 0 {
		return
	}
	g.calls.And(^uint64(gate))
	g.closed.And(^uint64(gate))
	if gate == others && g.beyond.Load() > 0 { // one was shut meanwhile
		g.closed.Or(uint64(others))
	}
}

// wash clears the bits of open gates wherever they are kept. c.mu is held.
func (g *gates) wash() {
	closed := gateSet(g.closed.Load())
	for _, page := range g.pages {
		for i := range page {
			page[i] &= closed
		}
	}
	for _, q := range g.lines {
		q.gates &= closed
	}
	g.stale = closed
}

// gated notes on which gates a command or step hangs that was accepted after waits, in
// q's order, and which is itself one (0 is none); q is nil for no queue of a user's.
// c.mu is held.
func (c *Context) gated(p mem.Point, waits []mem.Wait, q *Queue, itself gateSet) {
	closed := gateSet(c.gates.closed.Load())
	if closed == 0 {
		return
	}
	on := itself
	for i := range waits {
		on |= c.gatesOf(waits[i].Point)
	}
	if on &= closed; q != nil && q.inOrder {
		if q.gates&closed == 0 {
			q.gates, q.gatesFrom = 0, p.Seq
		}
		q.gates |= on
	} else if on != 0 {
		c.gates.page(p)[p.Seq%64] = on
	}
}

// page is the page of a point, a new one where there is none.
func (g *gates) page(p mem.Point) *gatePage {
	at := pageOf{p.Line, p.Seq / 64}
	if page := g.pages[at]; page != nil {
		return page
	}
	if len(g.pages) >= max(g.dueAt, minPages) {
		for at, page := range g.pages {
			if !page.needed(at) {
				*page = gatePage{}
				g.spare = append(g.spare, page)
				delete(g.pages, at)
			}
		}
		g.dueAt = 2 * len(g.pages)
	}
	if g.pages == nil {
		g.pages = make(map[pageOf]*gatePage)
	}
	var page *gatePage
	if n := len(g.spare); n > 0 {
		page, g.spare = g.spare[n-1], g.spare[:n-1]
	} else {
		page = new(gatePage)
	}
	g.pages[at] = page
	return page
}

// needed reports whether some point of the page has not been reached.
func (page *gatePage) needed(at pageOf) bool {
	for i, on := range page {
		if p := (mem.Point{Line: at.line, Seq: at.n*64 + uint64(i)}); on != 0 && !p.Reached() {
			return true
		}
	}
	return false
}

// gatesOf are the gates that a point hung on when it was submitted; bits of gates that
// are open now may be among them. c.mu is held.
func (c *Context) gatesOf(p mem.Point) gateSet {
	switch {
	case p.Reached():
		return 0
	case p.Line == c.userLine:
		return c.openUser[p.Seq]
	}
	if q := c.gates.lines[p.Line]; q != nil && q.inOrder {
		if p.Seq < q.gatesFrom {
			return 0
		}
		return q.gates
	}
	if page := c.gates.pages[pageOf{p.Line, p.Seq / 64}]; page != nil {
		return page[p.Seq%64]
	}
	return 0
}

// hangs reports whether a point waits for something that the program has yet to do.
// c.mu is held.
func (c *Context) hangs(p mem.Point) bool {
	closed := gateSet(c.gates.closed.Load())
	return closed != 0 && c.gatesOf(p)&closed != 0
}

// mayWait reports whether a command may be made to wait for a point that its program
// knows nothing of: one of this context's that hangs on no gate. Of other contexts'
// points nobody here can tell. c.mu is held.
func (c *Context) mayWait(p mem.Point) bool {
	if p.Reached() {
		return true
	}
	if c.gates.lines[p.Line] == nil && !c.mover.Owns(p.Line) {
		return false
	}
	return !c.hangs(p)
}

// callGate opens the gate of a host call with its command.
type callGate struct {
	gates *gates
	gate  gateSet
}

// PointReached implements mem.Waiter.
func (e *callGate) PointReached(mem.Point, error) { e.gates.open(e.gate) }

// submitCall gives the scratch command, which runs code of the program's on the host, to
// its queue. c.mu is held.
func (c *Context) submitCall(q *Queue) (mem.Point, error) {
	s := &c.scratch
	gate := &callGate{&c.gates, c.gates.shut(true)}
	p, err := q.dev.Submit(&s.cmd, s.waits)
	if err != nil {
		c.gates.open(gate.gate)
		return p, err
	}
	c.gated(p, s.waits, q, gate.gate)
	if done, err := p.Notify(gate); done {
		gate.PointReached(p, err)
	}
	return p, nil
}
