package runtime

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/mem"
)

// Event callbacks. A point tells of its end on whatever goroutine ended it, under
// nobody's locks but perhaps inside somebody's Submit, where a user's function
// has no business. So it only puts the callbacks of its event, in order, on the
// context's list, which one goroutine works off. That goroutine lives while there
// is something to call, and Close returns after it.
//
// Life of a listener: made with the first callback of an event that has not
// ended, told of the start by a driver that tells (startTeller) once
// somebody asked for it, told of the end by the event's point, gone.

// callbacks are a context's. Lock order: mu is a leaf; nothing is called under it.
type callbacks struct {
	mu        sync.Mutex
	exec      devices.Executor    // immutable
	idle      devices.Cond        // calling is false; its lock is mu
	listeners map[Event]*listener // protected by mu
	todo      []callback          // protected by mu
	calling   bool                // protected by mu: the goroutine is there
	by        string              // protected by mu: its name, while calling
}

func (k *callbacks) init(by devices.Executor) { k.exec, k.idle = by, by.Cond(&k.mu) }

type callback struct {
	e      Event
	status ExecStatus
	f      func(Event, ExecStatus)
}

// listener is the callbacks of one event. All but e is protected by callbacks.mu.
type listener struct {
	e       Event
	list    []callback
	asked   bool // the driver is to tell of the start
	started bool // it has
}

// OnStatus has f called once the command's status is s or past it: Submitted,
// Running or Complete. f is given e and s, or the negative status where the
// command failed. It is called once, on a goroutine of the context, never from
// inside another call; one callback of a context at a time, so that it should
// not block. It cannot close the context, which waits for it: Close fails there with
// mem.ErrInvalidOperation. For one event Submitted comes before
// Running and that before Complete, callbacks of one status in the order in which
// they were given. Running's come when the command starts on simulated devices and the
// host, and when it has ended on OpenCL devices, which do not tell, and for user
// events. e stays valid until f returns.
//
// It fails with mem.ErrInvalidEvent where e is no live event and
// mem.ErrInvalidValue where f is nil or s is another status.
func (e Event) OnStatus(s ExecStatus, f func(Event, ExecStatus)) error {
	if f == nil {
		return fmt.Errorf("event callback without a function: %w", mem.ErrInvalidValue)
	}
	if s != Submitted && s != Running && s != Complete {
		return fmt.Errorf("event callback for status %d: submitted, running or complete: %w", s, mem.ErrInvalidValue)
	}
	if err := e.Retain(); err != nil {
		return err
	}
	r, err := e.get()
	if err != nil {
		return err
	}
	k, call := &e.c.callbacks, callback{e, s, f}
	e.c.look()
	if s == Submitted { // all that is accepted was
		if err := r.point.Err(); err != nil {
			call.status = ExecStatus(mem.StatusOf(err))
		}
		k.mu.Lock()
		k.push(call)
		k.mu.Unlock()
		return nil
	}
	l, made, ask := k.listen(call)
	if made && r.queue != nil {
		r.queue.c.flush() // nobody may ever wait for it
	}
	if ask && r.queue != nil {
		if t, ok := r.queue.dev.(startTeller); ok && t.NotifyStart(r.point, l) && !r.point.Reached() {
			l.PointStarted(r.point)
		}
	}
	if !made {
		return nil
	}
	notify(r.point, l)
	return nil
}

// listen gives a callback to its event's listener. made says that there was none,
// ask that the driver has not been asked to tell of the start.
func (k *callbacks) listen(call callback) (l *listener, made, ask bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l = k.listeners[call.e]
	if l == nil {
		l, made = &listener{e: call.e}, true
		if k.listeners == nil {
			k.listeners = make(map[Event]*listener)
		}
		k.listeners[call.e] = l
	}
	if call.status == Running {
		if l.started {
			k.push(call)
			return l, made, false
		}
		ask, l.asked = !l.asked, true
	}
	l.list = append(l.list, call)
	return l, made, ask
}

// startTeller is a queue that tells when its commands start: the simulated devices'.
// It is not in the contract, since OpenCL's own callbacks for CL_RUNNING cost a call
// into the driver and one out of it for each command; of other queues the start is
// told with the end, as OpenCL allows.
type startTeller interface {
	NotifyStart(p mem.Point, w engine.StartWaiter) (started bool)
}

var _ startTeller = (*engine.Queue)(nil)

// PointStarted implements engine.StartWaiter.
func (l *listener) PointStarted(mem.Point) {
	k := &l.e.c.callbacks
	k.mu.Lock()
	defer k.mu.Unlock()
	l.started = true
	for _, call := range l.list {
		if call.status == Running {
			k.push(call)
		}
	}
	l.list = slices.DeleteFunc(l.list, func(c callback) bool { return c.status == Running })
}

// PointReached implements mem.Waiter.
func (l *listener) PointReached(_ mem.Point, err error) {
	k := &l.e.c.callbacks
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.listeners, l.e)
	slices.SortStableFunc(l.list, func(a, b callback) int { return cmp.Compare(b.status, a.status) })
	for _, call := range l.list {
		if err != nil {
			call.status = ExecStatus(mem.StatusOf(err))
		}
		k.push(call)
	}
}

// push adds a callback and sees that somebody calls it. mu is held.
func (k *callbacks) push(call callback) {
	k.todo = append(k.todo, call)
	if !k.calling {
		k.calling = true
		k.exec.Call(k.work)
	}
}

// work calls what there is to call. Where a function panics, or ends its goroutine, another
// goroutine goes on with the rest.
func (k *callbacks) work() {
	done := false
	defer func() {
		if !done {
			k.exec.Call(k.work)
		}
	}()
	for by := goroutine(); k.next(by); {
	}
	done = true
}

// next calls what is to be called next, or ends the calling where there is nothing. The
// goroutine that calls is named by.
func (k *callbacks) next(by string) bool {
	call, ok := k.pop(by)
	if !ok {
		return false
	}
	if !call.e.IsZero() {
		defer func() { _ = call.e.Release() }() // the reference is ours: it cannot fail
	}
	call.f(call.e, call.status)
	return true
}

// pop takes the callback that is to be called next.
func (k *callbacks) pop(by string) (call callback, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.todo) == 0 {
		k.todo, k.calling, k.by = nil, false, ""
		k.idle.Broadcast()
		return call, false
	}
	call, k.todo[0] = k.todo[0], callback{}
	k.todo, k.by = k.todo[1:], by
	return call, true
}

// inside reports whether the calling goroutine is the one that calls.
func (k *callbacks) inside() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calling && k.by == goroutine()
}

// drain waits until everything was called. In virtual time it fails where nothing can end
// what a callback waits for.
func (k *callbacks) drain() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.calling {
		if err := k.idle.Wait(); err != nil {
			return fmt.Errorf("callbacks: %w", err)
		}
	}
	return nil
}

// OnRelease has f called once b is gone: released, and no command uses its bytes.
// A buffer that has bytes of its own is gone after its sub-buffers and mappings, and
// when nothing uses memory that it was given (UseHostPtr) any more. The functions of
// one buffer are called in the reverse of the order in which they were given, as
// Event.OnStatus calls its. It fails with mem.ErrInvalidBuffer where b was released
// and mem.ErrInvalidValue where f is nil.
func (b *Buffer) OnRelease(f func()) error {
	if f == nil {
		return fmt.Errorf("buffer callback without a function: %w", mem.ErrInvalidValue)
	}
	if err := b.enter(); err != nil {
		return err
	}
	defer b.c.unlock()
	if b.view.Sub || b.root.svm != nil {
		b.onRelease = append(b.onRelease, f)
	} else {
		b.root.onRelease = append(b.root.onRelease, f)
	}
	return nil
}

// viewReleased arranges for the callbacks of a sub-buffer, or of a buffer over shared
// virtual memory, whose last reference is gone. Those of its root are called after them.
// c.mu is held.
func (c *Context) viewReleased(b *Buffer) {
	r := b.root
	var points []mem.Point
	for m := range c.mems {
		points = c.planner.Points(points, r.id, mem.MemoryID(m), b.view.Range)
	}
	if r.gone == nil {
		r.gone = newCountdown()
	}
	root, list := r.gone, b.onRelease
	root.left.Add(1)
	afterAll(points, func() {
		c.callbacks.released(append([]func(){root.part}, list...))
	})
}

// rootReleased arranges for the callbacks of a root that is used until the points. c.mu is
// held.
func (c *Context) rootReleased(r *root, points []mem.Point) {
	if len(r.onRelease) == 0 {
		return
	}
	if r.gone == nil {
		r.gone = newCountdown()
	}
	list := r.onRelease
	r.gone.begin(points, func() { c.callbacks.released(list) })
}

// released has the callbacks of a buffer called that nobody uses any more.
func (k *callbacks) released(list []func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range slices.Backward(list) {
		k.push(callback{f: func(Event, ExecStatus) { f() }})
	}
}
