//go:build cgo

package opencl

import (
	"runtime"
	"time"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Waiters ask OpenCL, which is quicker than its notice.

// notAsked is the status of a command that OpenCL was not asked for.
const notAsked = -1

// poll asks OpenCL whether p's command has ended well, and if so ends it
// without waiting for the callback, which takes its time; of a command that is held
// back, it asks for what OpenCL has of what that waits for. It reports whether it
// is worth asking again soon, and what OpenCL said of the command itself, or notAsked.
// It asks again and again for as long as patience, without host.mu.
func (h *host) poll(q *Queue, p mem.Point, patience time.Duration) (again bool, st ocl.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pollUnlocks(q, p, patience)
}

// pollUnlocks is poll with host.mu held.
func (h *host) pollUnlocks(q *Queue, p mem.Point, patience time.Duration) (again bool, st ocl.Status) {
	r := q.flight.get(p.Seq)
	if r == nil || r.state != native && r.state != held || r.completed {
		return false, notAsked
	}
	r.users++ // keeps it, event and waits, from being recycled while h.mu is free
	defer h.doneWithLocked(r)
	if r.state == held || r.hops {
		return h.pollBlockersUnlocks(r, patience), notAsked
	}
	st = h.lookUnlocks(r, patience)
	return st > 0 && r.state == native && !r.completed, st
}

// pollBlockersUnlocks looks for ends that let r go on: those of hops, and of what it waits for where OpenCL
// has that; no deeper: there may be many. It reports whether it is worth looking again soon.
func (h *host) pollBlockersUnlocks(r *record, patience time.Duration) (again bool) {
	if h.hopping > 0 {
		again, patience = true, 0
		h.drainSinkUnlocks()
	}
	open := 0
	for i := 0; i < len(r.waits) && r.state == held; i++ {
		w := r.waits[i].Point
		if w.Reached() {
			continue
		}
		open++
		x := r.queueOf(w)
		if x == nil {
			continue
		}
		if y := x.flight.get(w.Seq); y != nil && y.state == native {
			more, _ := h.pollUnlocks(x, w, patience)
			if again = again || more; more {
				patience = 0
			}
		}
	}
	goesOn := open == 0 && r.batch == nil // somebody has seen the last end
	return r.state != ended && (again || goesOn || r.state == native)
}

// lookUnlocks asks OpenCL how r is, for as long as patience while it has not ended, and ends it
// where it has ended well. r has users raised.
func (h *host) lookUnlocks(r *record, patience time.Duration) ocl.Status {
	e := r.event
	h.mu.Unlock()
	st := e.Status()
	if st > 0 && patience > 0 {
		for start := time.Now(); st > 0 && time.Since(start) < patience; st = e.Status() {
			runtime.Gosched()
		}
	}
	h.mu.Lock()
	if st == ocl.Complete {
		h.endedWellUnlocks(r)
	}
	return st
}

// endedWellUnlocks ends r, of which OpenCL says that it has ended well, where that has
// not been seen. r has users raised.
func (h *host) endedWellUnlocks(r *record) {
	open := func() bool { return r.state == native && !r.completed }
	if !open() {
		return
	}
	h.lookBeforeUnlocks(r, open)
	if open() && h.completedLocked(r, ocl.Complete) {
		h.draining++
		h.settleUnlocks(r)
		h.drainUnlocks(mostTrash)
	}
}

// lookBeforeUnlocks asks OpenCL about what has ended since r has, which came after it, while more
// says so.
func (h *host) lookBeforeUnlocks(r *record, more func() bool) {
	if q := r.line(); q != nil && q.span.before(r.point.Seq) {
		h.pollBeforeUnlocks(q, r.point.Seq)
	}
	for i := 0; i < len(r.waits) && more(); i++ {
		w := r.waits[i].Point
		if x := r.queueOf(w); !w.Reached() && x != nil {
			h.pollUnlocks(x, w, 0)
		}
	}
}

// mostInUse is how many records may be in use before who waits looks for some to be freed.
const mostInUse = 2 * moreRecords

// waitNativeUnlocks blocks the thread in OpenCL until r has ended, where OpenCL
// has it. What follows from the end is still to be done: see poll.
func (h *host) waitNativeUnlocks(r *record) {
	if r.state != native || r.completed || r.hops {
		return
	}
	r.users++ // keeps the event
	e := r.event
	if h.inUseLocked() > mostInUse { // while the command runs
		h.drainSinkUnlocks()
	}
	if r.batch == nil {
		r.q.dirty.Store(false) // the wait flushes the queue of its event
	}
	h.mu.Unlock()
	st := e.Wait()
	h.mu.Lock()
	if st == ocl.Complete {
		h.endedWellUnlocks(r)
	}
	if !r.point.Reached() { // it failed, or what ended before it is not known yet
		h.drainSinkUnlocks()
		if st == ocl.Complete {
			h.endedWellUnlocks(r)
		}
	}
	h.doneWithLocked(r) // only now: it keeps the host, and the sink with it, from being closed
}

// takenUnlocks goes on with what the sink had, and leaves up to so many events.
func (h *host) takenUnlocks(done []ocl.Done, trash int) {
	h.draining++
	for _, d := range done {
		h.completedByCallbackLocked(h.records[d.ID], d.Status)
	}
	h.drainUnlocks(trash)
}
