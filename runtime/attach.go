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
	mu      sync.Mutex
	by      map[any]io.Closer // protected by mu
	opening map[any]*opening  // protected by mu
	order   []io.Closer       // protected by mu: as they were made
	closed  bool              // protected by mu
}

// opening is a thing that is being made.
type opening struct {
	by   string        // immutable: the goroutine
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
		if v := a.by[key]; v != nil {
			return v, nil
		}
		if a.closed {
			return nil, fmt.Errorf("context %s: %w", c.name, errContextClosed)
		}
		o := a.opening[key]
		if o == nil {
			break
		}
		if o.by == goroutine() {
			return nil, fmt.Errorf("context %s: what is being attached as %T asks for itself: %w", c.name, key, mem.ErrInvalidOperation)
		}
		a.mu.Unlock()
		<-o.done
		a.mu.Lock()
	}
	if a.opening == nil {
		a.by, a.opening = make(map[any]io.Closer), make(map[any]*opening)
	}
	o := &opening{by: goroutine(), done: make(chan struct{})}
	a.opening[key] = o
	v, err := func() (io.Closer, error) {
		defer func() {
			delete(a.opening, key)
			close(o.done)
		}()
		return a.open(open)
	}()
	if err != nil {
		return nil, err
	}
	if a.closed { // meanwhile
		return nil, errors.Join(fmt.Errorf("context %s: %w", c.name, errContextClosed), v.Close())
	}
	a.by[key] = v
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
