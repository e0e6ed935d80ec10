package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"godwit/devices"
	"godwit/mem"
)

// ErrLeak says that a context was closed with buffers that nobody had released.
var ErrLeak = mem.Sentinel("buffers not released", mem.InvalidOperation)

// Close ends the context: nothing can be created or enqueued any more, and all
// commands are drained. Where ctx ends first, commands and copies that have not started,
// and user events that are not set, fail with its cause (context.Cause); Close then waits
// for what is running, however long that takes (see CloseWithin). What a driver's library
// has been given counts as running. Queues and programs are closed and
// every block on every memory is freed. That ends what is still mapped, too: its bytes are
// gone, an unmap or Abandon after it fails with the status of an invalid context, and a
// buffer that was released while mapped counts as not released. The error names buffers
// that were not released (ErrLeak), and what else went wrong. Closing twice fails with
// mem.ErrClosed. An event's callback cannot close the context, which waits for it: there
// closing fails with mem.ErrInvalidOperation.
func (c *Context) Close(ctx context.Context) error {
	if err := c.mayClose(); err != nil {
		return err
	}
	queues, err := c.beginClose()
	if err != nil {
		return err
	}
	return c.endClose(ctx, queues)
}

// closing is a Close that goes on by itself. Its fields are set once, by start.
type closing struct {
	start sync.Once
	done  chan struct{}
	err   error // set before done ends, as is panic
	panic any   // what Close would have panicked with; nil is nothing
}

// CloseWithin is Close for programs that must go on, or end, though a device is stuck:
// it returns when ctx ends, with ctx's error, and the rest goes on in the background for
// as long as commands keep it busy. Every further call waits for the same end under its
// own ctx, and returns what Close did, or panics as it did (HookPanic). Until it has returned that, the context's devices,
// and memory that was lent to it (UseHostPtr), must be left alone.
func (c *Context) CloseWithin(ctx context.Context) error {
	if err := c.mayClose(); err != nil {
		return err
	}
	k := &c.closing
	k.start.Do(func() {
		k.done = make(chan struct{})
		queues, err := c.beginClose() // before it returns, however soon ctx ends
		c.by.Call(func() {
			defer close(k.done)
			defer func() { k.panic = recover() }()
			if k.err = err; err == nil {
				k.err = c.endClose(ctx, queues)
			}
		})
	})
	if err := c.by.Sleep(ctx, named("the end of context "+c.name), k.done); err != nil {
		return fmt.Errorf("context %s: closing: %w", c.name, err)
	}
	if k.panic != nil {
		panic(k.panic)
	}
	return k.err
}

// named is something to wait for, in words.
type named string

func (n named) String() string { return string(n) }

// mayClose fails where closing would wait for its caller.
func (c *Context) mayClose() error {
	if c.callbacks.inside() {
		return fmt.Errorf("context %s: closed from an event's callback: %w", c.name, mem.ErrInvalidOperation)
	}
	return c.inside()
}

// leftOn is what a queue still runs.
type leftOn struct {
	q      *Queue
	points []mem.Point
}

// beginClose makes the context closed, and returns what its queues still run. All that
// closing does, it does in one order: each wait takes time in virtual time (C12). mayClose
// came before: nothing panics here.
func (c *Context) beginClose() ([]leftOn, error) {
	c.by.Enter(devices.Other)
	c.lock()
	defer c.unlock()
	if c.closed {
		return nil, fmt.Errorf("context %s: %w", c.name, mem.ErrClosed)
	}
	c.closed = true
	c.opts.Share.Broker.leave(c)
	var queues []leftOn
	for _, q := range c.queues {
		queues = append(queues, leftOn{q, q.running(nil)})
	}
	return queues, nil
}

// endClose is the rest of Close.
func (c *Context) endClose(ctx context.Context, queues []leftOn) (err error) {
	defer func() { err = errors.Join(err, c.callbacks.drain()) }() // of buffers that were not released
	c.flush()
	for _, l := range queues {
		if err := l.q.drain(ctx, l.points, devices.Park); err != nil {
			if ctx.Err() == nil { // in virtual time: what runs waits for user events
				c.failUserEvents(fmt.Errorf("context %s closed: %w", c.name, err))
			}
			break
		}
	}
	if ctx.Err() != nil {
		c.abort(queues, fmt.Errorf("context %s closed: %w", c.name, context.Cause(ctx)))
	}
	var errs []error
	for _, l := range queues {
		errs = append(errs, l.q.end())
	}
	errs = append(errs, c.mover.Close())
	c.failUserEvents(fmt.Errorf("context %s: %w", c.name, errContextClosed))

	errs = append(errs, c.callbacks.drain(), c.attached.close(), c.locks.wait())

	c.lock()
	defer c.unlock()
	for _, p := range c.programs {
		p.closed = true
		errs = append(errs, p.release())
	}
	errs = append(append(errs, c.unsaid...), c.freeAll(), c.locks.wait())
	return errors.Join(append(errs, c.closeDevices())...)
}

// abort fails commands and copies that have not started, and user events that are not set.
func (c *Context) abort(queues []leftOn, cause error) {
	for _, l := range queues {
		l.q.dev.Abort(cause)
	}
	c.mover.Abort(cause)
	c.failUserEvents(cause)
}

// mostUnsaid is how many errors Close is left to say.
const mostUnsaid = 64

// sayAtClose keeps an error for Close: of storage that could not be freed behind a command
// that was accepted, whose caller is not to take it for refused. c.mu is held.
func (c *Context) sayAtClose(err error) {
	if err != nil && len(c.unsaid) < mostUnsaid {
		c.unsaid = append(c.unsaid, err)
	}
}

// failUserEvents ends the user events that are not set.
func (c *Context) failUserEvents(cause error) {
	c.lock()
	open := c.openUser
	c.openUser = nil
	c.unlock()
	for _, seq := range slices.Sorted(maps.Keys(open)) {
		c.userLine.End(mem.Point{Line: c.userLine, Seq: seq}, cause)
	}
}

// freeAll frees all storage, ends what is still mapped, and names the buffers that still had some owner.
// c.mu is held.
func (c *Context) freeAll() error {
	var errs []error
	var leaks []string
	ids := slices.Sorted(maps.Keys(c.roots))
	for _, id := range ids {
		if r := c.roots[id]; r != nil { // size buffers go after what they count
			errs = append(errs, c.uncount(r))
		}
	}
	for _, id := range ids {
		if r := c.roots[id]; r != nil {
			leaks = append(leaks, fmt.Sprintf("%s (%d bytes)", r.label(), r.size))
			if errs = append(errs, c.endMaps(r, mem.Point{})); c.roots[id] != nil { // its maps were not all that it had
				errs = append(errs, c.drop(r))
			}
		}
	}
	clear(c.svmRoots)
	clear(c.svmSeen[:])
	if len(leaks) > 0 {
		slices.Sort(leaks)
		errs = append(errs, fmt.Errorf("context %s: %d %w: %v", c.name, len(leaks), ErrLeak, leaks))
	}
	for i := range c.mems {
		c.mems[i].res.Trim(0)
	}
	return errors.Join(errs...)
}

// closeDevices closes the host's memory and, where they are the context's, the
// devices. c.mu is held.
func (c *Context) closeDevices() error {
	errs := []error{c.host.Close(), c.closeArena()}
	for _, end := range c.claims {
		end()
	}
	if c.opts.OwnDevices {
		for i := range c.mems[1:] {
			errs = append(errs, c.opts.closeDevice(c.mems[i+1].dev))
		}
	}
	return errors.Join(errs...)
}
