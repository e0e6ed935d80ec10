package engine

import (
	"godwit/devices"
	"godwit/mem"
)

// Pace says when the commands of a device start and end, in the place of workers: for devices
// whose library is asynchronous (examples/asyncdriver), and for those in virtual time (package
// devices/virtual).
type Pace interface {
	// Executor is devices.Goroutines but in virtual time.
	devices.Executor
	// Ready is told of each command whose waits have all been reached, and calls Finish
	// of it later, never from within: perhaps this is inside Submit, or the call of a
	// waiter. It may be called under locks.
	Ready(c Ready)
}

// Ready is an accepted command whose waits have been reached. It is valid until Finish.
type Ready struct {
	r  *record
	by mem.Point
}

// By is the point that was reached last of those it waited for; the zero Point where it
// waited for none.
func (c Ready) By() mem.Point { return c.by }

// Cause is why it must fail and may not start: a point that it has a Data wait on failed,
// or its queue was aborted.
func (c Ready) Cause() error {
	if d := c.r.Cause(); d != nil {
		return d
	}
	return c.r.q.aborted()
}

// Point is the command's point.
func (c Ready) Point() mem.Point { return c.r.point() }

// Command is the command; nil for a marker, perhaps, and for what Promise issued.
func (c Ready) Command() *devices.Command {
	if c.r.work == nil {
		return nil
	}
	return &c.r.work.cmd
}

// Priority is that of its queue.
func (c Ready) Priority() devices.Priority { return c.r.q.opts.Priority }

// Queued is when the command came, where the queue keeps times.
func (c Ready) Queued() uint64 {
	if c.r.work == nil {
		return 0
	}
	return c.r.work.times.Queued
}

// Cut leaves of the command what its Late asks for, where it has one, and reports
// whether there is anything to do. It is called once, where there is no Cause.
func (c Ready) Cut() bool {
	w := c.r.work
	return w == nil || w.cmd.Late == nil || w.cut()
}

// Begin tells that the command starts. Where its queue was aborted since Cause was asked,
// it does not, and must fail with the error.
func (c Ready) Begin() error { return c.r.q.begin(c.r) }

// Execute does what the command does, at once. A panic becomes its error.
func (c Ready) Execute() error { return c.r.q.engine.protect(&c.r.work.cmd) }

// Finish ends the command.
func (c Ready) Finish(err error) {
	if w := c.r.work; err == nil && w != nil && w.cmd.Late != nil {
		w.cmd.Late.Moved()
	}
	c.r.q.finish(c.r, err)
}

// Promise issues a point of the queue for something that the pace does beside commands,
// and ends by Finish.
func (q *Queue) Promise() (Ready, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return Ready{}, q.refused("promise")
	}
	r, _ := q.take(q.opts.Profiling)
	r.seq = q.line.Next().Seq
	if q.opts.Profiling {
		now := q.engine.by.Now()
		r.work.times = devices.Times{Queued: now, Submitted: now}
	}
	return Ready{r: r}, nil
}
