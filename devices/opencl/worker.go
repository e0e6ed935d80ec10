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
// reached, so that no command has a wait list; a goroutine for each has the thread enqueue it and
// wait for it, and ends it.
// Meanwhile nobody else of this process is in OpenCL (gw_serial): an allocation, or a
// build, waits until the command that runs has ended; Submit calls nothing and does not.
// The thread knows nothing of records: who ends one may need what somebody holds who
// waits for the thread.
type worker struct {
	calls chan func()    // for the thread
	ended sync.WaitGroup // the thread
}

func newWorker() *worker {
	w := &worker{calls: make(chan func())}
	ocl.Serialize(true)
	w.ended.Go(w.thread)
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

// close ends the thread. No command is left, and do is not called any more.
func (w *worker) close() {
	close(w.calls)
	w.ended.Wait()
	ocl.Serialize(false)
}

// runInWorker is the runner of commands of a platform without threads.
func runInWorker(r *record) {
	r.q.calls.Go(func() { r.host.finishedBy(r, r.carryOut()) })
}

// carryOut is r from its being enqueued to its end.
func (r *record) carryOut() error {
	r.begun.Store(true)
	if len(r.kernels) > 0 {
		r.q.dev.launching.Lock()
		defer r.q.dev.launching.Unlock()
	}
	r.pinBytes()
	var st ocl.Status
	r.host.do(func() {
		if st = r.host.shadow.submit(&r.cmd, r.args, r.bytes); st == 0 {
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
