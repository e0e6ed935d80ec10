package runtime

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"

	"godwit/mem"
)

// attached are things that live as long as the context: made on first use, closed
// with it. Lock order: mu before Context.mu.
type attached struct {
	mu     sync.Mutex
	by     map[any]*attachment // protected by mu
	order  []io.Closer         // protected by mu: as they were made
	closed bool                // protected by mu
}

// attachment is a thing, or one that is being made.
type attachment struct {
	v    io.Closer     // protected by attached.mu: nil until it has been made
	by   string        // immutable: the goroutine that makes it
	done chan struct{} // closed when it has been made, or not
}

// Attached returns what is attached to the context under key, which open makes at
// the first call. So packages above this one have one of something for each context;
// key is best of a type of their own, as with context.Value. Close closes it once all
// commands have ended, before buffers are counted as leaks and devices are closed,
// and the youngest first. It fails like open, and where the context is closed. open may
// attach other things that it needs; asking for its own key fails with
// mem.ErrInvalidOperation.
func (c *Context) Attached(key any, open func() (io.Closer, error)) (io.Closer, error) {
	if err := c.inside(); err != nil {
		return nil, err
	}
	a := &c.attached
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		at := a.by[key]
		switch {
		case at != nil && at.v != nil:
			return at.v, nil
		case a.closed:
			return nil, fmt.Errorf("context %s: %w", c.name, errContextClosed)
		case at == nil:
			return a.attach(c, key, open)
		case at.by == goroutine():
			return nil, fmt.Errorf("context %s: what is being attached as %T asks for itself: %w", c.name, key, mem.ErrInvalidOperation)
		}
		a.mu.Unlock()
		<-at.done
		a.mu.Lock()
	}
}

// attach makes a thing. mu is held, but while it is being made.
func (a *attached) attach(c *Context, key any, open func() (io.Closer, error)) (v io.Closer, err error) {
	if a.by == nil {
		a.by = make(map[any]*attachment)
	}
	at := &attachment{by: goroutine(), done: make(chan struct{})}
	a.by[key] = at
	defer func() {
		if at.v == nil {
			delete(a.by, key)
		}
		close(at.done)
	}()
	if v, err = a.open(open); err != nil {
		return nil, err
	}
	if a.closed { // meanwhile
		return nil, errors.Join(fmt.Errorf("context %s: %w", c.name, errContextClosed), v.Close())
	}
	at.v = v
	a.order = append(a.order, v)
	return v, nil
}

// open calls f without mu, which is held again on return, also where f panics.
func (a *attached) open(f func() (io.Closer, error)) (io.Closer, error) {
	a.mu.Unlock()
	defer a.mu.Lock()
	return f()
}

// goroutine names the calling goroutine: the first words of its stack. It takes a
// microsecond, and is asked where something is made for the first time.
func goroutine() string {
	var b [64]byte
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b[:], false)]), " [")
	return name
}

// close closes everything, the youngest first, without mu: what is closed may still ask
// for what is attached.
func (a *attached) close() error {
	a.mu.Lock()
	a.closed = true
	order := a.order
	a.order = nil
	a.mu.Unlock()
	var errs []error
	for _, v := range slices.Backward(order) {
		errs = append(errs, v.Close())
	}
	a.mu.Lock()
	clear(a.by)
	a.mu.Unlock()
	return errors.Join(errs...)
}
