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

// lane is how a command goes on that nothing holds.
type lane uint8

const (
	toOpenCL lane = iota // held to native, or an unobserved launch
	toRunner             // held to elsewhere
	inPlace              // to its end: this goroutine copies what there is to copy
	fail                 // to its end, with the failure of what it waited for
)

// lane is how r goes on, which nothing holds. most is up to how many bytes are copied in place.
//
// There is nothing left of a marker of which all waits have ended. In a queue out of order OpenCL would have it
// wait for all commands there: by its rules if it is given no waits, on some platforms also if it is given some
// that have ended. In order it would take 14 us to say so.
func (r *record) lane(most uint64) lane {
	switch {
	case r.failure != nil:
		return fail
	case r.reached && r.op == devices.OpMarker && r.runner == nil, r.late != nil && r.call == nil && !r.cut(),
		r.reached && r.memory != 0 && r.cmd.Size <= most && (r.carrier == nil || r.point.IsZero()): // once accepted, its Carrier is who knows whether its bytes may be touched
		return inPlace
	case r.runner != nil || r.deferred:
		return toRunner
	}
	return toOpenCL
}

// submitUnlocks is the rest of Submit for r, of which waits may hold it. It ends no point that
// anybody waits for.
func (h *host) submitUnlocks(r *record) (mem.Point, error) {
	if h.quirks.slowEvents {
		h.fenceWaitsUnlocks(r)
	}
	if !h.resolveLocked(r) {
		r.keepArguments()
		h.acceptLocked(r)
		return r.point, nil
	}
	if r.late != nil || r.failure != nil { // which asks for the part, or ends it: the ready list does
		h.acceptLocked(r)
		h.readyLocked(r)
		return r.point, nil
	}
	r.deferred = r.mayBeDeferred()
	switch r.lane(directAtOnce) {
	case inPlace:
		return h.copyNowUnlocks(r), nil
	case toRunner:
		h.acceptLocked(r)
		h.dropEdgesLocked(r) // a waiter looks at the points
		r.elsewhere()
		return r.point, nil
	}
	if r.forgotten && h.quirks.slowEvents && r.mayBeUnobserved() {
		return h.launchUnobservedUnlocks(r)
	}
	if err := h.enqueueUnlocks(r); err != nil {
		h.refuseLocked(r)
		return mem.Point{}, err
	}
	h.acceptLocked(r)
	h.nativeLocked(r)
	return r.point, nil
}

// advanceUnlocks goes on with a record of the ready list. Where OpenCL was given it, it returns
// the queue, to be flushed soon: OpenCL need not start the command without, and a Flush may have
// been asked for while it was held.
func (h *host) advanceUnlocks(r *record) *Queue {
	switch {
	case r.completed:
		h.settleUnlocks(r)
		return nil
	case r.end > 0 || !h.resolveLocked(r): // of a batch, the first end stands for all
		return nil
	}
	switch r.lane(directHeld) {
	case fail:
		h.finishAllUnlocks(r, r.failure)
	case inPlace:
		h.copyUnlocks(r)
	case toRunner:
		r.elsewhere()
	case toOpenCL:
		if err := h.enqueueUnlocks(r); err != nil {
			h.dropEdgesLocked(r)
			h.finishAllUnlocks(r, err)
		} else {
			h.nativeLocked(r)
		}
		return r.q
	}
	return nil
}

// finishAllUnlocks finishes r and the other ends of its batch, which OpenCL was not given.
func (h *host) finishAllUnlocks(r *record, err error) {
	for _, x := range slices.Clone(r.ends()) {
		h.finishUnlocks(x, err)
	}
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

// enqueueUnlocks gives r to OpenCL, behind the events of its edges.
func (h *host) enqueueUnlocks(r *record) error {
	for _, x := range r.ends() {
		x.callbackDue = true // it may come before the call returns that gives r to OpenCL
	}
	h.mu.Unlock()
	r.behindEdges()
	err := r.give(r.tag)
	h.mu.Lock()
	for _, x := range r.ends() {
		if !x.point.IsZero() && !x.hops { // it was held: OpenCL knows of it only now
			x.submits()
		}
		if err != nil && x.event == 0 {
			x.callbackDue = false // none comes; where one does, it may have come by now
		}
	}
	return r.partly(err)
}

// partly has a run go on of which OpenCL took only the first commands, or a launch without what is to follow it, to fail when these have ended. Any other error it returns.
func (r *record) partly(err error) error {
	if err == nil || r.cmd.Enqueued == 0 {
		return err
	}
	if r.failure = err; r.event == 0 { // they have ended
		r.completed, r.status = true, waitFailed
	}
	return nil
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

// submits notes when r has been given to OpenCL, or is to a runner.
func (r *record) submits() {
	if r.q.timing {
		r.times.Submitted = devices.Now()
	}
}

// give gives r to OpenCL; t's sink gets its end.
func (r *record) give(t ocl.Tag) error {
	var st ocl.Status
	switch {
	case r.batch != nil:
		return r.batch.enqueue(r.host, r.handles)
	case r.hops:
		return r.giveHop()
	case len(r.kernels) > 0:
		r.q.dev.launching.Lock()
		st = r.cmd.SubmitRun(r.then, r.arguments(), r.handles, nil, t)
		r.q.dev.launching.Unlock()
	default:
		r.pinBytes()
		st = r.cmd.Submit(r.args, r.handles, r.bytes, t)
	}
	if r.event = r.cmd.Event; r.event != 0 || !r.host.quirks.startsAtOnce {
		r.q.dirty.Store(true)
	}
	if r.q.dev.sees(st) != 0 {
		return r.refusal(st)
	}
	return nil
}

// refusal is the error of a command that OpenCL did not take, or not carry out.
func (r *record) refusal(st ocl.Status) error {
	n, last := int(r.cmd.Enqueued), len(r.then)
	switch {
	case len(r.kernels) == 0:
		return statusError(st, "%v on device %s", r.op, r.q.dev.name)
	case n > last && last > 0: // OpenCL took all
		return statusError(st, "run of %d launches on device %s, the last of kernel %s", n, r.q.dev.name, r.kernelOf(n-1).name)
	}
	n = min(n, last)
	k, where := r.kernelOf(n), ""
	if last > 0 {
		where = fmt.Sprintf("run of %d launches, launch %d: ", 1+last, n)
	}
	if i := int(r.cmd.FailedArg); i >= 0 && i < len(k.args) {
		return statusError(st, "%skernel %s on device %s, argument %d (%s)", where, k.name, r.q.dev.name, i, k.args[i].Name)
	}
	return statusError(st, "%skernel %s on device %s", where, k.name, r.q.dev.name)
}

// kernelOf is the kernel of launch i of r.
func (r *record) kernelOf(i int) *Kernel {
	c := r.cmd.Kernel
	if i > 0 {
		c = r.then[i-1].Kernel
	}
	return r.kernels[slices.IndexFunc(r.kernels, func(k *Kernel) bool { return k.cl == c })]
}

// elsewhere: held to elsewhere. mu is held.
//
// A runner begins to carry out a command whose waits are reached, under mu and without blocking, and
// finishedBy is called then. OpenCL has no event of it that others could wait for. Those that are
// deferred have none: see blocking.go.
func (r *record) elsewhere() {
	if r.to(elsewhere); r.runner != nil {
		r.runner(r)
	}
}

// runCall runs host calls, each in a goroutine of its own.
func runCall(r *record) {
	r.submits()
	r.q.calls.Go(func() {
		r.begins()
		r.Carried(protect(r.call))
	})
}

// begins notes that a runner begins with r.
func (r *record) begins() {
	r.begun.Store(true)
	if r.q.timing {
		r.times.Started = devices.Now()
	}
}

// Carried implements devices.Carried: a runner has done r.
func (r *record) Carried(err error) {
	if r.q.timing {
		r.times.Ended = devices.Now()
	}
	r.host.finishedBy(r, err)
}

// runCarrier runs copies that somebody else does.
func runCarrier(r *record) {
	r.submits()
	r.begins()
	r.carrier.Carry(r)
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
