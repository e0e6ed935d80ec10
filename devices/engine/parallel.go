package engine

import (
	"slices"
	"sync"
	"sync/atomic"
)

// job is work cut into numbered parts that idle workers help with. The zero
// value is ready; it may be used again once parallel has returned, so that
// steady state allocates nothing. Not for concurrent use.
type job struct {
	body  func(part int)
	parts int64
	next  atomic.Int64 // the next part nobody has taken
	busy  sync.WaitGroup
	panic atomic.Pointer[any] // what the first part to panic gave
}

// parallel runs body(0) ... body(parts-1), each once, on the calling goroutine
// and as many idle workers as the engine's bound allows, and returns when all
// have returned. Where a part panics no further ones start, and parallel panics
// with the same value once all have stopped. To be called from Execute.
func (e *engine) parallel(j *job, parts int, body func(part int)) {
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
	for range helpers {
		e.jobs = append(e.jobs, j)
		e.callWorker()
	}
	e.mu.Unlock()

	j.work()
	e.mu.Lock()
	e.jobs = slices.DeleteFunc(e.jobs, func(x *job) bool { return x == j })
	e.mu.Unlock()
	j.busy.Wait()
	j.body = nil
	if p := j.panic.Swap(nil); p != nil {
		panic(*p)
	}
}

// work takes parts until there are none.
func (j *job) work() {
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
