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
}

type failedPoint struct {
	point mem.Point
	cause error
}

// pointFailed is what queues and the transport call OnFail.
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

// unlock gives the planner lock up.
func (c *Context) unlock() { c.mu.Unlock() }

// settle tells the planner of the listed failures. c.mu is held.
func (c *Context) settle() {
	f := &c.failures
	f.mu.Lock()
	points := f.points
	f.points = nil
	f.waiting.Store(false)
	f.mu.Unlock()
	for _, p := range points {
		c.planner.Fail(p.point, p.cause)
	}
}
