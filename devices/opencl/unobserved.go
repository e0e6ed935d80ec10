//go:build cgo

package opencl

import (
	"slices"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Unobserved launches.
//
// Events are not free (quirks.slowEvents). So a launch that no event of the program's stands
// for (devices.Command.Unobserved), on an in-order queue, is enqueued without one,
// and has no record: it is a point in the queue's span of unobserved points. There is one
// span; records that OpenCL has may come before it, and any after it. While there are
// such after it, launches are observed.
//
// What ends such points:
//
//   - a wait of a thread that may block in OpenCL (devices.BlockThread): clFinish, then
//     all of the span that was there before;
//   - a later record of the queue that has ended: those before it have;
//   - a fence: a marker with an event, which is looked at as any. For whoever asks to be notified
//     of a point's end (mem.Point.Notify) the dispatcher fences the queue, since the asker
//     may hold locks; a command of another queue that waits for it, or of the same that needs its
//     waits reached, fences it by itself.
//
// The span ends only when the records before it have: so points of the queue end in
// their order. What is known of its end meanwhile is kept.
//
// A command of the same cl queue that waits for such a point needs no edge. Any other has the fence
// as its edge; where OpenCL refuses that, it waits until the point is reached.
//
// Whether an unobserved launch failed shows in what clFinish, or the fence, says: then all
// that it speaks of have failed, since nobody can tell which; and so they have where a
// record failed whose result one of them needed. On platforms where this
// is on, a kernel that fails takes the context with it, and all later ones fail too.
type span struct {
	from, to uint64      // protected by host.mu: its points; from > to where there are none
	known    uint64      // protected by host.mu: those up to it have ended in OpenCL
	status   ocl.Status  // protected by host.mu: how, where badly
	fenced   uint64      // protected by host.mu: a fence of points up to it is on its way
	fence    *record     // protected by host.mu: the last fence, until it has ended
	needs    []mem.Point // protected by host.mu: records before the span whose results it needs

	open atomic.Bool // there are points that no fence is on its way for
}

// mostNeeds is how many records the commands of a span may need.
const mostNeeds = 8

// has reports whether a point is in the span.
func (q *span) has(seq uint64) bool { return q.from <= seq && seq <= q.to && seq != 0 }

// before reports whether there are points, and a later one comes after them.
func (q *span) before(later uint64) bool { return q.has(q.from) && q.from < later }

// mayBeUnobserved reports whether r, whose waits hold it up no more, can be enqueued
// without an event. host.mu is held.
func (r *record) mayBeUnobserved() bool {
	q := r.q
	return r.op == devices.OpLaunch && q.inOrder && r.failure == nil &&
		len(r.lent) == 0 && len(r.unpin) == 0 && len(r.images) == 0 && r.runner == nil && r.followsLocked()
}

// followsLocked reports whether the cl queue alone orders r behind all that it waits
// for, and adds to the span's needs.
func (r *record) followsLocked() bool {
	q, x := r.q, &r.q.span
	if !x.has(x.to) {
		x.needs = x.needs[:0]
	}
	if !q.tail.Reached() && !x.has(q.tail.Seq) {
		if x.has(x.from) || !r.behind(q.flight.get(q.tail.Seq)) {
			return false
		}
	}
	for _, e := range r.edges {
		if !r.behind(e) {
			return false
		}
	}
	n := len(x.needs)
	for i := range r.waits {
		w := &r.waits[i]
		if w.Kind != mem.Data || w.Point.Reached() || x.has(w.Point.Seq) || slices.Contains(x.needs, w.Point) {
			continue
		}
		if len(x.needs) == mostNeeds {
			x.needs = x.needs[:n]
			return false
		}
		x.needs = append(x.needs, w.Point)
	}
	return true
}

// behind reports whether r, without an event, is ordered behind x by the cl queue.
func (r *record) behind(x *record) bool {
	return x != nil && x.state == native && !x.completed && x.line() == r.q && (len(x.edges) == 0 || r.host.quirks.failedWaitsKeepOrder)
}

// launchUnobservedUnlocks is the rest of Submit for an unobserved launch.
func (h *host) launchUnobservedUnlocks(r *record) (mem.Point, error) {
	q := r.q
	h.dropEdgesLocked(r)
	r.cmd.NoEvent = 1
	r.handles = r.handles[:0]
	r.callbackDue = true // of a run that is refused in its middle; it may come before give returns
	h.mu.Unlock()
	err := r.give(r.tag)
	if err == nil {
		r.letGo() // a kernel that has been enqueued is kept by OpenCL
	}
	h.mu.Lock()
	if r.event == 0 {
		r.callbackDue = false
	}
	if err != nil {
		if err = r.partly(err); err == nil {
			h.acceptLocked(r)
			h.nativeLocked(r)
			return r.point, nil
		}
		h.refuseLocked(r)
		return mem.Point{}, err
	}
	p := q.line.Next()
	q.tail = p
	x := &q.span
	if !x.has(x.to) {
		x.from = p.Seq
	}
	x.to = p.Seq
	if !x.open.Load() {
		x.open.Store(true)
	}
	h.refuseLocked(r) // the point is all that is left of it
	return p, nil
}

// retireSpanUnlocks ends the points of q's span up to seq, of which OpenCL says st.
func (h *host) retireSpanUnlocks(q *Queue, seq uint64, st ocl.Status) {
	x := &q.span
	if seq = min(seq, x.to); !x.has(seq) || seq <= x.known {
		return
	}
	x.known, x.status = seq, min(x.status, q.dev.sees(st))
	if x.known == x.to {
		x.open.Store(false)
	}
	h.drainSpanUnlocks(q)
}

// drainSpanUnlocks ends the points of q's span that are known to have ended, once the
// records before them have.
func (h *host) drainSpanUnlocks(q *Queue) {
	x := &q.span
	for x.has(x.from) && x.from <= x.known && (mem.Point{Line: q.line, Seq: x.from - 1}).Reached() {
		h.endSpanUnlocks(q, x.from, x.known)
	}
}

// endSpanUnlocks ends the first points of q's span.
func (h *host) endSpanUnlocks(q *Queue, from, to uint64) {
	x := &q.span
	x.from = to + 1
	var err error
	if x.status < 0 {
		err = statusError(x.status, "a launch of %d on device %s", to-from+1, q.dev.name)
	}
	for _, p := range x.needs {
		if err == nil && !p.Succeeded() {
			err = devices.Dependency(p, p.Err())
		}
	}
	x.status = 0
	h.mu.Unlock()
	for ; from <= to; from++ {
		q.line.End(mem.Point{Line: q.line, Seq: from}, err)
	}
	h.mu.Lock()
}

// endSpanBeforeUnlocks ends the unobserved points before r, which has ended.
func (h *host) endSpanBeforeUnlocks(r *record) {
	st := ocl.Complete
	if r.status < 0 { // because of them, perhaps
		h.mu.Unlock()
		st = r.q.cl.Finish()
		h.mu.Lock()
	}
	h.retireSpanUnlocks(r.q, r.point.Seq-1, st)
}

// finishSpanUnlocks waits in OpenCL for q's unobserved points.
func (h *host) finishSpanUnlocks(q *Queue) {
	to := q.span.to
	q.inside++ // keeps the cl queue
	h.mu.Unlock()
	if q.dirty.Load() {
		q.dirty.Store(false) // clFinish flushes
	}
	st := q.cl.Finish()
	h.mu.Lock()
	h.pollBeforeUnlocks(q, to)
	h.retireSpanUnlocks(q, to, st)
	q.leaveLocked()
}

// pollBeforeUnlocks ends the records before the point seq of q, all of which have ended in
// OpenCL.
func (h *host) pollBeforeUnlocks(q *Queue, seq uint64) {
	for p := q.line.Oldest(); !p.IsZero() && p.Seq < seq; p.Seq++ {
		if q.span.has(p.Seq) {
			p.Seq = q.span.to
		} else {
			h.pollUnlocks(q, p, 0)
		}
	}
}

// fenceSoon has the queue fenced. The caller may hold locks.
func (q *Queue) fenceSoon() {
	q.dev.host.unfenced.Store(true)
	q.dev.host.wakeUp()
}

// fenceAllUnlocks does for all queues what fenceSoon promises.
func (h *host) fenceAllUnlocks() {
	var open []*Queue
	for _, q := range h.lines {
		if q.span.open.Load() {
			open = append(open, q)
		}
	}
	for _, q := range open {
		h.fenceUnlocks(q)
	}
}

// fenceWaitsUnlocks fences the unobserved points that r waits for, but those that the cl queue orders before it.
func (h *host) fenceWaitsUnlocks(r *record) {
	for i := range r.waits {
		w := r.waits[i].Point
		if q := r.queueOf(w); q != nil && q.span.has(w.Seq) && (r.strict || q != r.line()) {
			h.fenceUnlocks(q)
		}
	}
}

// fenceUnlocks enqueues a marker behind the unobserved points of q that none is on its way
// for. No point is ended.
func (h *host) fenceUnlocks(q *Queue) {
	x := &q.span
	if !x.has(x.to) || x.fenced >= x.to || h.lines[q.line] != q {
		return
	}
	r := h.takeLocked(q, devices.OpMarker, 0)
	r.cmd.Queue, r.cmd.Op, r.fences = q.cl, ocl.Marker, x.to
	x.fenced = x.to
	x.open.Store(false)
	x.fence = nil // OpenCL does not have the new one yet
	q.pending++   // Close waits for it
	err := h.enqueueUnlocks(r)
	h.mu.Unlock()
	q.flushOnce()
	h.mu.Lock()
	if err != nil {
		r.completed, r.status = true, ocl.Status(mem.StatusOf(err))
	}
	x.fence = r
	h.nativeLocked(r)
}

// fencedUnlocks: the marker of a fence has ended, or was refused.
func (h *host) fencedUnlocks(r *record) {
	q := r.q
	r.users++ // keeps it from being recycled
	if q.span.fence == r {
		q.span.fence = nil
	}
	h.retireSpanUnlocks(q, r.fences, r.status)
	r.to(ended)
	h.doneWithLocked(r)
	q.pending--
	if q.closing {
		h.ended.Broadcast()
	}
}
