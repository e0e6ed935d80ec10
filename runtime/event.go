package runtime

import (
	"context"
	"fmt"
	"sync"

	"godwit/devices"
	"godwit/mem"
)

// ExecStatus is the execution status of a command, as OpenCL has it: Complete
// is 0, states before it are positive, a failure is its negative OpenCL status.
type ExecStatus int32

// The execution states. Commands are submitted to their device when they are
// enqueued, so Queued is seen only inside an enqueue. Running is known only
// where the driver knows it (devices.Queue.Poll).
const (
	Complete  ExecStatus = 0
	Running   ExecStatus = 1
	Submitted ExecStatus = 2
	Queued    ExecStatus = 3
)

// Event stands for a command, or is a user event. It is a small value, to be
// copied freely; all copies are one reference, and the caller's to Release. An
// event that is never released keeps its record (less than 128 bytes) until
// its context is closed. The zero Event is no event, and an error everywhere.
//
// All methods are safe for use from many goroutines. Use after the last Release
// fails with mem.ErrInvalidEvent, also once the record serves another event.
type Event struct {
	c   *Context
	idx uint32
	gen uint32
}

// eventRecord is what an Event names. Records come from a table and return to
// it; gen counts the lives. All fields are protected by eventTable.mu.
type eventRecord struct {
	point   mem.Point // on the queue's timeline or the context's of user events
	queue   *Queue    // nil for user events
	command uint64    // its number in the context, from 1; 0 for user events; of a recorded command its number there
	gen     uint32
	refs    int32
	next    uint32 // free list: index + 1
	rec     uint32 // the number of the recording that it is a command of; 0 of what is enqueued
}

// eventTable holds the records in pages, so that they never move and a million
// of them cost no copying. Lock order: mu is a leaf.
type eventTable struct {
	mu    sync.Mutex
	pages []*[eventPage]eventRecord // protected by mu
	n     uint32                    // protected by mu: records ever used
	free  uint32                    // protected by mu: first free record + 1
	live  int                       // protected by mu
}

const eventPage = 1024 // records

func (t *eventTable) at(i uint32) *eventRecord { return &t.pages[i/eventPage][i%eventPage] }

// add makes a record with one reference.
func (t *eventTable) add(c *Context, q *Queue, command uint64, p mem.Point) Event {
	t.mu.Lock()
	i := t.free
	if i != 0 {
		i--
		t.free = t.at(i).next
	} else {
		i = t.n
		if i/eventPage == uint32(len(t.pages)) {
			t.pages = append(t.pages, new([eventPage]eventRecord))
		}
		t.n++
	}
	r := t.at(i)
	r.point, r.queue, r.command, r.refs, r.next = p, q, command, 1, 0
	t.live++
	e := Event{c: c, idx: i, gen: r.gen}
	t.mu.Unlock()
	return e
}

// addRecorded is add for a recorded command.
func (t *eventTable) addRecorded(c *Context, rec *Recording, q *Queue, command uint64) Event {
	e := t.add(c, q, command, mem.Point{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at(e.idx).rec = rec.seq
	return e
}

// get copies a live record out, of what is no recorded command.
func (e Event) get() (eventRecord, error) {
	r, err := e.count(0)
	if err == nil && r.rec != 0 {
		return r, fmt.Errorf("event %d stands for a recorded command, which only runs in replays: %w", e.idx, mem.ErrInvalidEvent)
	}
	return r, err
}

// lookup finds a live record, or nil. mu is held.
func (t *eventTable) lookup(e Event) *eventRecord {
	if e.idx >= t.n {
		return nil
	}
	if r := t.at(e.idx); r.gen == e.gen && r.refs > 0 {
		return r
	}
	return nil
}

// appendWaits turns a wait list into Data waits, for context c. On error dst is
// as it was.
func (t *eventTable) appendWaits(dst []mem.Wait, c *Context, list []Event) ([]mem.Wait, error) {
	out := dst
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range list {
		switch {
		case e.c == nil:
			return dst, fmt.Errorf("wait list entry %d is the zero event: %w", i, mem.ErrInvalidWaitList)
		case e.c != c:
			return dst, fmt.Errorf("wait list entry %d belongs to another context: %w", i, mem.ErrInvalidContext)
		}
		r := t.lookup(e)
		if r == nil {
			return dst, fmt.Errorf("wait list entry %d was released: %w", i, mem.ErrInvalidWaitList)
		}
		if r.rec != 0 {
			return dst, fmt.Errorf("wait list entry %d stands for a recorded command: %w", i, mem.ErrInvalidWaitList)
		}
		if r.point.Reached() && r.point.Succeeded() {
			continue
		}
		out = append(out, mem.Wait{Point: r.point, Kind: mem.Data})
	}
	return out, nil
}

// mark sets to true the points that a live event names.
func (t *eventTable) mark(points map[mem.Point]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.n {
		r := t.at(i)
		if r.refs > 0 {
			markNamed(points, r.point)
		}
	}
}

// used is how many records the table has, live or not.
func (t *eventTable) used() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.n)
}

// IsZero reports whether e is no event.
func (e Event) IsZero() bool { return e.c == nil }

// Retain adds a reference, for code that shares an event by counting.
func (e Event) Retain() error {
	_, err := e.count(1)
	return err
}

// Release gives a reference up. With the last, the event is gone; the command
// goes on. Fails with mem.ErrInvalidEvent where it is gone already.
func (e Event) Release() error {
	r, err := e.count(-1)
	if q := r.queue; r.refs == 1 && q != nil && r.rec == 0 && q.profiling && !e.c.tellsEnds() {
		q.dev.Forget(r.point) // nobody can ask for its times any more
	}
	return err
}

// letGo is Release of an event that nobody was given: it kept the cause until its waiter has asked, and its queue keeps no times.
func (e Event) letGo() { _, _ = e.count(-1) }

// count adds references, and copies the live record out as it was before.
func (e Event) count(more int32) (eventRecord, error) {
	if e.c == nil {
		return eventRecord{}, fmt.Errorf("the zero event stands for no command: %w", mem.ErrInvalidEvent)
	}
	t := &e.c.events
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.lookup(e)
	if r == nil {
		return eventRecord{}, fmt.Errorf("event %d (life %d) was released: %w", e.idx, e.gen, mem.ErrInvalidEvent)
	}
	was := *r
	if r.refs += more; r.refs == 0 {
		*r = eventRecord{gen: was.gen + 1, next: t.free}
		t.free = e.idx + 1
		t.live--
	}
	return was, nil
}

// String tells what e stands for: a command by its number and queue, as in traces.
func (e Event) String() string {
	r, err := e.count(0)
	switch {
	case e.IsZero():
		return "no event"
	case err != nil:
		return "released event"
	case r.queue == nil:
		return "user event " + r.point.String()
	case r.rec != 0:
		return fmt.Sprintf("recorded command %d on %s", r.command, r.queue)
	}
	return fmt.Sprintf("command %d on %s", r.command, r.queue)
}

// Point is the place on a timeline where the event's command ends.
func (e Event) Point() (mem.Point, error) {
	r, err := e.get()
	return r.point, err
}

// Command is the number of the command in its context, from 1 in enqueue order
// (0 for user events), as in traces.
func (e Event) Command() (uint64, error) {
	r, err := e.get()
	return r.command, err
}

// Status is the execution status: Complete, or negative where the command
// failed. The error is for e itself, never for the command: see Err.
func (e Event) Status() (ExecStatus, error) {
	if e.c != nil {
		e.c.look()
	}
	r, err := e.get()
	if err != nil {
		return 0, err
	}
	now := Submitted
	if !r.point.Reached() && r.queue != nil && r.queue.dev.Poll(r.point) {
		now = Running
	}
	if !r.point.Reached() {
		return now, nil
	}
	return ExecStatus(mem.StatusOf(r.point.Err())), nil
}

// Err is why the command failed: nil while it has not ended and where it ended
// well. Where e itself is no live event, Err says so.
func (e Event) Err() error {
	r, err := e.get()
	if err != nil {
		return err
	}
	e.c.look()
	return r.point.Err()
}

// Wait blocks until the command has ended or ctx has. It returns the command's
// error or ctx's. How it waits may be said: devices.Park where it is not.
func (e Event) Wait(ctx context.Context, how ...devices.WaitMode) error {
	r, err := e.get()
	if err != nil {
		return err
	}
	e.c.look()
	if r.queue != nil {
		return r.queue.waitPoint(ctx, r.point, modeOf(how))
	}
	if err := e.c.inside(); err != nil {
		return err
	}
	return r.point.Wait(ctx)
}

// ErrProfiling says that the event's queue keeps no times, or the command has not ended.
var ErrProfiling = mem.Sentinel("profiling information not available", mem.ProfilingInfoNotAvailable)

// Times returns when the command changed state, in nanoseconds since the context was
// made by the host's clock, as Context.Now, traces and timelines have it: commands of
// different devices compare, within Times.Error. It may wait for the device, to read its
// clock. In virtual time the clock is the world's and there is no error. It fails with
// ErrProfiling where the queue was made without QueueOptions.Profiling, the driver
// keeps no times, or the command has not ended.
func (e Event) Times() (devices.Times, error) {
	t, err := e.times(devices.HostClock)
	if err != nil {
		return t, err
	}
	for _, at := range []*uint64{&t.Queued, &t.Submitted, &t.Started, &t.Ended} {
		*at = uint64(max(int64(*at-e.c.start), 0)) // below by no more than the error
	}
	return t, nil
}

// DeviceTimes is Times by the device's own clock, as its driver tells them: commands of
// one device compare, to the nanosecond.
func (e Event) DeviceTimes() (devices.Times, error) { return e.times(devices.DeviceClock) }

func (e Event) times(by devices.Clock) (devices.Times, error) {
	r, err := e.get()
	if err != nil {
		return devices.Times{}, err
	}
	if !r.point.Reached() {
		return devices.Times{}, fmt.Errorf("command %d has not ended: %w", r.command, ErrProfiling)
	}
	if r.queue != nil && r.queue.profiling {
		if t, ok := r.queue.dev.Times(r.point, by); ok {
			return t, nil
		}
	}
	return devices.Times{}, fmt.Errorf("command %d: its queue keeps no times: %w", r.command, ErrProfiling)
}

// userFailure is a negative status that the user gave a user event.
type userFailure ExecStatus

func (u userFailure) Error() string      { return fmt.Sprintf("user event set to %d", int32(u)) }
func (u userFailure) Status() mem.Status { return mem.Status(u) }

// NewUserEvent makes an event that ends when SetStatus says so.
func (c *Context) NewUserEvent() (Event, error) {
	if err := c.begin("user event"); err != nil {
		return Event{}, err
	}
	defer c.unlock()
	p := c.userLine.Next()
	c.openUser[p.Seq] = c.gates.shut(false)
	return c.events.add(c, nil, 0, p), nil
}

// SetStatus ends a user event: Complete, or a negative status that becomes the
// cause in all that waits for it. It fails with mem.ErrInvalidEvent where e is
// no user event, mem.ErrInvalidValue where the status is positive, and
// mem.ErrInvalidOperation where it was set before.
func (e Event) SetStatus(s ExecStatus) error {
	r, err := e.get()
	if err != nil {
		return err
	}
	if r.queue != nil {
		return fmt.Errorf("command %d is no user event: %w", r.command, mem.ErrInvalidEvent)
	}
	if s > Complete {
		return fmt.Errorf("user event status %d: it must be 0 (complete) or negative: %w", s, mem.ErrInvalidValue)
	}
	c := e.c
	if err := c.call(); err != nil {
		return err
	}
	gate, open := c.openUser[r.point.Seq]
	if delete(c.openUser, r.point.Seq); open {
		c.gates.openUser(gate)
	}
	c.unlock()
	if !open {
		return fmt.Errorf("user event %v was set before: %w", r.point, mem.ErrInvalidOperation)
	}
	var cause error
	if s < 0 {
		cause = userFailure(s)
	}
	c.userLine.End(r.point, cause)
	return nil
}

// WaitAll waits for all events and returns the first failure in the order of
// the list, or ctx's error.
func WaitAll(ctx context.Context, events ...Event) error {
	var first error
	for _, e := range events {
		if err := e.Wait(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Now is the context's clock, that of Event.Times: nanoseconds since it was made.
func (c *Context) Now() int64 { return int64(c.by.Now() - c.start) }
