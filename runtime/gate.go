package runtime

import (
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"godwit/eviction"
	"godwit/mem"
)

// Gates: what ends only once the program does something. A user event does, and a host
// call may, since it runs the program's code. What waits for one, and what waits for
// that, hangs on it. Memory that is given again in stream order, and blocks that are
// evicted, must not make a command wait for what hangs on a gate: the program may do
// what opens the gate only after that command. Commands wait for each other anyway where
// the program says so; this is about waits that it knows nothing of.
//
// A closed gate is a bit; where more than 64 are closed, some share the last one. A point has the
// bits of those that it hung on when it was submitted. For each timeline, runs of neighbouring
// points are kept that hang on the same gates: a million commands that wait for one user event are
// one run. Of an in-order queue all that comes after a command that hangs hangs too. A bit serves
// another gate only after it has been cleared wherever it is kept. While no gate is closed nothing
// is kept and nothing is looked up.

// gateSet is some gates.
type gateSet uint64

// gates are the closed ones, and who hangs on them. Unless said, fields are protected by
// Context.mu; a host call ends without it.
type gates struct {
	closed atomic.Uint64               // a gateSet; safe without the lock
	last   sync.Mutex                  // held while a gate opens or closes; nothing is locked under it
	shared [64]int32                   // protected by last: closed gates that have the bit
	users  [64]int32                   // of these, those of user events
	stale  gateSet                     // bits that may still be kept of gates that are open again
	runs   map[*mem.Timeline][]gateRun // in the order of their points
	kept   int                         // runs
	due    int                         // how many are kept before those of open gates are dropped
	lines  map[*mem.Timeline]bool      // the users' queues
}

// gateRun is neighbouring points of a timeline, from and to among them, that hung on the same
// gates.
type gateRun struct {
	from, to uint64
	on       gateSet
}

// minRuns is how many runs are kept without looking which are still needed.
const minRuns = 64

// shut closes a new gate. c.mu is held.
func (g *gates) shut(call bool) gateSet {
	closed := gateSet(g.closed.Load())
	if g.stale|closed == ^gateSet(0) && g.stale != closed {
		g.drop(closed)
		g.stale = closed
	}
	bit := min(bits.TrailingZeros64(uint64(^(g.stale | closed))), 63)
	gate := gateSet(1) << bit
	g.stale |= gate
	if !call {
		g.users[bit]++
	}
	g.last.Lock()
	defer g.last.Unlock()
	g.shared[bit]++
	g.closed.Or(uint64(gate))
	return gate
}

// open opens the gate of a host call. It may be called without locks.
func (g *gates) open(gate gateSet) {
	g.last.Lock()
	defer g.last.Unlock()
	bit := bits.TrailingZeros64(uint64(gate))
	if g.shared[bit]--; g.shared[bit] == 0 {
		g.closed.And(^uint64(gate))
	}
}

// openUser opens the gate of a user event. c.mu is held.
func (g *gates) openUser(gate gateSet) {
	g.users[bits.TrailingZeros64(uint64(gate))]--
	g.open(gate)
}

// kind says what some gates are that were seen closed: Hangs where one is a user event's,
// OnCall where all are of host calls, and Goes where there are none. c.mu is held.
func (g *gates) kind(seen gateSet) eviction.Why {
	if seen == 0 {
		return eviction.Goes
	}
	for ; seen != 0; seen &= seen - 1 {
		if g.users[bits.TrailingZeros64(uint64(seen))] > 0 {
			return eviction.Hangs
		}
	}
	return eviction.OnCall
}

// gated notes on which gates a command or step hangs that was accepted after waits, in
// q's order, and which is itself one (0 is none), of those that are closed, of which there are
// some; q is nil for no queue of a user's. c.mu is held.
func (c *Context) gated(p mem.Point, waits []mem.Wait, q *Queue, itself, closed gateSet) {
	on, runs := itself, c.gates.runs[p.Line]
	for i := range waits {
		on |= c.gatesOf(waits[i].Point)
	}
	if n := len(runs); n > 0 && q != nil && q.inOrder {
		on |= runs[n-1].on
	}
	if on &= closed; on != 0 {
		c.gates.note(runs, p, on, closed)
	}
}

// note notes what a point hangs on: some of the closed gates. runs are those of its timeline.
func (g *gates) note(runs []gateRun, p mem.Point, on, closed gateSet) {
	if n := len(runs); n > 0 && runs[n-1].to+1 == p.Seq && runs[n-1].on&closed == on {
		runs[n-1].to = p.Seq
		return
	}
	if g.kept >= max(g.due, minRuns) {
		g.drop(closed)
		g.due, runs = 2*g.kept, g.runs[p.Line]
	}
	if g.runs == nil {
		g.runs = make(map[*mem.Timeline][]gateRun)
	}
	g.runs[p.Line] = slices.Insert(runs, after(runs, p.Seq), gateRun{p.Seq, p.Seq, on})
	g.kept++
}

// after is the index of the first run that begins after a point.
func after(runs []gateRun, seq uint64) int {
	return sort.Search(len(runs), func(i int) bool { return runs[i].from > seq })
}

// drop clears the bits of open gates, drops the runs that have no others, and makes one of
// neighbours that are alike then: else commands that hang on a gate which stays closed, between calls
// that come and go, take time by their square.
func (g *gates) drop(closed gateSet) {
	g.kept = 0
	for line, runs := range g.runs {
		kept := runs[:0]
		for _, r := range runs {
			r.on &= closed
			n := len(kept) - 1
			switch {
			case r.on == 0 || mem.Point{Line: line, Seq: r.to}.Passed():
			case n >= 0 && kept[n].to+1 == r.from && kept[n].on == r.on:
				kept[n].to = r.to
			default:
				kept = append(kept, r)
			}
		}
		g.runs[line] = kept // its room is for the next ones
		g.kept += len(kept)
	}
}

// forget drops a user's queue, which is closed and has ended all it had, and what is kept of it.
func (g *gates) forget(line *mem.Timeline) {
	delete(g.lines, line)
	g.kept -= len(g.runs[line])
	delete(g.runs, line)
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
	runs := c.gates.runs[p.Line]
	if i := after(runs, p.Seq) - 1; i >= 0 && p.Seq <= runs[i].to {
		return runs[i].on
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
	if !c.gates.lines[p.Line] && !c.mover.Owns(p.Line) {
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
