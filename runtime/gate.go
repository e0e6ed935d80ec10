package runtime

import "godwit/mem"

// Gates: what ends only once the program does something. A user event does, and a host
// call may, since it runs the program's code. What waits for one, and what waits for
// that, hangs on it. Memory that is given again in stream order, and blocks that are
// evicted, must not make a command wait for what hangs on a gate: the program may do
// what opens the gate only after that command. Commands wait for each other anyway where
// the program says so; this is about waits that it knows nothing of.
//
// A gate is a number on the context's timeline of user events, which host calls take one
// of, too. A point is said to hang on the last gate only of those that it waits for, and
// counts as free once that and all gates before it are open: so one number is enough, and
// it is never free too early. Of an in-order queue all that comes after a command that
// hangs hangs too, on the same gate or a later one: so the queue keeps where that begins.
// While no gate is closed nothing is kept and nothing is looked up.

// gates are the points that hang on closed gates. Protected by Context.mu.
type gates struct {
	pages map[pageOf]*gatePage     // of points on timelines that are not in order
	spare []*gatePage              // to be used anew
	lines map[*mem.Timeline]*Queue // the users' queues
	dueAt int                      // pages
}

// gatePage has the gates of neighbouring points, 0 where a point hangs on none: 8 bytes
// a point where a program enqueues very many that do.
type gatePage [64]uint64

type pageOf struct {
	line *mem.Timeline
	n    uint64 // Seq / 64
}

// minPages is how many pages are kept without looking which are still needed.
const minPages = 16

// gated notes on which gate a command or step hangs that was accepted after waits, in
// q's order; nil is no queue of a user's. c.mu is held.
func (c *Context) gated(p mem.Point, waits []mem.Wait, q *Queue) {
	if c.userLine.Oldest().IsZero() {
		return
	}
	var gate uint64
	for i := range waits {
		gate = max(gate, c.gateOf(waits[i].Point))
	}
	c.hang(p, gate, q)
}

// hang notes that p, q's latest, hangs on a gate, 0 being none. c.mu is held.
func (c *Context) hang(p mem.Point, gate uint64, q *Queue) {
	if gate == 0 || c.isOpen(gate) {
		return
	}
	if q != nil && q.inOrder {
		if q.gate == 0 || c.isOpen(q.gate) {
			q.gateFrom = p.Seq
		}
		q.gate = max(q.gate, gate)
		return
	}
	c.gates.page(p)[p.Seq%64] = gate
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
	for i, gate := range page {
		if p := (mem.Point{Line: at.line, Seq: at.n*64 + uint64(i)}); gate != 0 && !p.Reached() {
			return true
		}
	}
	return false
}

// gateOf is the gate that a point hangs on; 0 where it hangs on none. c.mu is held.
func (c *Context) gateOf(p mem.Point) uint64 {
	switch {
	case p.Reached():
		return 0
	case p.Line == c.userLine:
		return p.Seq
	}
	if q := c.gates.lines[p.Line]; q != nil && q.inOrder {
		if p.Seq < q.gateFrom {
			return 0
		}
		return q.gate
	}
	if page := c.gates.pages[pageOf{p.Line, p.Seq / 64}]; page != nil {
		return page[p.Seq%64]
	}
	return 0
}

// isOpen reports whether a gate is, and all before it.
func (c *Context) isOpen(gate uint64) bool { return mem.Point{Line: c.userLine, Seq: gate}.Passed() }

// hangs reports whether a point waits for something that the program has yet to do.
// c.mu is held.
func (c *Context) hangs(p mem.Point) bool {
	gate := c.gateOf(p)
	return gate != 0 && !c.isOpen(gate)
}

// mayWait reports whether a command may be made to wait for a point that its program
// knows nothing of: one of this context's that hangs on no gate. Of other contexts'
// points nobody here can tell. c.mu is held.
func (c *Context) mayWait(p mem.Point) bool {
	if p.Reached() {
		return true
	}
	if _, ours := c.gates.lines[p.Line]; !ours && !c.mover.Owns(p.Line) {
		return false
	}
	return !c.hangs(p)
}

// hostGate takes the gate of a host call that is about to be submitted: to be ended
// with its command. c.mu is held.
func (c *Context) hostGate() mem.Point { return c.userLine.Next() }

// endsGate ends a gate with the command that hangs on it.
type endsGate struct{ gate mem.Point }

// PointReached implements mem.Waiter.
func (e endsGate) PointReached(mem.Point, error) { e.gate.Line.End(e.gate, nil) }

// callAccepted ends the gate of a host call with its command, or at once where that was
// refused (p is zero). c.mu is held.
func (c *Context) callAccepted(gate, p mem.Point, q *Queue) {
	if !p.IsZero() {
		c.hang(p, gate.Seq, q)
	}
	if done, err := p.Notify(endsGate{gate}); done {
		endsGate{gate}.PointReached(p, err)
	}
}
