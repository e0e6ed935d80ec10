package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"godwit/mem"
)

// Request is commands that belong together, on any queues of the context, and can be called off (docs/design/requests.md).
// All methods are safe for use from many goroutines.
type Request struct {
	c    *Context              // immutable
	over atomic.Pointer[error] // why it takes no more commands; nil while it does
	stop func() bool           // immutable: it listens to its context no more
}

// errRequestClosed is of commands for a request that was closed.
var errRequestClosed = fmt.Errorf("request was closed: %w", mem.ErrInvalidOperation)

// NewRequest makes a request, which is aborted with ctx's cause when ctx ends. It is to be closed.
func (c *Context) NewRequest(ctx context.Context) (*Request, error) {
	if err := c.begin("request"); err != nil {
		return nil, err
	}
	c.unlock()
	r := &Request{c: c}
	if ctx.Err() != nil { // who hears of it in another goroutine may be late
		cause := context.Cause(ctx)
		r.over.Store(&cause)
	}
	r.stop = context.AfterFunc(ctx, func() { _ = r.Abort(context.Cause(ctx)) })
	return r, nil
}

// Abort calls off what is left of the request: its commands that were not given to their devices yet fail with cause, and
// each poisons what it would have written; later ones are refused with it. Those that a command outside the request waits for run, with what they
// need, and so do copies that were planned, and unmaps. It waits for nothing. Of several causes the first counts; after Close it does nothing to later commands.
func (r *Request) Abort(cause error) error {
	if cause == nil {
		cause = context.Canceled
	}
	if err := r.c.call(); err != nil {
		return err
	}
	r.over.CompareAndSwap(nil, &cause)
	r.c.unlock()
	r.c.windows.abort(func(h *held) bool { return h.of == r }, cause)
	return nil
}

// Close ends the request: what it has enqueued goes on, and cannot be called off any more by its context; further commands are refused.
func (r *Request) Close() {
	r.stop()
	r.over.CompareAndSwap(nil, &errRequestClosed)
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
