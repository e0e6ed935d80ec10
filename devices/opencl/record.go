//go:build cgo

package opencl

import (
	"context"
	"runtime"
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
)

type state uint8

const (
	free state = iota
	resolving
	held
	enqueuing
	native
	settling
	calling
	owed
	ended
)

// record is an accepted (or being accepted) command. Records are pooled; the
// slices keep their room. Fields are the submitting goroutine's until the
// record is held or native, and protected by host.mu from then on, but for what
// is copied from the command, which does not change.
type record struct {
	host  *host // immutable
	index int   // immutable: of host.records
	tag   tag   // C memory; made by the first enqueue

	// What is looked at most, together.
	q        *Queue
	point    mem.Point
	state    state
	op       devices.Op
	strict   bool  // needs its waits reached, not only in OpenCL
	reached  bool  // resolveLocked has found no wait that is not
	early    bool  // OpenCL ended it before Submit was done
	called   bool  // its callback has come, or none will
	pinned   bool  // bytes are page-locked
	status   int32 // what OpenCL said
	blockers int   // what holds it
	users    int   // edges and polls that need event
	event    handle
	failure  error // the first failure among Data waits
	waits    []mem.Wait
	two      [2]mem.Wait // room for waits
	edges    []*record   // native records waited for; each has users raised
	after    []*record   // held until this one is native or ended
	handles  []handle    // the events of edges
	spent    []handle    // events of earlier tries

	// What to do, from the command.
	bytes  []byte // host end of a transfer
	memory uint64 // the other end's address, where it is this process's; else 0
	pin    runtime.Pinner
	times  devices.Times // of a host call, by the host's clock, where its queue keeps any
	kernel *kernel
	pair   *pair        // the copy goes through a ring
	side   *line        // the ring held by a gated copy
	late   devices.Late // which part of the copy there is to do; nil is all
	call   func(context.Context) error
	number uint64 // devices.Command.Tag, for errors
	unpin  []pinnedBlock
	lent   []lent
	args   []byte
	staged stagedCopy
	begun  atomic.Bool // a runner has begun with it
	covers uint64      // it is no command, but the marker of a cover: of the points up to this
	cmd    nativeCmd
}

type pinnedBlock struct {
	pinner devices.HostBacked
	block  mem.Block
}

// takeLocked returns a free record.
func (h *host) takeLocked() *record {
	if n := len(h.free); n > 0 {
		r := h.free[n-1]
		h.free = h.free[:n-1]
		return r
	}
	some := make([]record, moreRecords)
	for i := range some {
		r := &some[i]
		r.host, r.index, r.waits = h, len(h.records), r.two[:0]
		h.records = append(h.records, r)
		h.free = append(h.free, &some[len(some)-1-i]) // the first is taken first
	}
	return h.takeLocked()
}

// moreRecords is how many records are made at once.
const moreRecords = 32

// told is what tells of r's end.
func (r *record) told() tag {
	if r.tag == nil {
		r.tag = r.host.sink.tag(r.index)
	}
	return r.tag
}

// recycleLocked makes r free where nothing needs it any more.
func (h *host) recycleLocked(r *record) {
	if r.state != ended || !r.called || r.users > 0 {
		return
	}
	if r.event != 0 {
		h.trash = append(h.trash, r.event)
	}
	h.trash = append(h.trash, r.spent...)
	*r = record{host: r.host, index: r.index, tag: r.tag, pin: r.pin, waits: r.waits[:0], args: r.args[:0], edges: r.edges[:0],
		handles: r.handles[:0], after: r.after[:0], unpin: r.unpin[:0], lent: r.lent[:0]}
	h.free = append(h.free, r)
	if h.closing {
		h.ended.Broadcast()
	}
}

// resolveLocked looks at r's waits: failures of Data waits go to r.failure;
// native ones become edges; others, and with r.strict all that are not reached,
// block r. It returns whether r can go on.
func (h *host) resolveLocked(r *record) bool {
	h.dropEdgesLocked(r)
	r.state, r.blockers, r.reached = resolving, 1, true // one for this pass: waiters may come meanwhile
	for i := range r.waits {
		w := &r.waits[i]
		if w.Point.Reached() {
			r.note(w)
			continue
		}
		r.reached = false
		var x *record
		if q := h.lines[w.Point.Line]; q != nil {
			x = q.flight.get(w.Point.Seq)
			if x == nil && !r.strict && q == r.line() && q.quiet.has(w.Point.Seq) {
				continue // the cl queue orders them; settleLocked sees how it ended
			}
		}
		switch {
		case x != nil && !r.strict && (x.state == native || x.state == settling && x.status == 0):
			// An in-order cl queue orders its own, but ends a command as soon as one
			// of its waits has failed, when others have not ended.
			if x.line() == nil || x.line() != r.line() || len(x.edges) > 0 {
				x.users++
				r.edges = append(r.edges, x)
			}
		case x != nil && !r.strict && (x.state == held || x.state == enqueuing || x.state == resolving):
			x.after = append(x.after, r)
			r.blockers++
		default:
			if h.gateLocked(w.Point, r) {
				r.blockers++
			} else {
				r.note(w)
			}
		}
	}
	r.blockers--
	r.state = held
	return r.blockers == 0
}

// line is the in-order cl queue in which r's event is, nil where there is none.
func (r *record) line() *Queue {
	if r.q.inOrder && r.pair == nil && r.call == nil {
		return r.q
	}
	return nil
}

// note remembers the failure of a reached Data wait.
func (r *record) note(w *mem.Wait) {
	if w.Kind == mem.Data && r.failure == nil && !w.Point.Succeeded() {
		r.failure = devices.Dependency(w.Point, w.Point.Err())
	}
}

func (h *host) dropEdgesLocked(r *record) {
	for _, x := range r.edges {
		x.users--
		h.recycleLocked(x)
	}
	clear(r.edges)
	r.edges = r.edges[:0]
}

// advanceLocked moves a record on that nothing blocks any more. mu is released
// in between. Where OpenCL was given the record, it returns the queue, to be flushed
// soon: OpenCL need not start the command without, and a Flush may have been asked for
// while it was held.
func (h *host) advanceLocked(r *record) *Queue {
	if r.state == settling {
		h.settleLocked(r)
		return nil
	}
	for {
		if !h.resolveLocked(r) {
			return nil
		}
		strict := r.strict
		switch {
		case r.failure != nil && r.strict: // all waits have ended: nothing overtakes through it
			r.called = true
			h.finishLocked(r, r.failure)
			return nil
		case r.instant():
			h.passLocked(r)
			return nil
		case r.failure != nil || r.op == devices.OpHostCall:
			r.strict = true
		case r.pair != nil && len(r.edges) > 0 && !r.takeSide():
			r.strict = true
		}
		if r.strict && !strict {
			continue // look again: now every wait must be reached
		}
		if r.op == devices.OpHostCall {
			r.state, r.called = calling, true
			if r.q.timing {
				r.times.Submitted = hostNow()
			}
			r.q.calls.Go(func() { h.runCall(r) })
			return nil
		}
		break
	}
	if r.late != nil && !r.cut() {
		r.called = true
		h.finishLocked(r, nil)
		return nil
	}
	if x := r.runner(); x != nil {
		x.push(r)
		return nil
	}
	if r.here(directHeld) {
		h.copyHeldLocked(r)
		return nil
	}
	q := r.q
	r.state = enqueuing
	h.mu.Unlock()
	st, err := r.enqueue()
	h.mu.Lock()
	h.enqueuedLocked(r, st, err)
	return q
}

// instant reports whether there is nothing left of r, which nothing blocks: it is a
// marker behind nothing. In a queue out of order, OpenCL would have it wait for all
// commands there: by its rules where it is given no waits, with PoCL 3.1 and NVIDIA's
// library also where it is given some that have ended.
func (r *record) instant() bool {
	return r.op == devices.OpMarker && r.failure == nil && len(r.edges) == 0 && !r.q.inOrder
}

// passLocked ends an instant record. Its times are a host call's.
func (h *host) passLocked(r *record) {
	r.called = true
	if !r.q.timing {
		h.finishLocked(r, nil)
		return
	}
	r.state, r.call = calling, func(context.Context) error { return nil }
	r.times.Submitted = hostNow()
	r.q.calls.Go(func() { h.runCall(r) }) // which may ask OpenCL for its clock
}

// cut leaves of a copy what its Late asks for, and reports whether that is
// anything. Such a copy has nothing in its event wait list, so that OpenCL never
// gives it back to be enqueued again.
func (r *record) cut() bool {
	part := devices.PartOf(r.late, uint64(r.cmd.size))
	if part.Empty() {
		return false
	}
	r.cmd.src_off += size(part.Start)
	r.cmd.dst_off += size(part.Start)
	r.cmd.size = size(part.Size())
	if r.bytes != nil {
		r.bytes = r.bytes[part.Start:part.End]
	}
	return true
}

// enqueue gives r to OpenCL, behind the events of its edges. It is called
// without locks.
func (r *record) enqueue() (int32, error) {
	r.handles = r.handles[:0]
	for _, x := range r.edges {
		r.handles = append(r.handles, x.event)
		if x.q != r.q || x.pair != nil {
			x.q.flushOnce()
		}
	}
	return r.give(r.told())
}

// enqueueQuiet is enqueue of what has no edges, and whose end nobody is told.
func (r *record) enqueueQuiet() (int32, error) {
	r.handles = r.handles[:0]
	return r.give(nil)
}

// give gives r to OpenCL; t is told of its end.
func (r *record) give(t tag) (int32, error) {
	var st int32
	switch {
	case r.pair != nil:
		st = r.pair.copy(r)
	case r.kernel != nil:
		r.kernel.mu.Lock()
		st = int32(submit(&r.cmd, r.args, r.kernel.set, r.handles, nil, t))
		r.kernel.mu.Unlock()
	default:
		r.pinBytes()
		st = int32(submit(&r.cmd, r.args, nil, r.handles, r.bytes, t))
	}
	if r.q.dev.sees(st); st != 0 {
		return st, r.refusal(st)
	}
	r.event = r.cmd.event
	if r.cmd.quiet == 0 || !r.host.immediate {
		r.q.dirty.Store(true)
	}
	return 0, nil
}

// refusal is the error of a command that OpenCL did not take.
func (r *record) refusal(st int32) error {
	if r.kernel != nil {
		if i := int(r.cmd.failed_arg); i >= 0 && i < len(r.kernel.args) {
			return statusError(st, "kernel %s on device %s, argument %d (%s)", r.kernel.name, r.q.dev.name, i, r.kernel.args[i].Name)
		}
		return statusError(st, "kernel %s on device %s", r.kernel.name, r.q.dev.name)
	}
	return statusError(st, "%v on device %s", r.op, r.q.dev.name)
}

// enqueuedLocked notes the outcome of enqueue for an accepted command.
func (h *host) enqueuedLocked(r *record, st int32, err error) {
	if err != nil || st != 0 {
		r.called = true
		h.dropEdgesLocked(r)
		h.finishLocked(r, err)
		return
	}
	h.nativeLocked(r)
	if r.early {
		h.settleLocked(r)
	}
}

// nativeLocked: OpenCL has r; what was held by it can go on.
func (h *host) nativeLocked(r *record) {
	r.state = native
	for _, x := range r.after {
		h.unblockLocked(x)
	}
	clear(r.after)
	r.after = r.after[:0]
	if !r.early && r.cmd.no_callback != 0 {
		h.moving.Go(func() { // no callback will come: somebody has to wait
			st := eventWait(r.event)
			h.mu.Lock()
			h.draining++
			h.callbackLocked(r, st)
			h.drainLocked()
			h.mu.Unlock()
		})
	}
}
