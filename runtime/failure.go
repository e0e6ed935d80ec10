package runtime

import (
	"sync"
	"sync/atomic"

	"godwit/mem"
)

// Failures after commit. A queue tells of a failed point from any goroutine,
// perhaps from inside its Submit while that goroutine holds the planner lock,
// and always before the point counts as reached for anybody. So a failure is only
// listed then, and settled, that is told to the planner, by whoever takes the
// planner lock next. As every taking of the lock settles first, nobody who has seen a
// failure ends up with a plan that has not, and nobody sees planner state in
// which a known failure is missing.
//
// A point that fails before its command is committed is settled after the
// commit, as the committing goroutine holds the lock all the while.

// failureList is what is yet to be settled. Lock order: mu is a leaf.
type failureList struct {
	waiting atomic.Bool // points is not empty
	mu      sync.Mutex
	points  []failedPoint // protected by mu

	// settled are the failed points whose causes are kept; dueAt is how many of
	// them are worth another look. Both are protected by Context.mu.
	settled map[mem.Point]bool // true while marking: a live event names it
	dueAt   int
}

// minCauses is how many causes are kept without asking who needs them.
const minCauses = 64

type failedPoint struct {
	point mem.Point
	cause error
}

// pointFailed is what queues and the mover call OnFail.
func (c *Context) pointFailed(p mem.Point, cause error) {
	f := &c.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	f.points = append(f.points, failedPoint{p, cause})
	f.waiting.Store(true)
}

// lock takes the planner lock, with every failure known so far settled.
func (c *Context) lock() {
	c.mu.Lock()
	if c.failures.waiting.Load() {
		c.settle()
	}
}

// unlock gives the planner lock up, and raises what a hook panicked with. Whoever calls code
// that is not ours with the lock held defers it (C14).
func (c *Context) unlock() {
	failed := c.hooks.failed.Load()
	if failed != nil {
		c.hooks.failed.Store(nil)
	}
	c.scratch.wants = c.scratch.wants[:0] // they name roots that may be released next
	c.mu.Unlock()
	if failed != nil {
		panic(failed)
	}
}

// settle tells the planner of the listed failures. c.mu is held.
func (c *Context) settle() {
	f := &c.failures
	f.mu.Lock()
	points := f.points
	f.points = nil
	f.waiting.Store(false)
	f.mu.Unlock()
	for _, p := range points {
		if p.point.Line != c.userLine && p.point.Line != c.windows.line { // these write nothing
			c.planner.Fail(p.point, p.cause)
		}
		if f.settled == nil {
			f.settled = make(map[mem.Point]bool)
		}
		f.settled[p.point] = false
	}
	if len(f.settled) >= max(f.dueAt, minCauses) {
		c.dropCauses()
	}
}

// dropCauses gives up the causes that nobody can ask for. Who may ask for the
// cause of a failed point is an event of it, a mapping, a hazard or a wait. Here
// c.mu is held and the failures are settled, so that the planner's state names none
// of them (poison has its own copy of the cause), no command is between its plan and
// its submission, and a wait that was submitted has the error already. That leaves
// events and mappings: theirs are marked. The next look is due when there are twice as many
// causes as are left now, and not before there is one for each 64 event records;
// so a failure costs a constant, and what is kept is bounded by the events.
// c.mu is held.
func (c *Context) dropCauses() {
	f := &c.failures
	c.events.mark(f.settled)
	for _, m := range c.maps.all {
		markNamed(f.settled, m.point)
	}
	for p, named := range f.settled {
		if named {
			f.settled[p] = false
			continue
		}
		p.Line.DropCause(p)
		delete(f.settled, p)
	}
	f.dueAt = max(2*len(f.settled), c.events.used()/64)
}

func markNamed(points map[mem.Point]bool, p mem.Point) {
	if _, ok := points[p]; ok {
		points[p] = true
	}
}
