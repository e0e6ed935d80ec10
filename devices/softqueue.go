package devices

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"godwit/mem"
)

// keptTimes is how many of the latest commands of a profiling queue have their
// times kept.
const keptTimes = 4096

// keptRecords is how many free records a queue keeps for reuse.
const keptRecords = 4096

// SoftQueue is a queue of a simulated device. Its Submit may be called from
// many goroutines; nothing is allocated on the Go heap in steady state.
type SoftQueue struct {
	engine *Engine       // immutable
	opts   QueueOptions  // immutable
	line   *mem.Timeline // immutable

	drained sync.Cond // live is zero; its L is mu

	mu     sync.Mutex
	last   *record // protected by mu: the latest accepted of an in-order queue, until it has ended
	free   *record // protected by mu
	nfree  int     // protected by mu
	live   int     // protected by mu: records accepted and not yet ended
	closed bool    // protected by mu
	times  []timed // protected by mu: a ring by sequence number; nil unless profiling
}

type timed struct {
	seq uint64
	Times
}

var (
	_ Queue    = (*SoftQueue)(nil)
	_ Profiler = (*SoftQueue)(nil)
)

// NewQueue opens a queue. It fails with mem.ErrClosed after Close.
func (e *Engine) NewQueue(opts QueueOptions) (*SoftQueue, error) {
	q := &SoftQueue{engine: e, opts: opts, line: mem.NewTimeline(opts.Name, !opts.OutOfOrder, opts.OnFail)}
	q.drained.L = &q.mu
	if opts.Profiling {
		q.times = make([]timed, keptTimes)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("queue %q: device %s: %w", opts.Name, e.opts.Name, mem.ErrClosed)
	}
	e.open = append(e.open, opts.Name)
	return q, nil
}

// Timeline implements Queue.
func (q *SoftQueue) Timeline() *mem.Timeline { return q.line }

// Submit implements Queue. It also fails where the executor does not accept
// the command. A command that takes no time and waits for nothing has ended
// when Submit returns.
func (q *SoftQueue) Submit(cmd *Command, waits []mem.Wait) (mem.Point, error) {
	if err := q.engine.exec.Accept(cmd); err != nil {
		return mem.Point{}, err
	}
	clearWay := q.engine.instant(cmd.Op) && cmd.Late == nil
	for i := 0; clearWay && i < len(waits); i++ {
		clearWay = waits[i].Point.Reached() && (waits[i].Kind == mem.Order || waits[i].Point.Succeeded())
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return mem.Point{}, fmt.Errorf("%v on queue %q: %w", cmd.Op, q.opts.Name, mem.ErrClosed)
	}
	var queued uint64
	if q.times != nil {
		queued = now()
	}
	var failed error
	if clearWay && q.last == nil {
		if cmd.Op != OpMarker {
			failed = q.engine.protect(cmd)
		}
		if failed == nil {
			p := q.line.Ended()
			q.keepTimes(p.Seq, Times{queued, queued, queued, queued})
			q.mu.Unlock()
			return p, nil
		}
	}
	r := q.take()
	r.failed = failed
	r.point = q.line.Next()
	p := r.point
	r.times = Times{Queued: queued}
	r.holds.Store(1)
	if prev := q.last; prev != nil {
		r.holds.Store(2)
		prev.next = r
	}
	if !q.opts.OutOfOrder {
		q.last = r
	}
	q.mu.Unlock()

	r.fill(cmd)
	r.watch(waits)
	if q.times != nil {
		r.times.Submitted = now()
	}
	r.release()
	return p, nil
}

// take returns a free record, counted as live. mu is held.
func (q *SoftQueue) take() *record {
	q.live++
	r := q.free
	if r == nil {
		r = &record{q: q}
		r.owner = r
		return r
	}
	q.free, r.next = r.next, nil
	q.nfree--
	return r
}

// finish ends a record's point and lets its successor go.
func (q *SoftQueue) finish(r *record, err error) {
	var ended uint64
	if q.times != nil {
		ended = now()
		r.times.Ended = ended
		q.mu.Lock()
		q.keepTimes(r.point.Seq, r.times) // before anybody is told of the end
		q.mu.Unlock()
	}
	q.line.End(r.point, err)
	r.clear()
	q.mu.Lock()
	next := r.next
	if q.last == r {
		q.last = nil
	}
	if q.nfree < keptRecords {
		r.next, q.free = q.free, r
		q.nfree++
	}
	if q.live--; q.live == 0 {
		q.drained.Broadcast()
	}
	q.mu.Unlock()
	if next != nil {
		next.release()
	}
}

// keepTimes records the times of an ended command. mu is held.
func (q *SoftQueue) keepTimes(seq uint64, t Times) {
	if q.times != nil {
		q.times[seq%keptTimes] = timed{seq, t}
	}
}

// Times implements Profiler; the times of the last 4096 commands are kept.
func (q *SoftQueue) Times(p mem.Point) (Times, bool) {
	if p.Line != q.line || q.times == nil || !p.Reached() {
		return Times{}, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.times[p.Seq%keptTimes]
	return t.Times, t.seq == p.Seq
}

// Wait implements Queue.
func (q *SoftQueue) Wait(ctx context.Context, p mem.Point) error {
	if p.Line != q.line {
		return fmt.Errorf("wait for %v on queue %q: a point of another queue: %w", p, q.opts.Name, mem.ErrInvalidEvent)
	}
	return p.Wait(ctx)
}

// Flush implements Queue. Accepted commands start by themselves.
func (q *SoftQueue) Flush() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return fmt.Errorf("flush of queue %q: %w", q.opts.Name, mem.ErrClosed)
	}
	return nil
}

// Close implements Queue. A second Close fails with mem.ErrClosed.
func (q *SoftQueue) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return fmt.Errorf("close of queue %q: %w", q.opts.Name, mem.ErrClosed)
	}
	q.closed = true
	for q.live > 0 {
		q.drained.Wait()
	}
	q.free, q.nfree = nil, 0
	q.mu.Unlock()
	e := q.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.open, q.opts.Name); i >= 0 {
		e.open = slices.Delete(e.open, i, i+1)
	}
	return nil
}
