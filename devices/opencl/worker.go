//go:build cgo

package opencl

import (
	"runtime"
	"sync"

	"godwit/devices/opencl/internal/ocl"
)

// Platforms without threads of their own.
//
// Such a platform (quirks.oneThread) is lent a thread, in which the context is made, memory is
// allocated, programs are built and commands run (do). A worker is given commands whose waits are
// reached, so that no command has a wait list; it enqueues one, waits
// for it and ends it, one after the other and in the order in which they could begin.
// Meanwhile nobody else of this process is in OpenCL (gw_serial): an allocation, or a
// build, waits until the command that runs has ended; Submit calls nothing and does not.
// The thread knows nothing of records: who ends one may need what somebody holds who
// waits for the thread.
//
// Lock order: host.mu, mu. Neither is held while OpenCL is called.
type worker struct {
	host  *host          // immutable
	calls chan func()    // for the thread
	ended sync.WaitGroup // its goroutines

	mu     sync.Mutex
	work   sync.Cond // there is a job, or closed; its L is mu
	jobs   []*record // protected by mu: in order
	closed bool      // protected by mu
}

func newWorker(h *host) *worker {
	w := &worker{host: h, calls: make(chan func())}
	w.work.L = &w.mu
	ocl.Serialize(true)
	w.ended.Go(w.thread)
	w.ended.Go(w.life)
	return w
}

// thread is where OpenCL allocates and runs.
func (w *worker) thread() {
	runtime.LockOSThread() // and never unlocked: the thread ends with this
	for f := range w.calls {
		f()
	}
}

// do calls f where OpenCL may allocate and run commands: in the worker's thread,
// where there is one. f calls OpenCL and takes no locks.
func (h *host) do(f func()) {
	if h.worker == nil {
		f()
		return
	}
	done := make(chan struct{})
	h.worker.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

// close ends the goroutines. No command is left, and do is not called any more.
func (w *worker) close() {
	w.mu.Lock()
	w.closed = true
	w.work.Signal()
	w.mu.Unlock()
	close(w.calls)
	w.ended.Wait()
	ocl.Serialize(false)
}

func (w *worker) run(r *record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, r)
	w.work.Signal()
}

// next waits for a job; nil once the worker is closed.
func (w *worker) next() *record {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.jobs) == 0 && !w.closed {
		w.work.Wait()
	}
	if len(w.jobs) == 0 {
		return nil
	}
	r := w.jobs[0]
	w.jobs = append(w.jobs[:0], w.jobs[1:]...)
	return r
}

func (w *worker) life() {
	for r := w.next(); r != nil; r = w.next() {
		w.host.finishedBy(r, w.carryOut(r))
	}
}

// carryOut is r from its being enqueued to its end.
func (w *worker) carryOut(r *record) error {
	r.begun.Store(true)
	if r.kernel != nil {
		r.kernel.mu.Lock()
		defer r.kernel.mu.Unlock()
	}
	r.pinBytes()
	var st ocl.Status
	r.host.do(func() {
		if st = w.host.edge.submit(&r.cmd, r.args, r.bytes); st == 0 {
			r.submits()
			r.event = r.cmd.Event
			st = r.event.End()
		}
	})
	if r.q.dev.sees(st) != 0 {
		return r.refusal(st)
	}
	return nil
}
