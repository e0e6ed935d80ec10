package runtime

import (
	"sync"
	"sync/atomic"

	"godwit/mem"
)

// Failures after commit. A queue tells of a failed point from any goroutine,
// perhaps from inside its Submit while that goroutine holds the planner lock,
// and always before anybody who waits for the point. So a failure is listed
// first, and settled, that is told to the planner, by whoever has the planner
// lock next: the reporter where it is free, else its holder before giving it up.
// As every taking of the lock settles first, nobody who has seen a failure ends
// up with a plan that has not.
//
// A point that fails before its command is committed is settled after the
// commit, as the committing goroutine holds the lock all the while.

// failureList is what is yet to be settled. Lock order: mu is a leaf.
type failureList struct {
	waiting atomic.Int32 // len(points)
	mu      sync.Mutex
	points  []failedPoint // protected by mu
}

type failedPoint struct {
	point mem.Point
	cause error
}

// pointFailed is what queues call OnFail.
func (c *Context) pointFailed(p mem.Point, cause error) {
	f := &c.failures
	f.mu.Lock()
	f.points = append(f.points, failedPoint{p, cause})
	f.waiting.Store(int32(len(f.points)))
	f.mu.Unlock()
	c.settleIfFree()
}

// lock takes the planner lock, with every failure known so far settled.
func (c *Context) lock() {
	c.mu.Lock()
	c.settle()
}

// unlock gives the planner lock up, and leaves no failure unsettled that was
// listed while it was held.
func (c *Context) unlock() {
	c.settle()
	c.mu.Unlock()
	c.settleIfFree() // listed after the settling by one who found the lock taken
}

// settleIfFree settles where nobody holds the planner lock; its holder does
// otherwise.
func (c *Context) settleIfFree() {
	for c.failures.waiting.Load() > 0 && c.mu.TryLock() {
		c.settle()
		c.mu.Unlock()
	}
}

// settle tells the planner of the listed failures. c.mu is held.
func (c *Context) settle() {
	f := &c.failures
	if f.waiting.Load() == 0 {
		return
	}
	f.mu.Lock()
	points := f.points
	f.points = nil
	f.waiting.Store(0)
	f.mu.Unlock()
	for _, p := range points {
		c.planner.Fail(p.point, p.cause)
	}
}
