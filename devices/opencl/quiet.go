//go:build cgo

package opencl

import (
	"slices"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Quiet launches.
//
// Events are not free (quirks.slowEvents). So a launch of which nobody asks
// when it ends (devices.Command.Quiet), on an in-order queue, is enqueued without one,
// and has no record: it is a point in the queue's span of quiet points. There is one
// span; records that OpenCL has may come before it, and any after it. While there are
// such after it no launch is quiet.
//
// What ends quiet points:
//
//   - a wait of a thread that may block in OpenCL (devices.BlockThread): clFinish, then
//     all of the span that was there before;
//   - a later record of the queue that has ended: those before it have;
//   - a cover: a marker with an event, which is looked at as any. Who asks to be told
//     of a point's end (mem.Point.Notify) has the queue covered, by dispatch, since he
//     may hold locks; a command of another queue that waits for it, or of the same that needs its
//     waits reached, covers it by itself.
//
// The span ends only when the records before it have: so points of the queue end in
// their order. What is known of its end meanwhile is kept.
//
// A command of the same cl queue that waits for a quiet point needs no edge. Any other has the queue covered
// and the cover as its edge; where OpenCL refuses that, it waits until the point is reached.
//
// Whether a quiet command failed shows in what clFinish, or the cover, says: then all
// that it speaks of have failed, since nobody can tell which; and so they have where a
// record failed whose result one of them needed. On platforms where this
// is on, a kernel that fails takes the context with it, and all later ones fail too.
type quiet struct {
	from, to uint64      // protected by host.mu: the points of the span; from > to where there are none
	known    uint64      // protected by host.mu: those up to it have ended in OpenCL
	status   ocl.Status  // protected by host.mu: how, where badly
	covered  uint64      // protected by host.mu: a cover of points up to it is on its way
	cover    *record     // protected by host.mu: the last cover, until it has ended
	needs    []mem.Point // protected by host.mu: records before the span whose results it needs
	uses     []use       // protected by host.mu: one for each kernel in the span

	open atomic.Bool // there are points that no cover is on its way for
}

// use is a use of a kernel up to a point of the span.
type use struct {
	kernel *kernel
	last   uint64
}

// mostUses is how many kernels may be in a span, so that finding one is quick;
// mostNeeds is how many records its commands may need.
const (
	mostUses  = 32
	mostNeeds = 8
)

// has reports whether a point is in the span.
func (q *quiet) has(seq uint64) bool { return q.from <= seq && seq <= q.to && seq != 0 }

// keep notes that point seq uses k, and reports whether the span had no use of it.
func (q *quiet) keep(k *kernel, seq uint64) bool {
	if i := q.use(k); i >= 0 {
		q.uses[i].last = seq
		return false
	}
	q.uses = append(q.uses, use{k, seq})
	return true
}

// mayBeQuiet reports whether r, whose waits hold it up no more, can be enqueued
// without an event. host.mu is held.
func (r *record) mayBeQuiet(cmd *devices.Command) bool {
	q := r.q
	return cmd.Unobserved && r.host.quirks.slowEvents && r.op == devices.OpLaunch && q.inOrder && r.failure == nil &&
		len(r.lent) == 0 && len(r.unpin) == 0 && r.runner == nil && q.quiet.room(r.kernel) && r.followsLocked()
}

// followsLocked reports whether the cl queue alone orders r behind all that it waits
// for, and adds to the span's needs.
func (r *record) followsLocked() bool {
	q, x := r.q, &r.q.quiet
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
	return x != nil && x.state == native && !x.told && x.line() == r.q && (len(x.edges) == 0 || r.host.quirks.failedWaitsKeepOrder)
}

// room reports whether the span has a use of k, or room for one.
func (q *quiet) room(k *kernel) bool { return len(q.uses) < mostUses || q.use(k) >= 0 }

// use is the index of k's use; -1 where the span has none.
func (q *quiet) use(k *kernel) int {
	return slices.IndexFunc(q.uses, func(u use) bool { return u.kernel == k })
}

// submitQuietLocked is the rest of Submit for a quiet launch.
func (h *host) submitQuietLocked(r *record) (mem.Point, error) {
	q := r.q
	h.dropEdgesLocked(r)
	r.cmd.Quiet = 1
	r.handles = r.handles[:0]
	h.mu.Unlock()
	_, err := r.give(ocl.Tag{})
	h.mu.Lock()
	if err != nil {
		h.refuseLocked(r)
		return mem.Point{}, err
	}
	p := q.line.Next()
	q.tail = p
	x := &q.quiet
	if !x.has(x.to) {
		x.from = p.Seq
	}
	x.to = p.Seq
	if x.keep(r.kernel, p.Seq) {
		r.kernel = nil // its use is the span's
	}
	x.open.Store(true)
	h.refuseLocked(r) // the point is all that is left of it
	return p, nil
}

// retireQuietLocked ends the points of q's span up to seq, of which OpenCL says st.
// mu is released while waiters are told.
func (h *host) retireQuietLocked(q *Queue, seq uint64, st ocl.Status) {
	x := &q.quiet
	if seq = min(seq, x.to); !x.has(seq) || seq <= x.known {
		return
	}
	x.known, x.status = seq, min(x.status, q.dev.sees(st))
	if x.known == x.to {
		x.open.Store(false)
	}
	h.drainQuietLocked(q)
}

// drainQuietLocked ends the points of q's span that are known to have ended, once the
// records before them have. mu is released while waiters are told.
func (h *host) drainQuietLocked(q *Queue) {
	x := &q.quiet
	for x.has(x.from) && x.from <= x.known && (mem.Point{Line: q.line, Seq: x.from - 1}).Reached() {
		h.endQuietLocked(q, x.from, x.known)
	}
}

// endQuietLocked ends the first points of q's span. mu is released meanwhile.
func (h *host) endQuietLocked(q *Queue, from, to uint64) {
	x := &q.quiet
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
	kept := x.uses[:0]
	var done [mostUses]*kernel
	n := 0
	for _, u := range x.uses {
		if u.last > to {
			kept = append(kept, u)
			continue
		}
		done[n] = u.kernel
		n++
	}
	clear(x.uses[len(kept):])
	x.uses = kept
	h.mu.Unlock()
	for _, k := range done[:n] {
		k.release()
	}
	for ; from <= to; from++ {
		q.line.End(mem.Point{Line: q.line, Seq: from}, err)
	}
	h.mu.Lock()
}

// quietBeforeLocked ends the quiet points before r, which has ended.
func (h *host) quietBeforeLocked(r *record) {
	st := ocl.Complete
	if r.status < 0 { // because of them, perhaps
		h.mu.Unlock()
		st = r.q.cl.Finish()
		h.mu.Lock()
	}
	h.retireQuietLocked(r.q, r.point.Seq-1, st)
}

// finishQuiet waits in OpenCL for the quiet point p, and reports whether it was one.
func (q *Queue) finishQuiet(p mem.Point) bool {
	h := q.dev.host
	h.mu.Lock()
	if !q.quiet.has(p.Seq) {
		h.mu.Unlock()
		return false
	}
	to := q.quiet.to
	h.mu.Unlock()
	q.use.RLock()
	if q.gone {
		q.use.RUnlock()
		return false
	}
	q.dirty.Store(false) // clFinish flushes
	st := q.cl.Finish()
	q.use.RUnlock()
	h.pollBefore(q, to)
	h.mu.Lock()
	h.retireQuietLocked(q, to, st)
	h.mu.Unlock()
	return true
}

// pollBefore ends the records before the point seq of q, all of which have ended in
// OpenCL.
func (h *host) pollBefore(q *Queue, seq uint64) {
	for p := q.line.Oldest(); !p.IsZero() && p.Seq < seq; p.Seq++ {
		h.mu.Lock()
		if q.quiet.has(p.Seq) {
			p.Seq = q.quiet.to
		}
		h.mu.Unlock()
		h.poll(q, p)
	}
}

// coverSoon has the queue covered, where there is anything to cover. The caller may hold locks.
func (q *Queue) coverSoon() {
	if !q.quiet.open.Load() {
		return
	}
	h := q.dev.host
	h.uncovered.Store(true)
	h.wakeUp()
}

// coverAllLocked does for all queues what coverSoon promises. mu is released in between.
func (h *host) coverAllLocked() {
	var open []*Queue
	for _, q := range h.lines {
		if q.quiet.open.Load() {
			open = append(open, q)
		}
	}
	for _, q := range open {
		h.coverLocked(q)
	}
}

// coverWaitsLocked covers the quiet points that r waits for, but those that the cl queue orders before it. mu is
// released in between.
func (h *host) coverWaitsLocked(r *record) {
	if !h.quirks.slowEvents {
		return
	}
	for i := range r.waits {
		w := r.waits[i].Point
		if q := h.lines[w.Line]; q != nil && q.quiet.has(w.Seq) && (r.strict || q != r.line()) {
			h.coverLocked(q)
		}
	}
}

// coverLocked enqueues a marker behind the quiet points of q that none is on its way
// for. mu is released in between, and no point is ended.
func (h *host) coverLocked(q *Queue) {
	x := &q.quiet
	if !x.has(x.to) || x.covered >= x.to || h.lines[q.line] != q {
		return
	}
	r := h.takeLocked(q, devices.OpMarker)
	r.cmd.Queue, r.cmd.Op, r.covers = q.cl, ocl.Marker, x.to
	x.covered = x.to
	x.open.Store(false)
	x.cover = nil // OpenCL does not have the new one yet
	q.pending++   // Close waits for it
	h.mu.Unlock()
	st, err := r.enqueue()
	q.flushOnce()
	h.mu.Lock()
	if err != nil {
		r.told, r.status = true, st
	}
	x.cover = r
	h.nativeLocked(r)
	if r.told {
		h.readyLocked(r)
	}
}

// coveredLocked: the marker of a cover has ended, or was refused.
func (h *host) coveredLocked(r *record) {
	q := r.q
	r.users++ // keeps it from being recycled
	if q.quiet.cover == r {
		q.quiet.cover = nil
	}
	h.retireQuietLocked(q, r.covers, r.status)
	r.state = ended
	h.leaveLocked(r)
	q.pending--
	if q.closing {
		h.ended.Broadcast()
	}
}
