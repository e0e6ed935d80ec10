package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"godwit/devices"
	"godwit/mem"
)

// state is a host thread's.
type state uint8

const (
	ready   state = iota // it may go on at its clock
	running              // it has the turn
	asleep               // it waits
)

// thread is a host thread.
type thread struct {
	num   int
	host  int // that it is of
	clock uint64
	debt  uint64 // what it owes for what it has enqueued (carry.go)
	state state
	turn  chan struct{} // tells it that it has the turn; nil until it first waits for it
	gone  bool

	// While it is asleep.
	ctx   context.Context
	what  fmt.Stringer
	point mem.Point
	done  func() bool
	err   error
}

// StuckError is why a wait in virtual time failed: no thread can go on, and nothing is
// under way. It is a devices.ErrStuck.
type StuckError struct {
	For    string   // what was waited for
	Others []string // what the other threads wait for
}

// Error implements error.
func (e *StuckError) Error() string {
	s := fmt.Sprintf("wait for %s: %v", e.For, devices.ErrStuck)
	if len(e.Others) > 0 {
		s += "; other host threads wait for " + strings.Join(e.Others, ", ")
	}
	return s
}

// Unwrap returns devices.ErrStuck.
func (e *StuckError) Unwrap() error { return devices.ErrStuck }

// Threads runs functions on host threads of their own, which begin now, in their order, and
// returns when all have ended, also where their waits fail. A panic of one is the caller's.
func (w *World) Threads(fs ...func()) error {
	left, panicked := len(fs), error(nil)
	for _, f := range fs {
		w.spawn(func() {
			defer func() {
				if v := recover(); v != nil {
					panicked = errors.Join(panicked, fmt.Errorf("host thread panicked: %v\n%s", v, debug.Stack()))
				}
				left--
			}()
			f()
			if w.running.debt > 0 {
				w.yield(0) // who waits for its end waits until it has paid
			}
		})
	}
	err := w.sleep(context.Background(), threadsEnd{}, mem.Point{}, func() bool { return left == 0 })
	return errors.Join(err, panicked)
}

// On has the host thread that calls be of a host of the machine's from now on; it is of host 0 at first. It returns
// the thread's number, as Observer.Woke has it.
func (w *World) On(host int) (thread int) {
	w.running.host = host
	return w.running.num
}

// Await has the host thread that calls wait until done, which is asked again and again and must not call the world.
func (w *World) Await(ctx context.Context, what fmt.Stringer, done func() bool) error {
	return w.sleep(ctx, others{what}, mem.Point{}, done)
}

type threadsEnd struct{}

func (threadsEnd) String() string { return "the end of other host threads" }

// others is what other host threads are to do.
type others struct{ fmt.Stringer }

// spawn makes a host thread that begins now and ends with f.
func (w *World) spawn(f func()) {
	t := &thread{num: w.numbers, host: w.running.host, clock: w.now, state: ready, turn: make(chan struct{}, 1)}
	w.numbers++
	w.threads = append(w.threads, t)
	go func() {
		<-t.turn
		defer func() { // also where f ends its goroutine, as a test's FailNow does
			t.gone = true
			w.threads = slices.DeleteFunc(w.threads, func(x *thread) bool { return x == t })
			w.turn(t)
		}()
		f()
	}()
}

// sleep has the running thread wait until done. To be woken costs what the machine says.
func (w *World) sleep(ctx context.Context, what fmt.Stringer, p mem.Point, done func() bool) error {
	if done() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t := w.running
	slept := t.pay(w.now)
	t.clock, t.state = slept, asleep
	t.ctx, t.what, t.point, t.done, t.err = ctx, what, p, done, nil
	w.turn(t)
	t.ctx, t.what, t.done = nil, nil, nil
	if w.opts.Observer != nil {
		w.opts.Observer.Woke(t.num, int64(slept), int64(w.now), p)
	}
	return t.err
}

// yield has the running thread go on after so many nanoseconds.
func (w *World) yield(after uint64) {
	t := w.running
	t.clock, t.state = plus(t.pay(w.now), after), ready
	w.turn(t)
}

// pay is when a thread that is at a time has paid what it owes.
func (t *thread) pay(now uint64) uint64 {
	now, t.debt = plus(now, t.debt), 0
	return now
}

// looks is how many events pass between two looks at the contexts of those who wait.
const looks = 4096

// turn has time go on until a thread may, and gives it the turn. It returns when t has
// it, or at once where t has ended.
func (w *World) turn(t *thread) {
	for n := 1; ; n++ {
		w.wake(n%looks == 0)
		next := w.first()
		if at, ok := w.nextEvent(); ok && (next == nil || at <= next.clock) {
			w.step(at)
			continue
		}
		if next == nil {
			w.stuck()
			continue
		}
		next.state, w.now, w.running = running, max(w.now, next.clock), next
		if next == t {
			return
		}
		if t.turn == nil {
			t.turn = make(chan struct{}, 1)
		}
		next.turn <- struct{}{}
		if !t.gone {
			<-t.turn
		}
		return
	}
}

// wake lets threads go on whose wait is over.
func (w *World) wake(look bool) {
	for _, t := range w.threads {
		if t.state != asleep {
			continue
		}
		if !t.done() {
			if !look || t.ctx.Err() == nil {
				continue
			}
			t.err = t.ctx.Err()
		}
		if t.state = ready; t.clock <= w.now { // else it paid debts meanwhile, and finds the end when it comes to wait
			t.clock = plus(w.now, w.woken(t.host, t.point))
		}
	}
}

// first is the thread that goes next of those that can; nil where none can.
func (w *World) first() (next *thread) {
	for _, t := range w.threads {
		if t.state == ready && (next == nil || t.clock < next.clock) {
			next = t
		}
	}
	return next
}

// stuck fails the wait of the first thread: all wait, and nothing is under way. Who waits
// for other threads is after them, since what they do next may end its wait.
func (w *World) stuck() {
	t := slices.MinFunc(w.threads, func(a, b *thread) int {
		return cmp.Or(cmp.Compare(a.last(), b.last()), cmp.Compare(a.clock, b.clock))
	})
	err := &StuckError{For: t.what.String()}
	for _, x := range w.threads {
		if x != t {
			err.Others = append(err.Others, fmt.Sprintf("%v (thread %d)", x.what, x.num))
		}
	}
	t.err, t.state = err, ready
}

// last is how late the wait of a thread fails: one for other threads fails after theirs,
// and so does one to close something, whose callbacks are threads.
func (t *thread) last() int {
	switch t.what.(type) {
	case threadsEnd, *cond:
		return 2
	case others:
		return 1
	}
	return 0
}
