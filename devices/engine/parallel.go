package engine

import (
	"sync"
	"sync/atomic"
)

// Job is work cut into numbered parts that idle workers help with. The zero
// value is ready; it may be used again once Parallel has returned, so that
// steady state allocates nothing. Not for concurrent use.
type Job struct {
	body  func(part int)
	parts int64
	next  atomic.Int64 // the next part nobody has taken
	busy  sync.WaitGroup
	panic atomic.Pointer[any] // what the first part to panic gave
	prev  *Job                // protected by Engine.mu: the list of jobs
	after *Job                // protected by Engine.mu
	helps int                 // protected by Engine.mu: helpers that may still join
}

// Parallel runs body(0) ... body(parts-1), each once, on the calling goroutine
// and as many idle workers as the engine's bound allows, and returns when all
// have returned. Where a part panics no further ones start, and Parallel panics
// with the same value once all have stopped. To be called from Execute.
func (e *Engine) Parallel(j *Job, parts int, body func(part int)) {
	helpers := min(parts, e.opts.Workers) - 1
	if helpers < 1 {
		for i := range parts {
			body(i)
		}
		return
	}
	j.body, j.parts = body, int64(parts)
	j.next.Store(0)
	e.mu.Lock()
	j.helps = helpers
	j.prev, j.after = nil, e.jobs
	if e.jobs != nil {
		e.jobs.prev = j
	}
	e.jobs = j
	for range helpers {
		e.callWorker()
	}
	e.mu.Unlock()

	j.work()
	e.mu.Lock()
	if j.helps > 0 {
		e.unlink(j)
	}
	e.mu.Unlock()
	j.busy.Wait()
	j.body = nil
	if p := j.panic.Swap(nil); p != nil {
		panic(*p)
	}
}

// work takes parts until there are none.
func (j *Job) work() {
	defer func() {
		if v := recover(); v != nil {
			j.panic.CompareAndSwap(nil, &v)
			j.next.Store(j.parts)
		}
	}()
	for i := j.next.Add(1) - 1; i < j.parts; i = j.next.Add(1) - 1 {
		j.body(int(i))
	}
}

// help joins a job. mu is held, and given up while at work.
func (e *Engine) help(j *Job) {
	j.busy.Add(1) // the owner unlinks the job before it waits, so this is in time
	if j.helps--; j.helps == 0 {
		e.unlink(j)
	}
	e.mu.Unlock()
	j.work()
	j.busy.Done()
	e.mu.Lock()
}

// unlink takes a job off the list. mu is held.
func (e *Engine) unlink(j *Job) {
	if j.prev == nil {
		e.jobs = j.after
	} else {
		j.prev.after = j.after
	}
	if j.after != nil {
		j.after.prev = j.prev
	}
	j.prev, j.after, j.helps = nil, nil, 0
}
