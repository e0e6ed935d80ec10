package runtime

import (
	"context"
	"slices"
	"sync/atomic"

	"godwit/mem"
)

// Lent memory: the host's block of a buffer made with UseHostPtr is the program's, and the
// program takes it back once the buffer is released and its commands have ended (C13). An
// eviction's write-back is no command of the program's, nor is a copy for a command that was
// refused: the program knows nothing of them. So whoever gives lent memory back waits for
// them, without the lock:
//
//   - the call that ends the buffer, for those that hang on nothing (gate.go). Write-backs
//     are among these, since no block leaves that is in use by what hangs;
//   - as what hung then may hang no more later, every Finish, every wait for a command and the
//     close of a queue.
//
// Nothing new begins in between: with the release the planner has forgotten the buffer.

// lentCopies are copies of the runtime's that may touch memory whose buffer has ended.
type lentCopies struct {
	some   atomic.Bool // points is not empty
	points []mem.Point // protected by Context.mu
}

// keepLentCopies notes the copies that may touch the lent memory of a root that ends.
// c.mu is held.
func (c *Context) keepLentCopies(r *root) {
	if !r.user || r.svm != nil {
		return
	}
	l, first := &c.lent, len(c.lent.points)
	l.points = c.planner.Points(l.points, r.id, mem.Host, everything)
	l.points = append(l.points[:first], slices.DeleteFunc(l.points[first:], func(p mem.Point) bool { return !c.mover.Owns(p.Line) })...)
	l.some.Store(len(l.points) > 0)
}

// freeLentCopies are the copies that touch memory of ended buffers and hang on nothing.
func (c *Context) freeLentCopies() (free []mem.Point) {
	c.lock()
	defer c.unlock()
	l := &c.lent
	l.points = slices.DeleteFunc(l.points, mem.Point.Reached)
	l.some.Store(len(l.points) > 0)
	for _, p := range l.points {
		if !c.hangs(p) {
			free = append(free, p)
		}
	}
	return free
}

// giveLentBack waits for the copies that touch memory of ended buffers and hang on nothing, or
// until ctx ends, whose error it then returns. c.mu is not held.
func (c *Context) giveLentBack(ctx context.Context) error {
	if !c.lent.some.Load() || c.hooks.running.Load() != 0 && onStack() { // a hook raises nothing after the call
		return nil
	}
	free := c.freeLentCopies()
	c.flush()
	for _, p := range free {
		if err := c.mover.Wait(ctx, p); err != nil && !p.Reached() {
			return err
		}
	}
	return nil
}

// bufferEnded is giveLentBack for calls that may have ended a buffer. Only in virtual time can
// its wait fail: what is left then is for Finish to say.
func (c *Context) bufferEnded() { _ = c.giveLentBack(context.Background()) }
