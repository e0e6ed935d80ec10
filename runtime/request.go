package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
)

// Request is commands that belong together, on any queues of the context, and can be called off (docs/design/requests.md).
// All methods are safe for use from many goroutines.
type Request struct {
	c    *Context              // immutable
	over atomic.Pointer[error] // why it takes no more commands; nil while it does
	end  mem.Point             // immutable: reached when it takes no more, for who waits for room
	stop func() bool           // immutable: it listens to its context no more
	mu   sync.Mutex            // held by an abort and by Close, before c.mu; nothing else is done in virtual time meanwhile
}

// errRequestClosed is of commands for a request that was closed.
var errRequestClosed = fmt.Errorf("request was closed: %w", mem.ErrInvalidOperation)

// NewRequest makes a request, which is aborted with ctx's cause when ctx ends. It is to be closed.
func (c *Context) NewRequest(ctx context.Context) (*Request, error) {
	if err := c.begin("request"); err != nil {
		return nil, err
	}
	c.unlock()
	line := mem.NewTimeline("request", true, nil)
	line.SleepBy(c.by.Sleeper())
	r := &Request{c: c, end: line.Next()}
	if ctx.Err() != nil { // who hears of it in another goroutine may be late
		r.takeNoMore(context.Cause(ctx))
	}
	r.stop = context.AfterFunc(ctx, func() { _ = r.abort(context.Cause(ctx), false) })
	return r, nil
}

// takeNoMore has later commands refused, and those that wait for room. Of several causes the first counts.
func (r *Request) takeNoMore(cause error) {
	if r.over.CompareAndSwap(nil, &cause) {
		r.end.Line.End(r.end, nil)
	}
}

// Abort calls off what is left of the request: its commands that were not given to their devices yet fail with cause, and
// each poisons what it would have written; later ones, and enqueues that wait for room, are refused with it. Those that a command outside the request waits
// for run, with what they need, and so do copies that were planned, and unmaps. It waits for nothing. Of several causes the first counts; after Close it
// does nothing to later commands.
func (r *Request) Abort(cause error) error {
	if cause == nil {
		cause = context.Canceled
	}
	return r.abort(cause, true)
}

// abort is Abort; where the request was closed it does nothing unless always.
func (r *Request) abort(cause error, always bool) error {
	if err := r.c.inside(); err != nil {
		return err
	}
	r.c.by.Enter(devices.Other)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !always && r.Err() == errRequestClosed {
		return nil
	}
	r.c.lock() // no enqueue of its is between being taken and being accepted
	r.takeNoMore(cause)
	r.c.unlock()
	r.c.windows.abort(func(h *held) bool { return h.of == r }, cause)
	return nil
}

// Close ends the request: what it has enqueued goes on, and cannot be called off any more by its context; further commands are refused. It waits for
// an abort that has begun, so nothing fails with the context's cause later.
func (r *Request) Close() {
	r.stop()
	if r.c.inside() == nil { // a hook has the planner lock, which the abort may want
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	r.takeNoMore(errRequestClosed)
}

// Err is why the request takes no more commands; nil while it does.
func (r *Request) Err() error {
	if err := r.over.Load(); err != nil {
		return *err
	}
	return nil
}

// takes fails where a request takes no command of q. What gives something back is taken by any.
func (r *Request) takes(q *Queue, op opcode) error {
	switch {
	case r == nil || op == opUnmap || op == opSVMUnmap || op == opSVMFree:
		return nil
	case r.c != q.c:
		return fmt.Errorf("%v on queue %s: the request is of another context: %w", op, q.name, mem.ErrInvalidContext)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%v on queue %s: %w", op, q.name, err)
	}
	return nil
}

// orOver are points for one of which an enqueue waits, and the request's end, which has it refused.
func (r *Request) orOver(points []mem.Point) []mem.Point {
	if r == nil {
		return points
	}
	return append(points, r.end)
}

// Abort is Request.Abort for what was accepted on the queue of any request. The queue goes on.
func (q *Queue) Abort(cause error) error {
	if cause == nil {
		cause = errors.New("queue aborted")
	}
	if err := q.enter(); err != nil {
		return err
	}
	q.c.unlock()
	q.c.windows.abort(func(h *held) bool { return h.w == &q.window }, cause)
	return nil
}
