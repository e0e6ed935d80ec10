package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"godwit/devices"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/runtime"
)

// Options shape a Manager. The zero value is a good default.
type Options struct {
	// CL and CPU replace the two backends, for tests and other drivers.
	CL, CPU Backend
	// Memory is how many bytes of each device's memory are taken at most; 0 is all of it.
	// What does not fit is kept on the host meanwhile. Devices that share the host's
	// memory have none of their own.
	Memory uint64
	// Report is told of objects that nobody released; nil logs a warning. It is
	// called from any goroutine.
	Report func(what string)
}

// Manager finds and opens devices, each once, when they are first asked for. All
// methods are safe for use from many goroutines.
type Manager struct {
	opts Options // immutable

	mu       sync.Mutex
	sessions []*session          // protected by mu: in the order they were opened
	groups   map[string]*session // protected by mu: by what was opened
	closed   bool                // protected by mu: Close has begun
	done     chan struct{}       // protected by mu until closed is set: ended when Close has
	closeErr error               // set before done ends
}

// NewManager returns a manager that has opened nothing yet.
func NewManager(o Options) *Manager {
	if o.CL == nil {
		o.CL = CL()
	}
	if o.CPU == nil {
		o.CPU = CPU()
	}
	if o.Report == nil {
		o.Report = func(what string) { slog.Warn("godwit: not released", "what", what) }
	}
	return &Manager{opts: o, groups: make(map[string]*session), done: make(chan struct{})}
}

// Default returns the handle of the device that name stands for (see the package
// comment), opened at the first call. Names that stand for the same device give
// the same handle. It fails with mem.ErrDeviceNotFound, listing what there is, and
// with mem.ErrClosed after Close.
func (m *Manager) Default(name string) (*Handle, error) {
	hs, err := m.Group(name, 1)
	if err != nil {
		return nil, err
	}
	return hs[0], nil
}

// Group returns handles of n devices that share one Context, so that buffers
// migrate between them: the n best that name stands for. Of a simulated driver and
// of cpu any number can be had; n of zero takes all OpenCL devices that name stands
// for. It fails like Default.
func (m *Manager) Group(name string, n int) ([]*Handle, error) {
	ctx := context.Background()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("device manager: %w", mem.ErrClosed)
	}
	c, err := choose(ctx, m.opts.CL, m.opts.CPU, name)
	if err != nil {
		return nil, err
	}
	if n == 0 && !c.endless {
		n = len(c.candidates)
	}
	if n < 1 || !c.endless && n > len(c.candidates) {
		return nil, fmt.Errorf("%d devices %q: there are %d: %w", n, name, len(c.candidates), mem.ErrDeviceNotFound)
	}
	take := make([]Candidate, n)
	key := c.backend.Name()
	for i := range take {
		take[i] = c.candidates[i%len(c.candidates)]
		key += "|" + take[i].Name
	}
	if s := m.groups[key]; s != nil {
		return s.handles, nil
	}
	s, err := m.open(ctx, c, take)
	if err != nil {
		return nil, err
	}
	m.sessions = append(m.sessions, s)
	m.groups[key] = s
	return s.handles, nil
}

// open opens devices and makes a context and handles over them. m.mu is held.
func (m *Manager) open(ctx context.Context, c choice, take []Candidate) (*session, error) {
	var open []devices.Device
	closeAll := func(err error) error {
		for _, d := range open {
			err = errors.Join(err, d.Close())
		}
		return err
	}
	for _, cand := range take {
		d, err := c.backend.Open(ctx, cand)
		if err != nil {
			return nil, closeAll(fmt.Errorf("device %s: %w", cand.Name, err))
		}
		open = append(open, d)
	}
	o := runtime.Options{Name: c.backend.Name() + strconv.Itoa(len(m.sessions)), Devices: open, OwnDevices: true, Resource: stack(c.backend.OneStorage())}
	o.Caps = make([]uint64, 1, len(open)+1)
	for range open {
		if !c.backend.OneStorage() {
			o.Caps = append(o.Caps, m.opts.Memory)
		}
	}
	if c.backend.OneStorage() {
		for i := range open {
			o.Shared = append(o.Shared, [2]mem.MemoryID{mem.Host, mem.MemoryID(i + 1)})
		}
	}
	rc, err := runtime.OpenContext(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &session{manager: m, context: rc, oneStorage: c.backend.OneStorage(), programs: make(map[*devices.Program]*runtime.Program)}
	for i, d := range open {
		h, err := newHandle(s, c, take[i], d)
		if err != nil {
			return nil, errors.Join(err, rc.Close(ctx))
		}
		s.handles = append(s.handles, h)
	}
	sealDeviceFiles()
	return s, nil
}

// stack has the documented layers put over the memory of devices, and where that is
// the host's, over that.
func stack(oneStorage bool) func(mem.MemoryID, mem.Resource) mem.Resource {
	over := pool.Stack(pool.StackOptions{})
	return func(id mem.MemoryID, base mem.Resource) mem.Resource {
		if oneStorage {
			id = 1
		}
		return over(id, base)
	}
}

// Handles lists all handles there are, in the order they were opened.
func (m *Manager) Handles() []*Handle {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Handle
	for _, s := range m.sessions {
		all = append(all, s.handles...)
	}
	return all
}

// Finish waits until all queues of all handles have ended what was enqueued on
// them, or ctx ends. It returns ctx's error or the first failures of commands.
func (m *Manager) Finish(ctx context.Context) error {
	var errs []error
	for _, h := range m.Handles() {
		if err := h.queue.Finish(ctx); err != nil && !errors.Is(err, mem.ErrClosed) {
			errs = append(errs, fmt.Errorf("%s: %w", h, err))
		}
	}
	return errors.Join(errs...)
}

// Close finishes the queues, then gives up buffers and pools, then closes contexts
// and devices, the youngest first. Where ctx ends first Close returns its error,
// commands that have not started fail, and the rest goes on in the background, for as
// long as a device keeps it busy; every further call waits for the same end. The error names commands that failed
// unnoticed and, as runtime.ErrLeak, buffers that were not released (they are
// freed all the same).
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		go m.close(ctx)
	}
	m.mu.Unlock()
	select {
	case <-m.done:
		return m.closeErr
	default:
	}
	select {
	case <-m.done:
		return m.closeErr
	case <-ctx.Done():
		return fmt.Errorf("device manager: closing: %w", ctx.Err())
	}
}

func (m *Manager) close(ctx context.Context) {
	defer close(m.done)
	m.mu.Lock()
	sessions := m.sessions
	m.mu.Unlock()
	var errs []error
	for i := len(sessions) - 1; i >= 0; i-- {
		errs = append(errs, sessions[i].close(ctx))
	}
	m.closeErr = errors.Join(errs...)
}
