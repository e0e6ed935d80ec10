//go:build cgo

package opencl

import (
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/storage"
	"godwit/mem"
)

// Transfers that their submitter waits for.
//
// Who submits a read or write with devices.Command.Awaited calls Wait at once, and is the
// only one who may have that carried out in his own thread. So, where nothing but OpenCL
// holds the command back, Submit gives it a point and defers the rest to that Wait:
//
//   - Where the memory is this process's (direct.go), Wait blocks in OpenCL until what the
//     copy follows has ended, such as a launch, and copies. So of a launch and a blocking
//     read OpenCL is given the launch only.
//   - Elsewhere Wait has OpenCL carry it out, behind the events of what the transfer follows, in
//     one call of C's: an enqueue and a wait for its event, across a bus by way of page-locked memory
//     (staging.go). Notice of its end by another thread takes a callback and a wake-up
//     more. A blocking call of OpenCL's would hold up for as long as it waits who makes or releases a
//     buffer, and behind him all who enqueue (internal/ocl/loader.c, shape): it is made only where there is no
//     such memory and nothing to be waited for.
//
// Flush does not start such a command: its submitter is on his way to Wait, and waits for
// nothing before. Nobody hangs who waits for it meanwhile: its point ends with that Wait, or
// with his own where he gets there first. One who may not block in OpenCL has it go on as any
// command does, and so does Close. The same happens where the command turns out to be held by
// something that OpenCL does not have: then another thread's wait moves it on as well.
//
// A wait in OpenCL flushes the queue of its event: so
// Wait flushes its own queue only where it does not get there. Events of other queues are
// flushed by who waits for them (record.enqueue, runtime.Context.flush).

// takenAtOnce is up to how many bytes a write is not deferred to its Wait where OpenCL takes the bytes
// when it is enqueued: that library copies so much on the caller's thread. On an H200 16 KiB took 9.4 us so, 9.9 by
// staging, and 64 KiB 17.1 and 13.9.
const takenAtOnce = 16 << 10

// mayBeDeferred reports whether r, which nothing holds, may be deferred to its waiter.
func (r *record) mayBeDeferred() bool {
	if !r.awaited || r.cmd.Op == ocl.Copy || r.runner != nil {
		return false
	}
	switch {
	case r.memory != 0 || r.cmd.Op == ocl.Read:
		return true
	case r.cmd.Op == ocl.Write:
		return !r.host.quirks.takesBytesAtEnqueue || len(r.bytes) > takenAtOnce
	}
	return false
}

// carryOutUnlocks does a command that is deferred to its waiter: one who may block within
// OpenCL does it by himself. For one who may not, it goes on as any command does, unless it can be copied
// here at once.
func (h *host) carryOutUnlocks(r *record, block bool) {
	r.deferred = false
	here := r.memory != 0
	if here && block {
		h.waitForUnlocks(r)
	}
	h.draining++
	r.to(held)
	switch {
	case here && r.mayGo():
		h.copyUnlocks(r)
	case here || !block:
		h.readyLocked(r)
	default:
		h.transferUnlocks(r)
	}
	h.drainUnlocks(mostTrash)
}

// carryOutAll has what is deferred go on without its waiters, in its order. The queue takes no more.
func (q *Queue) carryOutAll() {
	h, last := q.dev.host, q.line.Last()
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := q.line.Oldest(); !p.IsZero() && p.Seq <= last.Seq; p.Seq++ {
		h.awaitUnlocks(q, p, false)
	}
}

// waitForUnlocks blocks the thread in OpenCL until what r waits for has ended, as far as OpenCL
// has it.
func (h *host) waitForUnlocks(r *record) {
	for i := range r.waits {
		w := r.waits[i].Point
		if x := r.queueOf(w); x != nil && !w.Reached() {
			if y := x.flight.get(w.Seq); y != nil {
				h.waitNativeUnlocks(y)
			}
		}
	}
}

// mayGo reports whether all that r waits for has ended, nothing of it failed that r needs, and
// its queue was not aborted.
func (r *record) mayGo() bool {
	if r.q.abort != nil {
		return false
	}
	for i := range r.waits {
		if w := &r.waits[i]; !w.Point.Reached() || w.Kind == mem.Data && !w.Point.Succeeded() {
			return false
		}
	}
	return true
}

// transferUnlocks has OpenCL carry out r, a read or write, where nothing else holds it, and waits.
func (h *host) transferUnlocks(r *record) {
	if !h.resolveLocked(r) {
		return // who holds it lets it go on
	}
	if r.lane(0) != toOpenCL {
		h.readyLocked(r)
		return
	}
	r.to(elsewhere) // nobody can wait for it in OpenCL
	alone := r.reached && r.q.pending == 1
	h.mu.Unlock()
	r.behindEdges()
	r.submits()
	var through storage.Allocation
	if !r.pinned {
		through = r.q.dev.takeStaging(r.cmd.Op, len(r.bytes))
	}
	if through.Addr == 0 {
		r.pinBytes()
	}
	r.q.dirty.Store(false) // the call flushes what was enqueued before
	st := r.cmd.Transfer(r.handles, r.bytes, through.Addr, alone)
	r.q.dev.giveStaging(through)
	h.mu.Lock()
	if r.event = r.cmd.Event; r.event == 0 {
		r.q.dirty.Store(true) // it was refused, and has flushed nothing
	}
	if st == ocl.Complete {
		h.lookBeforeUnlocks(r, func() bool { return true })
	}
	r.to(native)
	if h.completedLocked(r, st) {
		h.settleUnlocks(r)
	}
}
