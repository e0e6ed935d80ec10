//go:build cgo

package opencl

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Queue is a cl_command_queue, and what is held back from it. See host.
type Queue struct {
	dev     *Device
	line    *mem.Timeline
	cl      ocl.Queue
	inOrder bool
	timing  bool           // times are kept; immutable
	dirty   atomic.Bool    // enqueued since the last flush
	calls   sync.WaitGroup // host calls
	use     sync.RWMutex   // held, shared, to flush; and to release cl
	gone    bool           // protected by use: cl is released

	flight  flights     // protected by host.mu: accepted and not ended
	tail    mem.Point   // protected by host.mu: accepted last, where in order
	pending int         // protected by host.mu: accepted, and nobody has been notified of its end
	feeds   int         // protected by host.mu: batches out of it, accepted and not ended
	inside  int         // protected by host.mu: calls that Close waits for: of Submit, and of clFinish
	closing bool        // protected by host.mu
	shut    atomic.Bool // closing, for who does not hold host.mu
	abort   error       // protected by host.mu: why nothing is given to OpenCL any more; nil until Abort
	times   []timed     // protected by host.mu; nil without profiling
	span    span
}

var _ devices.Runner = (*Queue)(nil)

// NewQueue implements devices.Device.
func (d *Device) NewQueue(opts devices.QueueOptions) (devices.Queue, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	cq, err := d.host.context.NewQueue(d.found.device, opts.OutOfOrder && d.id.Uint(infoQueue)&1 != 0, opts.Profiling)
	if err != nil {
		return nil, fmt.Errorf("device %s: no command queue: %w", d.name, err)
	}
	q := &Queue{
		dev: d, line: mem.NewTimeline(opts.Name, !opts.OutOfOrder, opts.OnFail), cl: cq,
		inOrder: !opts.OutOfOrder,
	}
	q.line.OnWait(func() {
		d.host.hurry()
		if q.span.open.Load() {
			q.fenceSoon()
		}
	})
	if opts.Profiling {
		q.timing, q.times = true, make([]timed, keptTimes)
	}
	d.busy.Add(1)
	d.host.mu.Lock()
	d.host.lines[q.line] = q
	d.host.mu.Unlock()
	return q, nil
}

// InRun implements devices.Runner.
func (q *Queue) InRun(op devices.Op) bool {
	return op == devices.OpLaunch && q.inOrder && !q.timing && q.dev.host.worker == nil
}

// Timeline implements devices.Queue.
func (q *Queue) Timeline() *mem.Timeline { return q.line }

// Submit implements devices.Queue.
func (q *Queue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	h := q.dev.host
	if err := devices.CheckCommand(cmd, &q.dev.info); err != nil {
		return mem.Point{}, fmt.Errorf("device %s: %w", q.dev.name, err)
	}
	h.mu.Lock()
	if err := q.takesLocked(); err != nil {
		h.mu.Unlock()
		return mem.Point{}, err
	}
	q.inside++
	r := h.takeLocked(q, cmd.Op, len(waits)+1) // the one before it
	h.mu.Unlock()
	err := r.fill(cmd)

	h.mu.Lock()
	defer h.mu.Unlock()
	defer q.leaveLocked()
	if err != nil {
		h.refuseLocked(r)
		return mem.Point{}, err
	}
	r.forgotten, r.awaited = cmd.Unobserved, cmd.Awaited
	r.waits = append(r.waits, waits...)
	if q.inOrder && !q.tail.Reached() && !slices.ContainsFunc(waits, func(w mem.Wait) bool { return w.Point == q.tail }) {
		r.waits = append(r.waits, mem.Wait{Point: q.tail, Kind: mem.Order})
	}
	r.strict = r.needsReached()
	return h.submitUnlocks(r)
}

// takesLocked fails where q takes no commands any more.
func (q *Queue) takesLocked() error {
	if q.closing {
		return q.errClosed()
	}
	return q.dev.usable()
}

// leaveLocked ends a call that Close waits for.
func (q *Queue) leaveLocked() {
	if q.inside--; q.closing {
		q.dev.host.ended.Broadcast()
	}
}

func (q *Queue) errClosed() error { return fmt.Errorf("queue %s: %w", q.line.Name(), mem.ErrClosed) }

// needsReached reports whether r can be given to OpenCL, or run, only once its
// waits are reached: what a runner runs, and copies whose extent is known only then.
func (r *record) needsReached() bool {
	write := r.cmd.Op == ocl.Write || r.cmd.Op == ocl.WriteRect
	return r.runner != nil || r.late != nil || write && r.host.quirks.takesBytesAtEnqueue && !r.pinned
}

// flushOnce makes OpenCL start what was enqueued, where there is anything new.
func (q *Queue) flushOnce() {
	if !q.dirty.Load() || !q.dirty.Swap(false) {
		return
	}
	q.use.RLock()
	defer q.use.RUnlock()
	if !q.gone {
		q.cl.Flush()
	}
}

// Flush implements devices.Queue.
func (q *Queue) Flush() error {
	if q.shut.Load() {
		return q.errClosed()
	}
	q.flushOnce()
	return nil
}

// Wait implements devices.Queue.
func (q *Queue) Wait(ctx context.Context, p mem.Point, mode devices.WaitMode) error {
	if p.Line != q.line {
		return fmt.Errorf("queue %s: point %v is not of this queue: %w", q.line.Name(), p, mem.ErrInvalidEvent)
	}
	h := q.dev.host
	if !p.Reached() {
		h.mu.Lock()
		h.awaitUnlocks(q, p, mode == devices.BlockThread)
		h.mu.Unlock()
	}
	q.flushOnce()
	if p.Reached() { // some hosts take a microsecond to read a clock
		return p.Err()
	}
	for start := time.Now(); !p.Reached() && time.Since(start) < pollFor && ctx.Err() == nil; {
		if again, _ := h.poll(q, p, askFor); !again {
			break
		}
		runtime.Gosched()
	}
	if p.Reached() {
		return p.Err()
	}
	return p.Wait(ctx)
}

// awaitUnlocks has the caller's thread do what it can for the end of p, where it may block within OpenCL.
func (h *host) awaitUnlocks(q *Queue, p mem.Point, block bool) {
	r := q.flight.get(p.Seq)
	if r != nil && r.deferred {
		h.carryOutUnlocks(r, block)
		r = q.flight.get(p.Seq)
	}
	switch {
	case !block || p.Reached():
	case r != nil:
		h.waitNativeUnlocks(r)
	case q.span.has(p.Seq) && !q.closing: // Close ends it itself
		h.finishSpanUnlocks(q)
	}
}

// pollFor is how long a Wait asks OpenCL again and again before it sleeps until
// it is notified: notice takes 30 to 200 us, which shows in commands shorter
// than some milliseconds, but asking takes a core, which only a machine with
// many can spare.
var pollFor = func() time.Duration {
	if runtime.NumCPU() >= 8 {
		return 50 * time.Millisecond
	}
	return 200 * time.Microsecond
}()

// askFor is how long a Wait asks without host.mu, and without a look at its context.
const askFor = 50 * time.Microsecond

// Poll implements devices.Queue.
func (q *Queue) Poll(p mem.Point) (started bool) {
	h := q.dev.host
	if p.Line != q.line {
		return false
	}
	_, st := h.poll(q, p, 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	r := q.flight.get(p.Seq)
	switch {
	case r == nil:
		return false
	case r.completed:
		return true
	case r.state != native || r.hops:
		return r.begun.Load()
	}
	return st == ocl.Running || st == ocl.Complete
}

// Abort implements devices.Queue. What OpenCL has been given it does not take back.
func (q *Queue) Abort(cause error) {
	h := q.dev.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.abort == nil {
		q.abort = cause
	}
}

// Close implements devices.Queue.
func (q *Queue) Close() error {
	h := q.dev.host
	h.mu.Lock()
	if q.closing {
		h.mu.Unlock()
		return q.errClosed()
	}
	q.closing = true
	q.shut.Store(true)
	for q.inside > 0 { // what they bring in is to be flushed
		h.ended.Wait()
	}
	h.mu.Unlock()
	h.hurry()
	q.flushOnce()
	q.carryOutAll()
	h.mu.Lock()
	for q.pending+q.feeds > 0 {
		h.ended.Wait()
	}
	delete(h.lines, q.line)
	h.mu.Unlock()
	q.calls.Wait()
	st := q.cl.Finish() // records have ended; OpenCL may still be at its bookkeeping, and at unobserved launches
	h.mu.Lock()
	h.retireSpanUnlocks(q, q.span.to, st)
	h.mu.Unlock()
	q.readAll()
	q.use.Lock()
	q.gone = true
	q.cl.Release()
	q.use.Unlock()
	q.dev.busy.Add(-1)
	return nil
}
