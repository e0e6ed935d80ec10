package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"godwit/devices/opencl"
	"godwit/mem"
	"godwit/runtime"
)

// The ways out of a process, and what Main does on each:
//
//	f returns          Close, exit 0; 1 where f or Close failed
//	f panics           Close within the grace, then the panic goes on (exit 2)
//	first SIGINT       f's context ends; devices still busy after the grace: exit 130.
//	                   Else f may take its time, to save its state, and returns:
//	                   exit 0, or 130 where it returns the context's error
//	second SIGINT      exit 130 at once
//	SIGTERM, SIGHUP    f's context ends; once queues have finished and f has returned,
//	                   or after the grace, what was installed before runs: as a rule
//	                   the process dies of the signal
//	a second of these  what was installed before runs at once
//
// A watcher goroutine receives signals while f runs on the caller's goroutine; they
// share what is in the leaving type.

// Causes with which f's context ends.
var (
	ErrInterrupted = mem.Sentinel("interrupted (SIGINT)", mem.InvalidOperation)
	ErrTerminated  = mem.Sentinel("terminated (SIGTERM)", mem.InvalidOperation)
	ErrHangup      = mem.Sentinel("hung up (SIGHUP)", mem.InvalidOperation)
)

// exitInterrupted is what shells report of a program that SIGINT ended.
const exitInterrupted = 130

// MainOptions shape MainWith. The zero value is what Main does.
type MainOptions struct {
	Manager Options
	// Grace is how long devices may stay busy after a signal or a panic; 3 s.
	Grace time.Duration
	// NoSignals leaves all signals to the program.
	NoSignals bool
	// Terminate runs on SIGTERM or SIGHUP once queues have finished. Nil raises the
	// signal again with Main's own handling taken away: other channels given to
	// signal.Notify receive it (a second time), and without any the process ends
	// as if Main had not been there.
	Terminate func()
}

// Main runs f with a context that carries a Manager (see Default) and ends when the
// process is asked to, closes the manager on every way out, and exits. A program
// calls it last in main; nothing after it runs. Programs that end themselves
// (os.Exit, log.Fatal) are to call Manager.Close first. Signals that were ignored
// when the process started stay ignored; other handlers of the program's own
// receive signals as ever.
func Main(f func(ctx context.Context) error) { MainWith(MainOptions{}, f) }

// MainWith is Main with options.
func MainWith(o MainOptions, f func(ctx context.Context) error) {
	if o.Grace <= 0 {
		o.Grace = 3 * time.Second
	}
	l := &leaving{opts: o, manager: NewManager(o.Manager), returned: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(WithManager(context.Background(), l.manager))
	defer cancel(nil)
	if !o.NoSignals {
		l.watch(cancel)
	}
	os.Exit(l.run(ctx, f))
}

// leaving is a process on its way out.
type leaving struct {
	opts    MainOptions
	manager *Manager

	interrupted, terminated atomic.Bool
	returned                chan struct{} // closed when f has returned or panicked
	terminate               sync.Once
	by                      atomic.Int32 // the signal that terminated
	interrupts, terms       chan os.Signal
}

// run calls f and returns the exit code. A panic is not recovered, so that its
// trace is the original one: the deferred drain runs and the panic goes on.
func (l *leaving) run(ctx context.Context, f func(context.Context) error) int {
	ended := false
	defer func() {
		if ended {
			return
		}
		close(l.returned)
		l.report(l.closeWithin(l.opts.Grace))
	}()
	err := f(ctx)
	ended = true
	close(l.returned)
	return l.leave(err)
}

// leave closes the manager and says with which code to exit.
func (l *leaving) leave(err error) int {
	var grace time.Duration // none: what was enqueued is to end, and a signal can end the wait
	if l.interrupted.Load() || l.terminated.Load() {
		grace = l.opts.Grace
	}
	closed := l.closeWithin(grace)
	l.report(closed)
	if l.terminated.Load() {
		l.passOn()
	}
	code := 0
	switch {
	case err == nil && (closed == nil || errors.Is(closed, runtime.ErrLeak)):
	case l.interrupted.Load() && (isEnd(err) || isEnd(closed)):
		return exitInterrupted
	default:
		code = 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	return code
}

// isEnd reports whether err says no more than that the context ended.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrInterrupted)
}

// closeWithin closes the manager, for at most d where d is not 0.
func (l *leaving) closeWithin(d time.Duration) error {
	ctx := context.Background()
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	return within(ctx, func() error { return l.manager.Close(ctx) })
}

// within runs f, and leaves it behind where ctx ends first: f may wait for a lock
// that a device's library never gives back.
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report prints what closing the manager found, and under GODWIT_DEBUG=leaks the
// objects of OpenCL.
func (l *leaving) report(closed error) {
	if closed != nil {
		fmt.Fprintln(os.Stderr, "godwit: closing devices:", closed)
	}
	if strings.Contains(os.Getenv("GODWIT_DEBUG"), "leaks") {
		created, released := opencl.Objects()
		fmt.Fprintf(os.Stderr, "godwit: leaks: cl objects created %+v released %+v\n", created, released)
	}
}

// causes are the errors with which f's context ends.
var causes = map[syscall.Signal]error{syscall.SIGTERM: ErrTerminated, syscall.SIGHUP: ErrHangup}

// watch receives signals from now on.
func (l *leaving) watch(cancel context.CancelCauseFunc) {
	l.interrupts, l.terms = make(chan os.Signal, 8), make(chan os.Signal, 8)
	if !signal.Ignored(syscall.SIGINT) {
		signal.Notify(l.interrupts, syscall.SIGINT)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup
			signal.Notify(l.terms, s)
		}
	}
	go func() {
		for {
			select {
			case <-l.interrupts:
				if l.interrupted.Swap(true) {
					os.Exit(exitInterrupted)
				}
				cancel(ErrInterrupted)
				go l.interrupt()
			case s := <-l.terms:
				by, _ := s.(syscall.Signal) // there are no others
				if l.by.CompareAndSwap(0, int32(by)) {
					l.terminated.Store(true)
					cancel(causes[by])
					go l.term()
				} else {
					go l.passOn()
				}
			}
		}
	}()
}

// interrupt gives the devices their grace.
func (l *leaving) interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), l.opts.Grace)
	defer cancel()
	// A command's failure is not the devices' being busy.
	_ = within(ctx, func() error { return l.manager.Finish(ctx) })
	l.awaitClose(ctx)
	if ctx.Err() != nil {
		os.Exit(exitInterrupted)
	}
}

// awaitClose waits, where f has returned already, until the manager is closed or
// ctx ends: leave may have begun an unbounded Close before the signal came.
func (l *leaving) awaitClose(ctx context.Context) {
	select {
	case <-l.returned:
		_ = within(ctx, func() error { return l.manager.Close(ctx) }) // leave reports the error
	default:
	}
}

// term finishes the queues and waits for f within the grace. Where f returns, its
// own goroutine goes on from there.
func (l *leaving) term() {
	ctx, cancel := context.WithTimeout(context.Background(), l.opts.Grace)
	defer cancel()
	_ = within(ctx, func() error { return l.manager.Finish(ctx) }) // as above
	select {
	case <-l.returned:
		l.awaitClose(ctx)
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		l.passOn()
	}
}

// passOn lets what was installed before handle the signal.
func (l *leaving) passOn() {
	l.terminate.Do(func() {
		if l.opts.Terminate != nil {
			l.opts.Terminate()
			return
		}
		signal.Stop(l.terms)
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(syscall.Signal(l.by.Load())) == nil {
			// The signal may reach another thread a moment later. Where nobody
			// else handles it, nothing below here runs.
			time.Sleep(100 * time.Millisecond)
		}
	})
}
