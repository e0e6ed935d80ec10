//go:build cgo

package opencl

import (
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// What moves records on: gates, which hold those that wait for a point that is not
// in OpenCL, and the ready list.

// gate is a point that records wait for: however many they are, the point has one
// waiter, and the lock is taken once for all of them.
type gate struct {
	host *host     // immutable
	held []*record // protected by host.mu
}

// holdLocked holds r until p has ended. It reports false where that it has.
func (h *host) holdLocked(p mem.Point, r *record) bool {
	g := h.gates[p]
	if g == nil {
		if n := len(h.spare); n > 0 {
			g, h.spare = h.spare[n-1], h.spare[:n-1]
		} else {
			g = &gate{host: h}
		}
		if done, _ := p.Notify(g); done {
			h.spare = append(h.spare, g)
			return false
		}
		h.gates[p] = g
	}
	g.held = append(g.held, r)
	return true
}

// gateBatch is how many records are let through a gate at once.
const gateBatch = 256

// PointReached implements mem.Waiter: what the gate holds has one blocker less.
func (g *gate) PointReached(p mem.Point, _ error) {
	h := g.host
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.gates, p)
	h.draining++
	for i, r := range g.held {
		h.unblockLocked(r)
		if i%gateBatch == gateBatch-1 {
			h.mu.Unlock()
			h.mu.Lock()
		}
	}
	clear(g.held)
	g.held = g.held[:0]
	h.spare = append(h.spare, g)
	h.draining--
	h.wakeLocked()
}

func (h *host) unblockLocked(r *record) {
	r.blockers--
	if r.blockers == 0 {
		h.readyLocked(r)
	}
}

// readyLocked puts r on the ready list, once.
func (h *host) readyLocked(r *record) {
	if !r.listed {
		r.listed = true
		h.ready = append(h.ready, r)
	}
	h.wakeLocked()
}

// wakeLocked sees that somebody looks at the ready list.
func (h *host) wakeLocked() {
	if len(h.ready) > 0 && h.draining == 0 {
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
