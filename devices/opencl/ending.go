//go:build cgo

package opencl

import (
	"context"
	"fmt"

	"godwit/devices"
	"godwit/devices/soft"
	"godwit/mem"
)

// How records end: by OpenCL's word, by a poll, or as host calls.

// callbackLocked: OpenCL has ended r with a status.
func (h *host) callbackLocked(r *record, status int32) {
	r.called = true
	if r.state == ended { // a poll saw it first
		h.recycleLocked(r)
		return
	}
	if r.early {
		return
	}
	r.early, r.status = true, r.q.dev.sees(status)
	if r.state == native {
		h.settleLocked(r)
	}
}

// settleLocked ends r once its waits have been seen to end: callbacks come in
// any order, and a failure has to be known before what depends on it ends.
func (h *host) settleLocked(r *record) {
	if r.covers != 0 {
		h.coveredLocked(r)
		return
	}
	if q := r.line(); q != nil && q.quiet.has(q.quiet.from) && q.quiet.from < r.point.Seq {
		h.quietBeforeLocked(r)
	}
	r.state, r.blockers = resolving, 1
	for i := range r.waits {
		w := &r.waits[i]
		if !w.Point.Reached() {
			if h.gateLocked(w.Point, r) {
				r.blockers++
				continue
			}
		}
		r.note(w)
	}
	r.blockers--
	r.state = settling
	if r.blockers > 0 {
		return
	}
	h.dropEdgesLocked(r)
	switch {
	case r.failure != nil:
		h.finishLocked(r, r.failure)
	case r.called && endedByWaits(r.status):
		// No Data wait failed: OpenCL let the failure of an Order wait through, or
		// of one that was run again for such a reason. The command did not run: it
		// does now, behind nothing.
		r.spent = append(r.spent, r.event) // somebody may be looking at it
		r.event, r.early, r.called, r.status = 0, false, false, 0
		r.state = held
		h.readyLocked(r)
	case r.status < 0:
		h.finishLocked(r, r.refusal(r.status))
	default:
		h.finishLocked(r, nil)
	}
}

// endedByWaits reports whether a command has this status because something it
// waited for failed: OpenCL's own, or the one that PoCL 3.1 gives instead.
func endedByWaits(status int32) bool {
	return status == int32(mem.ExecStatusErrorInWaitList) || status == int32(mem.DeviceNotFound)
}

// finishLocked ends r's point. mu is released while waiters are told.
func (h *host) finishLocked(r *record, err error) {
	q := r.q
	r.state = ended
	if r.late != nil && err == nil {
		r.late.Moved()
	}
	q.flight.drop(r.point.Seq)
	for _, x := range r.after {
		h.unblockLocked(x)
	}
	clear(r.after)
	r.after = r.after[:0]
	if q.timing && err == nil && r.event != 0 {
		q.keepTimesLocked(r)
	}
	r.users++ // keeps it from being recycled
	h.mu.Unlock()
	r.letGo()
	q.line.End(r.point, err)
	h.mu.Lock()
	r.users--
	q.pending--
	h.recycleLocked(r)
	h.drainQuietLocked(q)
	if q.closing {
		h.ended.Broadcast()
	}
}

// letGo gives back what the command held.
func (r *record) letGo() {
	if r.bytes != nil {
		r.pin.Unpin()
		r.bytes = nil
	}
	for _, u := range r.unpin {
		u.pinner.Unpin(u.block)
	}
	for _, l := range r.lent {
		l.space.Return(l.addr, l.size)
	}
	clear(r.unpin)
	clear(r.lent)
	r.unpin, r.lent = r.unpin[:0], r.lent[:0]
	if r.side != nil {
		r.pair.giveSide(r.side)
		r.side = nil
	}
	if r.kernel != nil {
		r.kernel.release()
		r.kernel = nil
	}
	r.call = nil
}

// runCall is the life of a host call's goroutine.
func (h *host) runCall(r *record) {
	q := r.q
	if q.timing {
		r.times.Started = hostNow()
	}
	err := protect(r.call)
	var t devices.Times
	timed := q.timing && err == nil
	if timed {
		r.times.Ended = hostNow()
		t, timed = q.dev.onDevice(r.times)
	}
	h.mu.Lock()
	h.draining++
	if timed {
		q.keepLocked(r.point.Seq, t)
	}
	h.finishLocked(r, err)
	h.drainLocked()
	h.mu.Unlock()
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

// poll asks OpenCL whether p's command has ended well, and if so ends it
// without waiting for the callback, which takes its time; of a command that is held
// back, it asks for what OpenCL has of what that waits for. It reports whether it
// is worth asking again soon.
func (h *host) poll(q *Queue, p mem.Point) (again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := q.flight.get(p.Seq)
	if r == nil || r.state != native && r.state != held || r.early {
		return false
	}
	r.users++ // keeps it, event and waits, from being recycled while h.mu is free
	defer func() {
		r.users--
		h.recycleLocked(r)
	}()
	if r.state == held { // by what OpenCL has, perhaps; no deeper: there may be many
		for i := 0; i < len(r.waits) && r.state == held; i++ {
			w := r.waits[i].Point
			x := h.lines[w.Line]
			if x == nil {
				continue
			}
			if y := x.flight.get(w.Seq); y != nil && y.state == native {
				h.mu.Unlock()
				again = h.poll(x, w) || again
				h.mu.Lock()
			}
		}
		return again
	}
	e := r.event
	h.mu.Unlock()
	st := eventStatus(e)
	h.mu.Lock()
	if st == 0 {
		h.endedWellLocked(r)
	}
	return st > 0 && r.state == native && !r.early
}

// endedWellLocked ends r, of which OpenCL says that it has ended well, where that has
// not been seen. r has users raised; mu is released in between.
func (h *host) endedWellLocked(r *record) {
	if r.state != native || r.early {
		return
	}
	if q := r.line(); q != nil && q.quiet.has(q.quiet.from) && q.quiet.from < r.point.Seq {
		h.mu.Unlock()
		h.pollBefore(q, r.point.Seq)
		h.mu.Lock()
	}
	for i := 0; i < len(r.waits) && r.state == native && !r.early; i++ { // what it waited for has ended too
		w := r.waits[i].Point
		if x := h.lines[w.Line]; !w.Reached() && x != nil {
			h.mu.Unlock()
			h.poll(x, w)
			h.mu.Lock()
		}
	}
	if r.state != native || r.early {
		return
	}
	r.early = true
	h.draining++
	h.settleLocked(r)
	h.drainLocked()
}

// lateHostCopy is hostCopy of the part that late asks for.
func lateHostCopy(dst, src []byte, late devices.Late) func(context.Context) error {
	return func(context.Context) error {
		if part := devices.PartOf(late, uint64(len(dst))); !part.Empty() {
			copy(dst[part.Start:part.End], src[part.Start:part.End])
		}
		return nil
	}
}

// waitNative blocks the thread in OpenCL until p's command has ended, where OpenCL
// has it. What follows from the end is still to be done: see poll.
func (h *host) waitNative(q *Queue, p mem.Point) {
	h.mu.Lock()
	r := q.flight.get(p.Seq)
	if r == nil || r.state != native || r.early {
		h.mu.Unlock()
		return
	}
	r.users++ // keeps the event
	e := r.event
	h.mu.Unlock()
	st := eventWait(e)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining++ // what ended before it, too
	var out [64]done
	for n := len(out); n == len(out); {
		n = h.sink.some(out[:])
		for _, d := range out[:n] {
			h.callbackLocked(h.records[d.id], int32(d.status))
		}
	}
	h.drainLocked()
	if st == 0 {
		h.endedWellLocked(r)
	}
	r.users-- // only now: it keeps the host, and the sink with it, from being closed
	h.recycleLocked(r)
}

// hostCopy is a copy between bytes of this process, as a host call.
func hostCopy(dst, src []byte, rect devices.Rect, isRect bool) func(context.Context) error {
	return func(context.Context) error {
		if isRect {
			soft.CopyRect(dst, src, &rect)
		} else {
			copy(dst, src)
		}
		return nil
	}
}
