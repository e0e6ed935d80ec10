package devices

import (
	"context"
	"fmt"
	"sync"
	"time"

	"godwit/mem"
)

// Executor is who runs what a context does beside its callers, puts to sleep those who
// wait, and tells the time: Go's scheduler and this computer's clock (Goroutines), or a
// world in virtual time (package devices/virtual), in which nothing runs at the same time as
// anything else. Runtime, mover and simulated queues start no goroutine and ask no clock
// but by it.
type Executor interface {
	// Now is the time in nanoseconds, never 0.
	Now() uint64
	// Go has f run soon, beside the caller and never from within. f is ours: it blocks
	// nowhere for long, and takes no virtual time.
	Go(f func())
	// Call is Go for code of the program's, which may call anything and wait: it is a
	// host thread of its own.
	Call(f func())
	// Enter is called first in each of the program's calls that may change something or
	// look at what changes. In virtual time the call costs its host thread what the
	// machine says, and what ends by then ends before Enter returns. No locks are held.
	Enter(c Call)
	// Sleep has the caller wait until done is closed, or ctx ends, whose error it then
	// returns. what says what it waits for. In virtual time it fails with ErrStuck if
	// nothing that is under way can end the wait. No locks are held.
	Sleep(ctx context.Context, what fmt.Stringer, done <-chan struct{}) error
	// Pause has the caller wait for so long, or until ctx ends.
	Pause(ctx context.Context, d time.Duration) error
	// Cond is a condition variable with the lock l.
	Cond(l sync.Locker) Cond
	// Sleeper is how points of the context's timelines are waited for: nil leaves that
	// to Go's scheduler.
	Sleeper() mem.Sleeper
}

// Cond is a condition variable, as sync.Cond is, but that Wait fails with ErrStuck where
// Sleep would.
type Cond interface {
	Wait() error
	Signal()
	Broadcast()
}

// Call is a kind of call of the program's, as far as calls cost different time.
type Call uint8

// Enqueue is a command's. Poll looks at a state, and may be repeated until that changes.
// Other is any other that makes, changes or ends something.
const (
	Enqueue Call = iota
	Poll
	Other
)

// ErrStuck says that nothing that is under way can end a wait in virtual time.
var ErrStuck = mem.Sentinel("nothing that is under way can end this wait", mem.InvalidOperation)

// Goroutines is the Executor of everything that is not in virtual time.
type Goroutines struct{}

var _ Executor = Goroutines{}

// Now implements Executor, with the host's clock.
func (Goroutines) Now() uint64 { return Now() }

// Go implements Executor.
func (Goroutines) Go(f func()) { go f() }

// Call implements Executor.
func (Goroutines) Call(f func()) { go f() }

// Enter implements Executor.
func (Goroutines) Enter(Call) {}

// Sleep implements Executor.
func (Goroutines) Sleep(ctx context.Context, _ fmt.Stringer, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done: // both
		return nil
	default:
		return ctx.Err()
	}
}

// Pause implements Executor.
func (Goroutines) Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cond implements Executor.
func (Goroutines) Cond(l sync.Locker) Cond { return cond{sync.NewCond(l)} }

type cond struct{ *sync.Cond }

func (c cond) Wait() error {
	c.Cond.Wait()
	return nil
}

// Sleeper implements Executor.
func (Goroutines) Sleeper() mem.Sleeper { return nil }

// ExecutorOr is e, or Goroutines where it is nil.
func ExecutorOr(e Executor) Executor {
	if e == nil {
		return Goroutines{}
	}
	return e
}

// epoch is the zero of Now.
var epoch = time.Now()

// Now is the host's clock in nanoseconds, never 0: that of all devices that have none
// of their own, so that their times compare.
func Now() uint64 { return uint64(time.Since(epoch)) + 1 }
