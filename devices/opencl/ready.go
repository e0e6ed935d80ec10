//go:build cgo

package opencl

import (
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// What moves records on: the ends of the points that they wait for, and the ready list.

// PointReached implements mem.Waiter, for a point that r waits for and OpenCL does not.
func (r *record) PointReached(mem.Point, error) {
	if r.Drop() {
		r.host.mu.Lock()
		defer r.host.mu.Unlock()
		r.host.readyLocked(r)
	}
}

// unblockLocked takes one blocker of r's away.
func (h *host) unblockLocked(r *record) {
	if r.Drop() {
		h.readyLocked(r)
	}
}

// readyLocked puts r on the ready list, once, and sees that somebody looks at that.
func (h *host) readyLocked(r *record) {
	if !r.listed {
		r.listed = true
		h.ready = append(h.ready, r)
	}
	if h.draining == 0 {
		h.wakeUp()
	}
}

// wakeUp has dispatch look. It takes no locks.
func (h *host) wakeUp() {
	select {
	case h.wake <- struct{}{}:
	default: // a token is there already
	}
}

// feed is the queue that a draining goroutine has given commands and not flushed.
type feed struct {
	q *Queue
	n int
}

// mostFed is how many commands a queue is given before it is flushed.
const mostFed = 32

// addUnlocks counts a command of q's. A queue may be closed before its flush.
func (f *feed) addUnlocks(h *host, q *Queue, trash int) {
	if f.q != q {
		f.flushUnlocks(h, trash)
		f.q = q
	}
	if f.n++; f.n == mostFed {
		f.flushUnlocks(h, trash)
	}
}

// flushUnlocks flushes the queue, and releases events where there are more than so many.
func (f *feed) flushUnlocks(h *host, most int) {
	q, trash := f.q, []ocl.Event(nil)
	if len(h.trash) > most {
		trash = h.trash
		h.trash, h.emptied = h.emptied[:0], nil
	}
	*f = feed{}
	h.mu.Unlock()
	if q != nil {
		q.flushOnce()
	}
	ocl.ReleaseEvents(trash)
	h.mu.Lock()
	if trash != nil {
		h.emptied = trash
	}
}

// A goroutine that has waited for a command, and may have the next, leaves up to mostTrash events for
// the dispatcher to release. Where events are slow (quirks.slowEvents) that leaves up to muchTrash
// itself: while another thread enqueues, a release took 7.3 us on an H200, and held that up; in a
// thread that does both, 0.3.
const (
	mostTrash = 64
	muchTrash = 1024
)

// drainUnlocks advances ready records until there is none, and leaves up to so many events. It is
// called with draining raised by one.
func (h *host) drainUnlocks(trash int) {
	for f := (feed{}); len(h.ready) > 0 || f.q != nil || len(h.trash) > trash; {
		if len(h.ready) == 0 {
			f.flushUnlocks(h, trash)
			continue
		}
		if q := h.advanceUnlocks(h.nextLocked()); q != nil {
			f.addUnlocks(h, q, trash)
		}
	}
	h.draining--
}

// nextLocked takes the record that has been ready for longest.
func (h *host) nextLocked() *record {
	r := h.ready[h.next]
	h.ready[h.next], r.listed = nil, false
	if h.next++; h.next == len(h.ready) || h.next >= 1024 && h.next >= len(h.ready)/2 { // amortised: half of it goes
		n := copy(h.ready, h.ready[h.next:])
		clear(h.ready[n:])
		h.ready, h.next = h.ready[:n], 0
	}
	return r
}
