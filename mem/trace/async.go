package trace

import (
	"sync"
	"sync/atomic"
)

// Async is a CommandSink that hands records on to another, in their order, on a goroutine of its own: who enqueues pays for a copy of the record, and
// the other sink may be as slow as it likes and call anything. What it has not handed on is bounded; what comes when it is full is dropped, and counted.
type Async struct {
	to      CommandSink // immutable
	dropped atomic.Uint64
	ended   chan struct{}

	mu     sync.RWMutex // held to send, and wholly to close
	closed bool         // protected by mu
	queue  chan any     // closed with mu held
}

var _ CommandSink = (*Async)(nil)

// NewAsync returns a sink that keeps so many records at most until to has taken them, one at least. It is to be closed, after the context.
func NewAsync(to CommandSink, records int) *Async {
	a := &Async{to: to, ended: make(chan struct{}), queue: make(chan any, max(1, records))}
	go a.run()
	return a
}

func (a *Async) run() {
	defer close(a.ended)
	for r := range a.queue {
		switch r := r.(type) {
		case *BufferRecord:
			a.to.Buffer(r)
		case *CommandRecord:
			a.to.Command(r)
		case *CompletionRecord:
			a.to.Completed(r)
		}
	}
}

func (a *Async) send(r any) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		a.dropped.Add(1)
		return
	}
	select {
	case a.queue <- r:
	default:
		a.dropped.Add(1)
	}
}

// Ends implements CommandSink, as the other does.
func (a *Async) Ends() Ends { return a.to.Ends() }

// Buffer implements CommandSink.
func (a *Async) Buffer(r *BufferRecord) { a.send(new(*r)) }

// Command implements CommandSink.
func (a *Async) Command(r *CommandRecord) { a.send(new(r.Clone())) }

// Completed implements CommandSink.
func (a *Async) Completed(r *CompletionRecord) { a.send(new(*r)) }

// Dropped is how many records came when there was no room, or after Close.
func (a *Async) Dropped() uint64 { return a.dropped.Load() }

// Close waits until everything has been handed on. It may be called twice.
func (a *Async) Close() {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.queue)
	}
	a.mu.Unlock()
	<-a.ended
}
