package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"godwit/devices"
	"godwit/mem"
)

// keptTimes is how many of the latest commands of a profiling queue have their
// times kept.
const keptTimes = 4096

// keptRecords is how many free records a queue keeps for reuse; one of many thousands in virtual time, whose
// commands may all be submitted before the first ends, keeps keptPaced.
const (
	keptRecords = 4096
	keptPaced   = 64
)

// recordPage is how many records are made at once: as many as the heap gives 8 KiB
// for, since it would round each up.
const recordPage = 8192 / int(unsafe.Sizeof(record{}))

// Queue is a queue of a simulated device. Its Submit may be called from
// many goroutines; nothing is allocated on the Go heap in steady state.
type Queue struct {
	engine *engine              // immutable
	opts   devices.QueueOptions // immutable
	line   *mem.Timeline        // immutable

	drained devices.Cond // live is zero; its L is mu

	mu     sync.Mutex
	last   *record // protected by mu: the latest accepted of an in-order queue, until it has ended
	free   *record // protected by mu
	nfree  int     // protected by mu
	works  *todo   // protected by mu: free
	nworks int     // protected by mu
	live   int     // protected by mu: records accepted and not yet ended
	active *record // protected by mu: those that run, linked by ready
	closed bool    // protected by mu
	abort  error   // protected by mu: why nothing starts any more; nil until Abort
	times  []timed // protected by mu: a ring by sequence number; nil unless profiling

	failures []failure // protected by mu: ascending; of an in-order queue

	starts map[uint64][]StartWaiter // protected by mu: by sequence number; of commands that have not started
}

type timed struct {
	seq uint64
	devices.Times
}

var (
	_ devices.Queue  = (*Queue)(nil)
	_ devices.Prompt = (*Queue)(nil)
	_ devices.Runner = (*Queue)(nil)
)

// newQueue opens a queue. It fails with mem.ErrClosed after Close, and with mem.ErrInvalidValue where there is no such priority.
func (e *engine) newQueue(opts devices.QueueOptions) (devices.Queue, error) {
	if p := opts.Priority; p < devices.PriorityLow || p > devices.PriorityHigh {
		return nil, fmt.Errorf("queue %q: priority %d: %d to %d: %w", opts.Name, p, devices.PriorityLow, devices.PriorityHigh, mem.ErrInvalidValue)
	}
	q := &Queue{engine: e, opts: opts, line: mem.NewTimeline(opts.Name, !opts.OutOfOrder, opts.OnFail)}
	q.line.SleepBy(e.by.Sleeper())
	q.drained = e.by.Cond(&q.mu)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("queue %q: device %s: %w", opts.Name, e.opts.Name, mem.ErrClosed)
	}
	e.open = append(e.open, opts.Name)
	return q, nil
}

// Timeline implements Queue.
func (q *Queue) Timeline() *mem.Timeline { return q.line }

// Submit implements Queue. It also fails as devices.CheckCommand
// does. A command that takes no time and waits for nothing has ended
// when Submit returns.
func (q *Queue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	if cmd.Op == devices.OpLaunch && q.engine.opts.NoKernels {
		return mem.Point{}, q.engine.noKernels()
	}
	if err := devices.CheckCommand(cmd, q.engine.info); err != nil {
		return mem.Point{}, err
	}
	clearWay := q.engine.instant[cmd.Op] && (cmd.Op != devices.OpCopy || cmd.Late == nil && (cmd.Carrier == nil || cmd.Awaited))
	for i, then := 0, cmd.Then(); clearWay && i < len(then); i++ {
		clearWay = q.engine.instant[then[i].Op]
	}
	for i := 0; clearWay && i < len(waits); i++ {
		p := waits[i].Point
		clearWay = p.Succeeded() || waits[i].Kind == mem.Order && p.Reached()
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return mem.Point{}, q.refused(cmd.Op.String())
	}
	var queued uint64
	keeps := q.opts.Profiling && !cmd.Unobserved
	if keeps {
		queued = q.engine.by.Now()
	}
	var failed error
	if clearWay && q.last == nil && q.abort == nil {
		if cmd.Op != devices.OpMarker {
			failed = q.engine.protect(cmd)
		}
		if failed == nil {
			p := q.line.Ended()
			if keeps {
				q.keepTimes(p.Seq, devices.Times{Queued: queued, Submitted: queued, Started: queued, Ended: queued})
			}
			q.mu.Unlock()
			return p, nil
		}
	}
	r, w := q.take(cmd.Op != devices.OpMarker || keeps || q.engine.opts.Pace != nil)
	p := q.line.Next()
	r.seq = p.Seq
	if w != nil {
		if w.times = (devices.Times{Queued: queued}); failed != nil {
			w.note().failed = failed
		}
	}
	if prev := q.last; prev != nil {
		r.Hold()
		prev.next = r
	}
	if !q.opts.OutOfOrder {
		q.last = r
		r.follow(waits)
	}
	q.mu.Unlock()

	if w != nil {
		w.fill(cmd)
	}
	r.watch(waits)
	if keeps {
		w.times.Submitted = q.engine.by.Now()
	}
	r.release(mem.Point{})
	return p, nil
}

// InRun implements devices.Runner. In virtual time each command has times of its own.
func (q *Queue) InRun(op devices.Op) bool {
	return q.engine.opts.Pace == nil && (op == devices.OpLaunch || op == devices.OpFill || op == devices.OpCopy)
}

// refused is why a queue that was closed does not do something.
func (q *Queue) refused(what string) error {
	return fmt.Errorf("%s on queue %q: %w", what, q.opts.Name, mem.ErrClosed)
}

// take returns a free record, counted as live, with work where it needs that. mu
// is held.
func (q *Queue) take(needsWork bool) (*record, *todo) {
	q.live++
	r := q.free
	if r == nil {
		page := make([]record, recordPage)
		for i := range page {
			page[i].q = q
			page[i].next, q.free = q.free, &page[i]
		}
		q.nfree += len(page)
		r = q.free
	}
	q.free, r.next = r.next, nil
	q.nfree--
	if !needsWork {
		return r, nil
	}
	w := q.works
	if w == nil {
		w = new(todo)
	} else {
		q.works, w.next = w.next, nil
		q.nworks--
	}
	r.work = w
	return r, w
}

// StartWaiter is told that a command has started, as a mem.Waiter is of its end.
type StartWaiter interface {
	PointStarted(p mem.Point)
}

// begin tells of the start of a record's command. Once the queue was aborted nothing
// starts, and begin says why.
func (q *Queue) begin(r *record) error {
	var now uint64
	if r.timed() {
		now = q.engine.by.Now()
	}
	q.mu.Lock()
	if err := q.abort; err != nil {
		q.mu.Unlock()
		return err
	}
	if now != 0 {
		r.work.times.Started = now
	}
	r.ready, q.active = q.active, r
	told := q.starts[r.seq]
	delete(q.starts, r.seq)
	q.mu.Unlock()
	for _, w := range told {
		w.PointStarted(r.point())
	}
	return nil
}

// Forget implements devices.Queue: times are cheap here.
func (q *Queue) Forget(mem.Point) {}

// Abort implements devices.Queue.
func (q *Queue) Abort(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.abort == nil {
		q.abort = cause
	}
}

// aborted is why nothing starts any more.
func (q *Queue) aborted() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.abort
}

// NotifyStart asks that w be told when the command of a point of the queue starts. If
// it has started already, or ended, w is not called: started is true. If the command
// fails before it starts, w is not called either.
func (q *Queue) NotifyStart(p mem.Point, w StartWaiter) (started bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.Line != q.line || p.Reached() || q.activeLocked(p.Seq) {
		return true
	}
	if q.starts == nil {
		q.starts = make(map[uint64][]StartWaiter)
	}
	q.starts[p.Seq] = append(q.starts[p.Seq], w)
	return false
}

// Poll implements devices.Queue.
func (q *Queue) Poll(p mem.Point) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.Line == q.line && q.activeLocked(p.Seq)
}

// activeLocked reports whether a command runs. mu is held.
func (q *Queue) activeLocked(seq uint64) bool {
	for r := q.active; r != nil; r = r.ready {
		if r.seq == seq {
			return true
		}
	}
	return false
}

// finish ends a record's point and lets its successor go.
func (q *Queue) finish(r *record, err error) {
	if r.timed() {
		r.work.times.Ended = q.engine.by.Now()
		q.mu.Lock()
		q.keepTimes(r.seq, r.work.times) // before anybody is told of the end
		q.mu.Unlock()
	}
	p := r.point()
	q.line.End(p, err)
	if r.work != nil {
		r.work.clear()
	}
	r.Reset()
	q.mu.Lock()
	delete(q.starts, r.seq) // of a command that never started
	if err != nil && r.next != nil {
		q.failures = append(q.failures, failure{r.seq, q.last.seq, err})
	}
	for at := &q.active; *at != nil; at = &(*at).ready {
		if *at == r {
			*at = r.ready
			break
		}
	}
	next := q.giveBack(r)
	if len(q.failures) > 0 {
		q.tell(next)
	}
	if q.live--; q.live == 0 {
		q.drained.Broadcast()
	}
	q.mu.Unlock()
	if next != nil {
		next.release(p)
	}
}

// failure is a command of an in-order queue that failed, for those that were behind it by then.
type failure struct {
	seq, until uint64 // its, and that of the last of these
	err        error
}

// tell tells a record, which nothing is before any more, of failures of what it needs of its own queue; nil is that
// there is none. There are some. mu is held.
func (q *Queue) tell(r *record) {
	for len(q.failures) > 0 && (r == nil || q.failures[0].until < r.seq) {
		q.failures = q.failures[1:]
	}
	if len(q.failures) == 0 {
		q.failures = nil
	}
	if r == nil || r.work == nil || r.work.notes == nil {
		return
	}
	for _, seq := range r.work.notes.needs {
		i, failed := slices.BinarySearchFunc(q.failures, seq, func(f failure, seq uint64) int { return cmp.Compare(f.seq, seq) })
		if failed {
			r.Failed(mem.Point{Line: q.line, Seq: seq}, q.failures[i].err)
		}
	}
}

// giveBack frees a record that has ended, and returns its successor. mu is held.
func (q *Queue) giveBack(r *record) (next *record) {
	if q.last == r {
		q.last = nil
	}
	next, r.next, r.ready = r.next, nil, nil
	if w := r.work; w != nil {
		if r.work = nil; q.nworks < q.engine.kept {
			w.next, q.works = q.works, w
			q.nworks++
		}
	}
	if q.nfree < q.engine.kept {
		r.next, q.free = q.free, r
		q.nfree++
	}
	return next
}

// keepTimes records the times of an ended command. mu is held.
func (q *Queue) keepTimes(seq uint64, t devices.Times) {
	i := int(seq % keptTimes)
	if more := i + 1 - len(q.times); more > 0 {
		q.times = append(q.times, make([]timed, more)...)
	}
	q.times[i] = timed{seq, t}
}

// Times implements devices.Queue; the times of the last 4096 commands are kept.
func (q *Queue) Times(p mem.Point, _ devices.Clock) (devices.Times, bool) {
	if p.Line != q.line || !p.Reached() {
		return devices.Times{}, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	i := int(p.Seq % keptTimes)
	if i >= len(q.times) {
		return devices.Times{}, false
	}
	return q.times[i].Times, q.times[i].seq == p.Seq
}

// Wait implements Queue.
func (q *Queue) Wait(ctx context.Context, p mem.Point, _ devices.WaitMode) error {
	if p.Line != q.line {
		return fmt.Errorf("wait for %v on queue %q: a point of another queue: %w", p, q.opts.Name, mem.ErrInvalidEvent)
	}
	return p.Wait(ctx)
}

// StartsByItself implements devices.Prompt.
func (q *Queue) StartsByItself() {}

// Flush implements Queue. Accepted commands start by themselves.
func (q *Queue) Flush() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return fmt.Errorf("flush of queue %q: %w", q.opts.Name, mem.ErrClosed)
	}
	return nil
}

// Close implements Queue. A second Close fails with mem.ErrClosed.
func (q *Queue) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return fmt.Errorf("close of queue %q: %w", q.opts.Name, mem.ErrClosed)
	}
	q.closed = true
	for q.live > 0 {
		if err := q.drained.Wait(); err != nil {
			q.closed = false
			q.mu.Unlock()
			return fmt.Errorf("close of queue %q: %w", q.opts.Name, err)
		}
	}
	q.free, q.nfree, q.works, q.nworks = nil, 0, nil, 0
	q.mu.Unlock()
	e := q.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.open, q.opts.Name); i >= 0 {
		e.open = slices.Delete(e.open, i, i+1)
	}
	return nil
}
