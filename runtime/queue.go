package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
)

// QueueOptions say how a queue is to work.
type QueueOptions struct {
	Name       string // for errors and traces; made up where empty
	OutOfOrder bool   // commands start when what they wait for is done, in any order
	Profiling  bool   // keep times, see Event.Times
	// Priority says whose copies and commands go first (docs/design/requests.md#priorities). Copies for queues below the highest priority among the context's give
	// way to others: of such, however many, at most Options.Chunk (4 MiB where that is 0) is before another copy.
	Priority devices.Priority
}

// Queue is the user's way to give commands to one device. In an in-order queue
// (the default) a command starts after all earlier have ended, however they
// ended.
type Queue struct {
	*queueState
	how CommandOptions // immutable
}

// CommandOptions are what the commands have in common that are given to a queue by way of Queue.With.
type CommandOptions struct {
	// Request, where not nil, is what the commands belong to, and can be aborted with.
	Request *Request
	// Label is for people: it is in traces (trace.CommandRecord.Label), beside the kernel's name.
	Label string
	// NoEvent has enqueues return the zero Event, which need not be released: nobody asks for the command's. What is waited for is the queue (Finish,
	// Last), or a marker of its own. Devices need not tell of the end of each launch then, which is cheaper. Blocking calls
	// return the command's error.
	NoEvent bool
}

// With is the same queue, for commands with other options: all that is enqueued by it has these, and everything else is as if it were done
// by q. It is made once, and costs a command nothing.
func (q *Queue) With(o CommandOptions) *Queue {
	if q.made() != nil {
		return q
	}
	return &Queue{q.queueState, o}
}

// queueState is a queue, by whatever it is given commands.
type queueState struct {
	self      *Queue           // immutable: without options
	c         *Context         // immutable
	name      string           // immutable
	mem       mem.MemoryID     // immutable
	inOrder   bool             // immutable
	profiling bool             // immutable
	priority  devices.Priority // immutable
	dev       devices.Queue    // immutable
	line      *mem.Timeline    // immutable: dev's
	prompt    bool             // immutable: dev is never to be flushed (devices.Prompt)
	of        *Queue           // immutable: for which it stands in a recording (Context.RecordApart); else nil

	window window // of commands of requests; has its own lock

	closed  bool          // protected by c.mu
	closing chan struct{} // protected by c.mu: closed once dev.Close has returned; nil where nobody is in it
	barrier mem.Point     // protected by c.mu: the last barrier, where out of order

	recording atomic.Pointer[Recording] // changed under c.mu; nil where it records nothing

	failMu sync.Mutex // a leaf
	failed error      // protected by failMu: the first failure since the last Finish
}

// NewQueue opens a queue of a device of the context (the host has one too:
// Context.Device(mem.Host)). It fails with mem.ErrInvalidDevice where the device
// is another's.
func (c *Context) NewQueue(d devices.Device, o QueueOptions) (*Queue, error) {
	id, err := c.Memory(d)
	if err != nil {
		return nil, err
	}
	if err := c.begin("queue"); err != nil {
		return nil, err
	}
	defer c.unlock()
	if o.Name == "" {
		c.queueSeq++
		o.Name = fmt.Sprintf("%s.q%d", c.topo.Name(id), c.queueSeq)
	}
	q := newQueue(&queueState{c: c, name: o.Name, mem: id, inOrder: !o.OutOfOrder, profiling: o.Profiling, priority: o.Priority})
	q.dev, err = d.NewQueue(devices.QueueOptions{
		Name:       o.Name,
		OutOfOrder: o.OutOfOrder,
		Profiling:  o.Profiling || c.tellsEnds(),
		Priority:   o.Priority,
		OnFail:     q.onFail,
	})
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", o.Name, err)
	}
	q.line = q.dev.Timeline()
	q.window.ws, q.window.inOrder = &c.windows, q.inOrder
	_, q.prompt = q.dev.(devices.Prompt)
	c.queues = append(c.queues, q)
	c.rank()
	c.gates.lines[q.line] = true
	c.listQueues(q)
	return q, nil
}

// rank finds the highest priority of open queues. c.mu is held.
func (c *Context) rank() {
	c.highest = devices.PriorityLow
	for _, q := range c.queues {
		c.highest = max(c.highest, q.priority)
	}
}

// givesWay is the queue's timeline where copies for it give way to others, and else nil. c.mu is held.
func (q *Queue) givesWay() *mem.Timeline {
	if q.priority >= q.c.highest {
		return nil
	}
	return q.line
}

func newQueue(s *queueState) *Queue {
	s.self = &Queue{queueState: s}
	return s.self
}

// listQueues renews the list of what flush has to flush, since a queue has come or gone. c.mu is held.
func (c *Context) listQueues(changed *Queue) {
	if changed.prompt {
		return
	}
	var list []devices.Queue
	for _, q := range c.queues {
		if !q.prompt {
			list = append(list, q.dev)
		}
	}
	list = append(list, c.mover.Lazy()...)
	c.open.Store(&list)
}

// Flush makes sure that all that was enqueued on any queue of the context will start
// without further calls. Whoever waits for a point by other means than an Event or a
// Queue calls it first. From a hook (see trace.CommandSink) it does nothing.
func (c *Context) Flush() {
	if c.inside() == nil {
		c.flush()
	}
}

// flush makes sure that all that was submitted will start: a command may wait
// for copies and commands on any other queue, whose device may hold them back
// until it is flushed. Whoever is about to wait calls it.
func (c *Context) flush() { c.flushBut(nil) }

// flushBut is flush for who calls Wait of one queue at once, which flushes that.
func (c *Context) flushBut(waits devices.Queue) {
	if !c.unflushed.Swap(false) {
		return
	}
	for _, q := range *c.open.Load() {
		if q != waits {
			_ = q.Flush() // closed meanwhile, or a lost device, which those who wait are told
		}
	}
}

// Name is the queue's name.
func (q *Queue) Name() string { return q.name }

// String is the queue's name.
func (q *Queue) String() string {
	if q == nil || q.queueState == nil {
		return "no queue"
	}
	return q.name
}

// Memory is the memory of the queue's device.
func (q *Queue) Memory() mem.MemoryID { return q.mem }

// Last is the point of the command accepted last, or the zero Point. Everything
// enqueued so far has ended once it has Passed.
func (q *Queue) Last() mem.Point { return q.line.Last() }

// Context is the context of the queue.
func (q *Queue) Context() *Context { return q.c }

// onFail is told by the device's queue of a point that failed.
func (q *Queue) onFail(p mem.Point, cause error) {
	q.failMu.Lock()
	if q.failed == nil {
		q.failed = cause
	}
	q.failMu.Unlock()
	q.c.pointFailed(p, cause)
}

// modeOf is the one mode of an optional argument.
func modeOf(how []devices.WaitMode) devices.WaitMode {
	if len(how) == 0 {
		return devices.Park
	}
	return how[0]
}

func (q *Queue) waitPoint(ctx context.Context, p mem.Point, mode devices.WaitMode) error {
	if !p.Reached() {
		if err := q.c.inside(); err != nil {
			return err
		}
		q.c.flushBut(q.dev)
	}
	err := q.dev.Wait(ctx, p, mode)
	if !p.Reached() {
		return q.c.missing(err, p)
	}
	if q.c.lent.some.Load() {
		err = cmp.Or(q.c.giveLentBack(ctx), err)
	}
	return err
}

// waitByHand waits for a read or write whose waiter may leave, and does his part of it.
func (q *Queue) waitByHand(ctx context.Context, req *request) error {
	if !req.point.Reached() {
		q.c.flush()
	}
	err := req.hand.Wait(ctx, req.point)
	if q.c.lent.some.Load() && req.point.Reached() {
		err = cmp.Or(q.c.giveLentBack(ctx), err)
	}
	return err
}

// missing adds to an error of a wait for p, which nothing under way can end, what of the
// program's would have to come first.
func (c *Context) missing(err error, p mem.Point) error {
	if !errors.Is(err, devices.ErrStuck) {
		return err
	}
	c.lock()
	defer c.unlock()
	var events []string
	for seq, gate := range c.openUser {
		if c.gatesOf(p)&gate != 0 {
			events = append(events, mem.Point{Line: c.userLine, Seq: seq}.String())
		}
	}
	if len(events) == 0 {
		return err
	}
	slices.Sort(events)
	return fmt.Errorf("%w; missing: %s, to be set by the program", err, strings.Join(events, ", "))
}

// made fails where q is nil, or no queue that NewQueue made.
func (q *Queue) made() error {
	if q == nil || q.queueState == nil {
		return fmt.Errorf("nil queue: %w", mem.ErrInvalidQueue)
	}
	return nil
}

// live fails where q was closed. c.mu is held.
func (q *Queue) live() error {
	if q.of != nil {
		if q.recording.Load() == nil {
			return fmt.Errorf("queue %s of a recording that is over: %w", q.name, mem.ErrInvalidQueue)
		}
		return q.of.live()
	}
	if q.c.closed {
		return fmt.Errorf("queue %s: context %s: %w", q.name, q.c.name, errContextClosed)
	}
	if q.closed {
		return fmt.Errorf("queue %s was closed: %w", q.name, mem.ErrInvalidQueue)
	}
	return nil
}

// enter begins a call about q, which must be live: it takes the planner lock, and keeps it
// where it does not fail.
func (q *Queue) enter() error {
	if err := q.made(); err != nil {
		return err
	}
	if err := q.c.call(); err != nil {
		return err
	}
	err := q.live()
	if err != nil {
		q.c.unlock()
	}
	return err
}

// running appends the points of commands that were accepted and have not ended;
// of an in-order queue the last, which ends after the others.
func (q *Queue) running(dst []mem.Point) []mem.Point {
	if q.inOrder {
		if p := q.line.Last(); !p.Reached() {
			dst = append(dst, p)
		}
		return dst
	}
	return q.line.Unended(dst, 1)
}

// Finish blocks until all commands enqueued before have ended, or ctx has. It
// returns ctx's error, or the cause of the first failure among the queue's
// commands since the last Finish. How it waits may be said, as in Event.Wait.
func (q *Queue) Finish(ctx context.Context, how ...devices.WaitMode) error {
	if err := q.enter(); err != nil {
		return err
	}
	var last [1]mem.Point
	pending := q.running(last[:0])
	q.c.unlock()
	if n := len(pending); n == 0 || n > few {
		q.c.flush()
	} else {
		q.c.flushBut(q.dev)
	}
	if err := q.drain(ctx, pending, modeOf(how)); err != nil {
		return err
	}
	if err := q.c.giveLentBack(ctx); err != nil {
		return err
	}
	q.failMu.Lock()
	defer q.failMu.Unlock()
	err := q.failed
	q.failed = nil
	return err
}

// few points are waited for one by one, which their device can see to at once; more are
// waited for together, so that who waits is woken once.
const few = 16

// drain waits for points of q, in the order of issue, however they end.
func (q *Queue) drain(ctx context.Context, points []mem.Point, mode devices.WaitMode) error {
	if n := len(points); n > few {
		return q.c.missing(points[n-1].WaitPassed(ctx), points[n-1])
	}
	for _, p := range points {
		if err := q.dev.Wait(ctx, p, mode); err != nil && !p.Reached() {
			return q.c.missing(err, p)
		}
	}
	return nil
}

// Flush makes sure that all enqueued commands, and those on other queues that
// they wait for, will start without further calls.
func (q *Queue) Flush() error {
	if err := q.enter(); err != nil {
		return err
	}
	q.c.unlock()
	q.c.flush()
	return nil
}

// Close refuses further commands and returns when all enqueued ones have ended,
// however long that takes: Finish before it waits under a context. Commands that wait for a user event keep it waiting.
func (q *Queue) Close() error {
	if err := q.enter(); err != nil {
		return err
	}
	if q.of != nil {
		q.c.unlock()
		return fmt.Errorf("close of queue %s of a recording: it ends with that: %w", q.name, mem.ErrInvalidOperation)
	}
	q.closed = true
	q.c.unlock()
	_ = q.dev.Flush() // a lost device: Close says so
	q.c.flush()
	defer q.c.bufferEnded() // perhaps before these commands
	return q.end()
}

// end closes the device's queue, once: whoever comes while another does so waits for that.
// Until then the queue is one of the context's, whose Close has to wait for it, and its
// commands hang as before.
func (q *Queue) end() (err error) {
	c := q.c
	c.lock()
	for q.closing != nil {
		done := q.closing
		c.unlock()
		if err := c.by.Sleep(context.Background(), named("the end of queue "+q.name), done); err != nil {
			return err
		}
		c.lock()
	}
	if !slices.Contains(c.queues, q.self) {
		c.unlock()
		return nil
	}
	done := make(chan struct{})
	q.closing = done
	c.unlock()
	defer func() { q.ended(done, err) }()
	return q.dev.Close()
}

// ended notes how the device's queue closed.
func (q *Queue) ended(done chan struct{}, err error) {
	c := q.c
	c.lock()
	defer c.unlock()
	q.closing = nil
	close(done)
	if errors.Is(err, devices.ErrStuck) { // in virtual time nothing ends what it runs; the program may
		q.closed = false
		return
	}
	c.queues = slices.DeleteFunc(c.queues, func(x *Queue) bool { return x == q.self })
	c.rank()
	c.listQueues(q)
	c.gates.forget(q.line)
}
