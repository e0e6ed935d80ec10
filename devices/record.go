package devices

import (
	"slices"
	"sync/atomic"

	"godwit/mem"
)

// record is an accepted command on its way. See engine.go for its life.
type record struct {
	q     *SoftQueue
	cmd   Command   // its slices are the record's own
	point mem.Point // of q's timeline
	times Times

	holds atomic.Int32                    // what must happen before it is ready
	cause atomic.Pointer[DependencyError] // the first Data wait seen to fail

	args  []Arg  // storage of cmd.Args
	bytes []byte // storage of values and patterns

	next  *record // protected by q.mu: the successor in an in-order queue; the free list
	ready *record // protected by the engine's mu: the ready list
}

// dataWaiter and orderWaiter are records as seen by the points they wait for.
type (
	dataWaiter  record
	orderWaiter record
)

// PointReached implements mem.Waiter.
func (w *dataWaiter) PointReached(p mem.Point, err error) {
	r := (*record)(w)
	if err != nil {
		r.fail(p, err)
	}
	r.release()
}

// PointReached implements mem.Waiter.
func (w *orderWaiter) PointReached(mem.Point, error) { (*record)(w).release() }

func (r *record) fail(p mem.Point, err error) { r.cause.CompareAndSwap(nil, Dependency(p, err)) }

// release drops one hold; the last one makes the record ready.
func (r *record) release() {
	if r.holds.Add(-1) == 0 {
		r.q.engine.push(r)
	}
}

// watch registers for the waits that are not yet reached.
func (r *record) watch(waits []mem.Wait) {
	for _, w := range waits {
		if w.Kind == mem.Order {
			if w.Point.Reached() {
				continue
			}
			r.holds.Add(1)
			if done, _ := w.Point.Notify((*orderWaiter)(r)); done {
				r.holds.Add(-1)
			}
			continue
		}
		if w.Point.Succeeded() {
			continue
		}
		r.holds.Add(1)
		done, err := w.Point.Notify((*dataWaiter)(r))
		if done {
			r.holds.Add(-1)
		}
		if err != nil {
			r.fail(w.Point, err)
		}
	}
}

// fill copies cmd into the record, so that nothing of it is the caller's but
// the bytes to be copied.
func (r *record) fill(cmd *Command) {
	r.cmd = *cmd
	need := len(cmd.Pattern)
	for i := range cmd.Args {
		need += len(cmd.Args[i].Value) + 7
	}
	r.bytes = slices.Grow(r.bytes[:0], need)
	r.cmd.Pattern = r.keep(cmd.Pattern)
	r.args = append(r.args[:0], cmd.Args...)
	for i := range r.args {
		r.args[i].Value = r.keep(r.args[i].Value)
	}
	r.cmd.Args = r.args
}

// keep copies b to an 8-byte boundary of the record's storage, which has room.
func (r *record) keep(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	start := (len(r.bytes) + 7) &^ 7
	r.bytes = append(r.bytes[:start], b...)
	return r.bytes[start:len(r.bytes):len(r.bytes)]
}

// clear drops what the record refers to and keeps its storage.
func (r *record) clear() {
	clear(r.args)
	r.cmd = Command{}
	r.cause.Store(nil)
}

// run executes the command, unless something it depends on failed, and ends
// its point. Called by a worker.
func (r *record) run() {
	var err error
	if r.q.opts.Profiling {
		r.times.Started = r.q.engine.now()
	}
	if d := r.cause.Load(); d != nil {
		err = d
	} else {
		err = r.q.engine.protect(&r.cmd)
	}
	r.q.finish(r, err)
}
