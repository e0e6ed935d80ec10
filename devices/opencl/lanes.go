//go:build cgo

package opencl

import (
	"context"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// lane is how a command goes on that nothing holds: lane and laneInSubmit decide it,
// startLocked and Submit do it.
type lane uint8

const (
	toOpenCL lane = iota // with an event: held to native
	toRunner             // held to elsewhere
	copyHere             // by this goroutine; of what was held
	pass                 // nothing is left of it: it ends well
	fail                 // with the failure of what it waited for, once all that has ended
	wait                 // strictly: it cannot go on before all that it waits for has ended
	starve               // a batch has no staging or no tracks: it is told when to ask again

	// In Submit only.
	later   // it is accepted, and the ready list goes on with it: Submit ends no points
	toSpan  // to OpenCL, without an event and a record: a point of the queue's quiet span (quiet.go)
	copyNow // before Submit returns
	leave   // to who waits for it, which he does at once: held to elsewhere (blocking.go)
)

// lane is how r, which was held, goes on.
func (r *record) lane() lane {
	switch {
	case r.failure != nil && r.strict:
		return fail
	case r.instant() || r.idle():
		return pass
	case r.failure != nil:
		return wait
	case r.batch != nil:
		return r.host.batchLane(r.batch, len(r.edges) > 0)
	case r.late != nil && r.call == nil && !r.cut():
		return pass
	case r.runner != nil:
		return toRunner
	case r.here(directHeld):
		return copyHere
	}
	return toOpenCL
}

// laneInSubmit is how r goes on within Submit.
func (r *record) laneInSubmit(cmd *devices.Command) lane {
	switch {
	case r.failure != nil || r.late != nil || r.instant():
		return later
	case r.batch != nil:
		return r.host.batchLane(r.batch, len(r.edges) > 0)
	case r.mayBeQuiet(cmd):
		return toSpan
	case r.runner != nil:
		return toRunner
	case r.here(directAtOnce):
		return copyNow
	case r.mayBeLeft(cmd):
		return leave
	}
	return toOpenCL
}

// submitLocked is the rest of Submit for r, of which waits may hold it.
func (h *host) submitLocked(r *record, cmd *devices.Command) (mem.Point, error) {
	l := later
	h.coverWaitsLocked(r)
	open := h.resolveLocked(r)
	if open {
		l = r.laneInSubmit(cmd)
	}
	switch l {
	case toSpan:
		return h.submitQuietLocked(r)
	case copyNow:
		return h.copyNowLocked(r), nil
	case toOpenCL: // which may refuse it
		h.mu.Unlock()
		_, err := r.enqueue()
		h.mu.Lock()
		if err != nil {
			h.refuseLocked(r)
			return mem.Point{}, err
		}
	}
	h.acceptLocked(r)
	switch {
	case l == toOpenCL:
		h.nativeLocked(r)
		if r.told {
			h.readyLocked(r)
		}
	case l == toRunner:
		r.elsewhere(r.runner)
	case l == leave:
		h.dropEdgesLocked(r) // who waits looks at the points
		r.elsewhere(waiter{})
	case open && l != starve:
		h.readyLocked(r)
	}
	return r.point, nil
}

// advanceLocked goes on with a record that nothing holds any more. mu is released in
// between. Where OpenCL was given the record, it returns the queue, to be flushed soon:
// OpenCL need not start the command without, and a Flush may have been asked for while it
// was held.
func (h *host) advanceLocked(r *record) *Queue {
	if r.state == native {
		h.settleLocked(r)
		return nil
	}
	if r.end > 0 {
		return nil // held again meanwhile: the first end stands for the batch
	}
	for h.resolveLocked(r) {
		l := r.lane()
		if l == wait {
			r.strict = true
			continue // look again
		}
		return h.startLocked(r, l)
	}
	return nil
}

// startLocked has r carried out. mu is released in between.
func (h *host) startLocked(r *record, l lane) *Queue {
	switch l {
	case fail:
		h.finishAllLocked(r, r.failure)
	case pass:
		h.passLocked(r)
	case toRunner:
		r.elsewhere(r.runner)
	case copyHere:
		h.copyLocked(r)
	case toOpenCL:
		h.mu.Unlock()
		_, err := r.enqueue()
		h.mu.Lock()
		h.enqueuedLocked(r, err)
		return r.q
	}
	return nil
}

// finishAllLocked finishes r and the other ends of its batch, which OpenCL was not given.
func (h *host) finishAllLocked(r *record, err error) {
	for _, x := range slices.Clone(r.others()) {
		h.finishLocked(x, err)
	}
	h.finishLocked(r, err)
}

// enqueuedLocked notes what came of giving r, which was accepted, to OpenCL.
func (h *host) enqueuedLocked(r *record, err error) {
	if err != nil {
		h.dropEdgesLocked(r)
		h.finishAllLocked(r, err)
		return
	}
	h.nativeLocked(r)
	if r.told {
		h.settleLocked(r)
	}
}

// instant reports whether there is nothing left of r, which nothing holds: it is a
// marker behind nothing. In a queue out of order, OpenCL would have it wait for all
// commands there: by its rules where it is given no waits, on some platforms also where it is
// given some that have ended.
func (r *record) instant() bool {
	return r.op == devices.OpMarker && r.failure == nil && len(r.edges) == 0 && !r.q.inOrder
}

// idle reports whether r, which was held, is a marker in an in-order queue of which all that
// came before has ended: OpenCL would take 14 us to say so.
func (r *record) idle() bool {
	return r.op == devices.OpMarker && r.failure == nil && r.q.inOrder && r.reached && r.host.worker == nil
}

// passLocked ends r well. The times of a marker are a host call's.
func (h *host) passLocked(r *record) {
	if r.op != devices.OpMarker || !r.q.timing {
		h.finishLocked(r, nil)
		return
	}
	r.call = func(context.Context) error { return nil }
	r.elsewhere(goroutine{}) // which may ask OpenCL for its clock
}

// cut leaves of a copy what its Late asks for, and reports whether that is
// anything. Such a copy has nothing in its event wait list, so that OpenCL never
// gives it back to be enqueued again.
func (r *record) cut() bool {
	part := devices.PartOf(r.late, r.cmd.Size)
	if part.Empty() {
		return false
	}
	r.cmd.SrcOff += part.Start
	r.cmd.DstOff += part.Start
	r.cmd.Size = part.Size()
	if r.hops {
		r.hop.copy.SrcOff += part.Start
		r.hop.copy.DstOff += part.Start
		r.hop.copy.Size = part.Size()
	}
	if r.bytes != nil {
		r.bytes = r.bytes[part.Start:part.End]
	}
	return true
}

// enqueue gives r to OpenCL, behind the events of its edges. It is called without locks.
func (r *record) enqueue() (ocl.Status, error) {
	r.behindEdges()
	r.awaitEnd()
	for _, x := range r.others() {
		x.awaitEnd()
	}
	st, err := r.give(r.tag)
	if !r.point.IsZero() { // it was held: OpenCL knows of it only now
		r.submits()
		for _, x := range r.others() {
			x.submits()
		}
	}
	if err != nil {
		r.owed = false
		for _, x := range r.others() {
			x.owed = false
		}
	}
	return st, err
}

// behindEdges lists the events of r's edges, and flushes their queues.
func (r *record) behindEdges() {
	r.handles = r.handles[:0]
	for _, x := range r.edges {
		r.handles = append(r.handles, x.event)
		if x.q != r.q || r.batch != nil {
			x.q.flushOnce()
		}
	}
}

// awaitEnd expects a callback of r. It comes before the call that gives r to OpenCL: the
// callback may come before that returns.
func (r *record) awaitEnd() {
	if r.tag.IsZero() {
		r.tag = r.host.sink.Tag(r.index)
	}
	r.owed = true
}

// submits notes when r has been given to OpenCL, or is to a runner.
func (r *record) submits() {
	if r.q.timing {
		r.times.Submitted = hostNow()
	}
}

// give gives r to OpenCL; t is told of its end.
func (r *record) give(t ocl.Tag) (ocl.Status, error) {
	var st ocl.Status
	switch {
	case r.batch != nil:
		return 0, r.batch.enqueue(r.host, r.handles)
	case r.hops:
		return 0, r.giveHop()
	case r.kernel != nil:
		r.kernel.mu.Lock()
		st = r.cmd.Submit(r.args, r.kernel.set, r.handles, nil, t)
		r.kernel.mu.Unlock()
	default:
		r.pinBytes()
		st = r.cmd.Submit(r.args, ocl.SetArgs{}, r.handles, r.bytes, t)
	}
	if r.q.dev.sees(st) != 0 {
		return st, r.refusal(st)
	}
	r.event = r.cmd.Event
	if r.cmd.Quiet == 0 || !r.host.quirks.startsAtOnce {
		r.q.dirty.Store(true)
	}
	return 0, nil
}

// refusal is the error of a command that OpenCL did not take, or not carry out.
func (r *record) refusal(st ocl.Status) error {
	if r.kernel != nil {
		if i := int(r.cmd.FailedArg); i >= 0 && i < len(r.kernel.args) {
			return statusError(st, "kernel %s on device %s, argument %d (%s)", r.kernel.name, r.q.dev.name, i, r.kernel.args[i].Name)
		}
		return statusError(st, "kernel %s on device %s", r.kernel.name, r.q.dev.name)
	}
	return statusError(st, "%v on device %s", r.op, r.q.dev.name)
}

// runner carries out and finishes commands whose waits are reached. OpenCL has no event of
// them that others could wait for.
type runner interface {
	// run is told to carry out r. mu is held; it does not block.
	run(r *record)
}

// elsewhere: held to elsewhere. mu is held.
func (r *record) elsewhere(by runner) {
	r.state = elsewhere
	by.run(r)
}

// goroutine runs host calls, each in a goroutine of its own.
type goroutine struct{}

func (goroutine) run(r *record) {
	r.submits()
	r.q.calls.Go(r.runCall)
}

// runCall is the life of a host call's goroutine.
func (r *record) runCall() {
	r.begins()
	r.Carried(protect(r.call))
}

// begins notes that a runner begins with r.
func (r *record) begins() {
	r.begun.Store(true)
	if r.q.timing {
		r.times.Started = hostNow()
	}
}

// Carried implements devices.Carried: a runner has done r. Times are the host's clock's.
func (r *record) Carried(err error) {
	q, h := r.q, r.host
	if q.timing && err == nil {
		r.times.Ended = hostNow()
		if t, ok := q.dev.onDevice(r.times); ok {
			h.mu.Lock()
			q.keepLocked(timed{seq: r.point.Seq, t: t})
			h.mu.Unlock()
		}
	}
	h.finishedBy(r, err)
}

// carried runs copies that somebody else does.
type carried struct{ by devices.Carrier }

func (c carried) run(r *record) {
	r.submits()
	r.begins()
	c.by.Carry(r)
}

// protect calls f, and turns a panic into an error.
func protect(f func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("host call panicked: %v: %w", v, mem.ErrFault)
		}
	}()
	return f(context.Background())
}
