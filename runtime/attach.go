package runtime

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// attached are things that live as long as the context: made on first use, closed
// with it. Lock order: mu before Context.mu.
type attached struct {
	mu     sync.Mutex
	by     map[any]io.Closer // protected by mu
	order  []io.Closer       // protected by mu: as they were made
	closed bool              // protected by mu
}

// Attached returns what is attached to the context under key, which open makes at
// the first call. So packages above this one have one of something for each context;
// key is best of a type of their own, as with context.Value. Close closes it once all
// commands have ended, before buffers are counted as leaks and devices are closed,
// and the youngest first. It fails like open, and where the context is closed. open
// must not call Attached.
func (c *Context) Attached(key any, open func() (io.Closer, error)) (io.Closer, error) {
	a := &c.attached
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.by[key]; v != nil {
		return v, nil
	}
	if a.closed {
		return nil, fmt.Errorf("context %s: %w", c.name, errContextClosed)
	}
	v, err := open()
	if err != nil {
		return nil, err
	}
	if a.by == nil {
		a.by = make(map[any]io.Closer)
	}
	a.by[key] = v
	a.order = append(a.order, v)
	return v, nil
}

// close closes everything, the youngest first.
func (a *attached) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	var errs []error
	for i := len(a.order) - 1; i >= 0; i-- {
		errs = append(errs, a.order[i].Close())
	}
	clear(a.by)
	a.order = nil
	return errors.Join(errs...)
}
