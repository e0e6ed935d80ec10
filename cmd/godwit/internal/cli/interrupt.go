package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"godwit/internal/process"
)

// How every verb ends when it is told to. SIGINT, SIGTERM and SIGHUP are alike:
//
//	the first    the verb's context ends. The verb stops at the next chance: commands that
//	             run end, those that are queued fail. It shows or keeps what it has,
//	             and returns. The exit code is 128 and the signal's number, whatever it
//	             returns
//	the second   or 3 s after the first: what is half made is undone (process.Guard),
//	             and the process exits with the same code: in some milliseconds, after a second at most
//
// A SIGHUP that was ignored when the process started (nohup) stays ignored. While
// godwit exec runs its program, signals are the program's.
//
// SIGQUIT and SIGABRT (crashes) ask for the goroutines: what is half made is undone, and Go's
// own handling of the signal, which prints them, ends the process.

// grace is how long Main gives a verb to stop.
const grace = 3 * time.Second

// exitSignal and the signal's number are the exit code of what a signal ended.
const exitSignal = 128

// interruption is the cause with which a verb's context ends: it is a context.Canceled
// that says which signal it was.
type interruption struct{ signal syscall.Signal }

func (i interruption) Error() string {
	return "interrupted by " + map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}[i.signal]
}

func (interruption) Unwrap() error { return context.Canceled }

// endOf is err, and where that says only that ctx was cancelled, what cancelled it.
func endOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
		return cause
	}
	return err
}

// interrupts watches for signals. Its methods are safe for use from many
// goroutines.
type interrupts struct {
	guard  process.Guard
	cancel context.CancelCauseFunc // immutable
	ch     chan os.Signal          // immutable
	crash  chan os.Signal          // immutable: signals that end the process with its goroutines printed
	grace  time.Duration           // immutable: how long a verb may take to stop
	asleep map[syscall.Signal]bool // immutable: ignored when the process started

	mu    sync.Mutex
	first syscall.Signal // protected by mu; 0 while there was none
}

type interruptsKey struct{}

// watchSignals returns a context for verbs, and the interrupts that end it.
func watchSignals(grace time.Duration) (context.Context, *interrupts) {
	in := &interrupts{grace: grace, ch: make(chan os.Signal, 8), crash: make(chan os.Signal, 1), asleep: make(map[syscall.Signal]bool)}
	for _, s := range slices.Concat(passedOn, crashes) {
		in.asleep[s] = signal.Ignored(s)
	}
	ctx, cancel := context.WithCancelCause(process.With(context.Background(), &in.guard))
	in.cancel = cancel
	in.resume()
	go func() {
		if s, ok := (<-in.crash).(syscall.Signal); ok {
			in.guard.Undo()
			crash(s)
		}
	}()
	go func() {
		for s := range in.ch {
			if s, ok := s.(syscall.Signal); ok {
				in.take(s)
			}
		}
	}()
	return context.WithValue(ctx, interruptsKey{}, in), in
}

// resume has signals taken from now on.
func (in *interrupts) resume() {
	if in == nil {
		return
	}
	signal.Notify(in.ch, syscall.SIGINT, syscall.SIGTERM)
	if !in.asleep[syscall.SIGHUP] {
		signal.Notify(in.ch, syscall.SIGHUP)
	}
	in.watchCrashes(nil)
}

// watchCrashes has signals taken that end the process with its goroutines printed, but for
// those that are somebody else's or were ignored when the process started.
func (in *interrupts) watchCrashes(others []syscall.Signal) {
	signal.Stop(in.crash)
	for _, s := range crashes {
		if !slices.Contains(others, s) && !in.asleep[s] {
			signal.Notify(in.crash, s)
		}
	}
}

// standDown leaves signals to somebody else, who is to take them already, until
// resume.
func (in *interrupts) standDown() {
	if in != nil {
		signal.Stop(in.ch)
		in.watchCrashes(passedOn)
	}
}

// ignoredAtStart reports whether the process was started with s ignored.
func (in *interrupts) ignoredAtStart(s syscall.Signal) bool { return in != nil && in.asleep[s] }

// interruptsOf are those of a verb's context; nil, which does nothing, where a
// test runs the verb.
func interruptsOf(ctx context.Context) *interrupts {
	in, _ := ctx.Value(interruptsKey{}).(*interrupts)
	return in
}

func (in *interrupts) take(s syscall.Signal) {
	in.mu.Lock()
	again := in.first != 0
	if !again {
		in.first = s
	}
	in.mu.Unlock()
	if again {
		in.leave()
	}
	in.cancel(interruption{s})
	time.AfterFunc(in.grace, in.leave)
}

// leave ends the process at once, and says so where standard error takes it at once.
func (in *interrupts) leave() {
	in.guard.Undo()
	told := make(chan struct{})
	go func() {
		say("%v: ended at once, without a result", interruption{in.signal()})
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(50 * time.Millisecond): // nobody reads it
	}
	os.Exit(in.code())
}

// code is the exit code of a process that was interrupted, 0 where it was not.
func (in *interrupts) code() int {
	if s := in.signal(); s != 0 {
		return exitSignal + int(s)
	}
	return 0
}

// signal is the first that came, 0 where none did.
func (in *interrupts) signal() syscall.Signal {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.first
}
