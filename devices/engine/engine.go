// Package engine is the engine that devices simulated in this process share: queues,
// workers, the movement of bytes, launches of Go kernels; and Host, the host's memory
// as a device.
package engine

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"sync"

	"godwit/devices"
	"godwit/mem"
)

// The software queue engine: what a simulated driver needs to be asynchronous.
//
// Assumptions: commands are many and mostly short, a launch can use all
// workers, few commands are gated for long, and the submitting goroutine holds
// locks of its own (the planner's) while it submits.
//
// What follows: Submit only copies the command into a pooled record and counts
// its waits; a record is pushed on the engine's ready list by whoever takes its
// count to zero, so that a gated command occupies no worker. Workers are
// goroutines started when there is work and none is idle, up to a bound shared
// by all queues of the device; a host call, which may block, widens the bound
// while it runs. A launch splits over idle workers through parallel.
//
// Life of a record: free -> filled (Submit) -> counting (waits registered, the
// count holds one for Submit itself and one for the predecessor in an in-order
// queue) -> ready (count zero) -> running -> ended -> free. Every waiter
// registered fires exactly once before the count can reach zero, so nobody
// knows a free record and records need no generations.
//
// Two rules keep callers safe: a point is never ended with an error from within
// Submit (so OnFail is never called there), and no point is ended from within a
// waiter's call (so chains of markers do not recurse); a worker does both.
//
// Devices in virtual time have no workers. Their pace (pace.go) is told of each record
// that is ready, and says when its command starts and ends.
//
// Lock order: Queue.mu, then mem.Timeline's; engine.mu is a leaf.

// Executor is what a driver gives the engine: the part that knows its memory.
type Executor interface {
	// Execute runs a command, on a worker goroutine, for many commands at once.
	// It must not keep cmd. Host calls are not given to it. A panic becomes the
	// command's error.
	Execute(cmd *devices.Command) error
}

// EngineOptions say how an engine is to work.
type EngineOptions struct {
	Name    string // of the device, for errors and timelines
	Workers int    // most goroutines that execute at once; at least 1
	// Instant says that Execute takes no time for anything but launches and
	// host calls (markers never take any), so that a command whose waits are
	// reached may be executed inside Submit. InstantLaunch extends this to
	// launches.
	Instant, InstantLaunch bool
	// Serial runs launches one at a time, as a single core does; other
	// commands run beside them.
	Serial bool
	// NoKernels says that the device runs none: programs are not built for it, and
	// launches are refused.
	NoKernels bool
	// Pace, where not nil, says when commands start and end; there are no workers, and
	// nothing is executed inside Submit.
	Pace Pace
}

// engine runs the queues of one simulated device. All methods are safe for use
// from many goroutines.
type engine struct {
	exec Executor         // immutable
	info *devices.Info    // immutable: what commands are tested against
	opts EngineOptions    // immutable
	by   devices.Executor // immutable: the clock, and who puts to sleep
	// instant says of each operation whether it may be executed inside Submit. Immutable.
	instant [math.MaxUint8 + 1]bool
	kept    int // immutable: how many free records a queue keeps

	workers  sync.WaitGroup
	wake     sync.Cond // workers with nothing to do; its L is mu
	launches sync.Pool // of *launch

	mu        sync.Mutex
	ready     lines    // protected by mu
	serial    lines    // protected by mu: ready launches, where they are serial
	launching bool     // protected by mu: one of them runs
	jobs      []*job   // protected by mu: parallel work, once for each helper that it wants
	idle      int      // protected by mu: workers in wake.Wait and not yet signalled
	running   int      // protected by mu: worker goroutines
	limit     int      // protected by mu: Workers, and one for each host call in progress
	open      []string // protected by mu: names of queues not yet closed
	closed    bool     // protected by mu
}

// fifo is a list of ready records.
type fifo struct{ head, tail *record }

func (f *fifo) push(r *record) {
	r.ready = nil
	if f.tail == nil {
		f.head = r
	} else {
		f.tail.ready = r
	}
	f.tail = r
}

func (f *fifo) pop() *record {
	r := f.head
	if f.head = r.ready; f.head == nil {
		f.tail = nil
	}
	return r
}

// lines are ready records by their queues' priorities. Those of higher priority are popped first, but before one that was overtaken too often.
type lines struct {
	of        [devices.PriorityHigh - devices.PriorityLow + 1]fifo
	overtaken [devices.PriorityHigh - devices.PriorityLow + 1]int // how often the first in line was, by those of higher priority
	n         int
}

func (l *lines) push(r *record) {
	l.of[r.q.opts.Priority-devices.PriorityLow].push(r)
	l.n++
}

func (l *lines) pop() *record {
	const most = devices.MostOvertaken
	best := -1
	for i := range l.of {
		if l.of[i].head != nil && (best < 0 || l.overtaken[best] < most || l.overtaken[i] >= most) {
			best = i
		}
	}
	for i := range best {
		if l.of[i].head != nil {
			l.overtaken[i]++
		}
	}
	l.overtaken[best] = 0
	l.n--
	return l.of[best].pop()
}

// newEngine returns an engine without goroutines; they start with the first
// command that needs one.
func newEngine(exec Executor, info *devices.Info, opts EngineOptions) *engine {
	opts.Workers = max(opts.Workers, 1)
	e := &engine{exec: exec, info: info, opts: opts, limit: opts.Workers, by: devices.Goroutines{}, kept: keptRecords}
	if opts.Pace != nil {
		e.opts.Workers, e.by, e.kept = 1, opts.Pace, keptPaced
	} else {
		i := opts.Instant
		e.instant = [math.MaxUint8 + 1]bool{
			devices.OpMarker: true, devices.OpCopy: i, devices.OpCopyRect: i, devices.OpFill: i,
			devices.OpLaunch: opts.InstantLaunch, devices.OpHostCall: false,
		}
	}
	e.wake.L, e.launches.New = &e.mu, newLaunch
	return e
}

// close ends the workers. It fails with mem.ErrInvalidOperation, and changes
// nothing, while queues are open, which it names.
func (e *engine) close() error {
	e.mu.Lock()
	if len(e.open) > 0 {
		defer e.mu.Unlock()
		return fmt.Errorf("device %s: queues %v are open: close a device's queues before it: %w",
			e.opts.Name, e.open, mem.ErrInvalidOperation)
	}
	e.closed = true
	e.wake.Broadcast()
	e.mu.Unlock()
	e.workers.Wait()
	return nil
}

// push appends a ready record and finds it a worker; by was reached last of what it
// waited for.
func (e *engine) push(r *record, by mem.Point) {
	if e.opts.Pace != nil {
		e.opts.Pace.Ready(Ready{r, by})
		return
	}
	e.mu.Lock()
	if e.opts.Serial && r.op() == devices.OpLaunch {
		e.serial.push(r)
	} else {
		e.ready.push(r)
	}
	e.callWorker()
	e.mu.Unlock()
}

// callWorker wakes an idle worker or starts one within the limit. mu is held.
func (e *engine) callWorker() {
	switch {
	case e.idle > 0:
		e.idle--
		e.wake.Signal()
	case e.running < e.limit:
		e.running++
		e.workers.Add(1)
		go e.work()
	}
}

// work is the life of a worker.
func (e *engine) work() {
	defer e.workers.Done()
	// A Go kernel that keeps a view of a freed block must fail, not crash.
	debug.SetPanicOnFault(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		switch {
		case e.running > e.limit: // a host call has ended; the others take what is ready
			e.running--
			return
		case len(e.jobs) > 0:
			j := e.jobs[len(e.jobs)-1]
			e.jobs = e.jobs[:len(e.jobs)-1]
			j.busy.Add(1) // its owner takes it off the list before it waits, so this is in time
			e.mu.Unlock()
			j.work()
			j.busy.Done()
			e.mu.Lock()
		case e.ready.n > 0:
			r := e.ready.pop()
			e.mu.Unlock()
			r.run()
			e.mu.Lock()
		case e.serial.n > 0 && !e.launching:
			e.launching = true
			r := e.serial.pop()
			e.mu.Unlock()
			r.run()
			e.mu.Lock()
			e.launching = false
		case e.closed:
			e.running--
			return
		default:
			e.idle++
			e.wake.Wait()
		}
	}
}

// hostCall runs f, which may block, without holding up other commands.
func (e *engine) hostCall(f func(context.Context) error) error {
	e.mu.Lock()
	e.limit++
	if e.ready.n > 0 || e.serial.n > 0 {
		e.callWorker()
	}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.limit--
		e.mu.Unlock()
	}()
	return f(context.Background())
}

// protect runs a command, and those behind it in its run until one fails. It turns a panic into an error.
func (e *engine) protect(cmd *devices.Command) (err error) {
	at, then, doing := 0, cmd.Then(), cmd
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v on device %s panicked: %v: %w", doing.Op, e.opts.Name, v, mem.ErrFault)
		}
		err = cmd.Of(at, err)
	}()
	for err = e.do(cmd); err == nil && at < len(then); {
		doing = &then[at]
		at++
		err = e.do(doing)
	}
	return err
}

func (e *engine) do(cmd *devices.Command) error {
	switch cmd.Op {
	case devices.OpMarker:
		return nil
	case devices.OpHostCall:
		return e.hostCall(cmd.Call)
	}
	return e.exec.Execute(cmd)
}
