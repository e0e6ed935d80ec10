package virtual

import (
	"context"
	"fmt"
	"sync"
	"time"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/network"
	"godwit/mem"
)

// A world in virtual time.
//
// Assumptions: what is studied is the order and the length of transfers and launches,
// not this computer; there are few host threads and many commands; a study is repeated,
// so the same calls give the same times, to the nanosecond.
//
// What follows. Nothing runs at the same time as anything else. There is one list of
// what is to happen (events.go), in order of time, and the network, which knows when the
// next transfer ends. Time goes on only while a host thread is in a call: when it enters
// one, up to its own clock, and when it waits, up to what it waits for. Whoever is in a
// call works the list off, and everything that the mover, the runtime and queues do by
// themselves is on it; so no goroutine, no timer and no clock of this computer takes
// part.
//
// Host threads (threads.go) are goroutines of which one runs at a time, the one whose clock
// is behind all others', and of equal ones the one with the least number. A call costs
// its thread what the machine says, and takes effect at its end. What ends at the same time as
// a thread goes on ends first. Thread 0 is whoever calls from outside; the program makes others
// (World.Threads). Callbacks and host calls are threads that end when their function does.
//
// At one instant, what is on the list happens in the order in which it was put there, or, with
// Options.Seed, in an order drawn from that: nothing in it is the order of a cause and
// its effect, since an effect comes on the list after its cause.
//
// Life of a command (tasks.go): its waits are reached (engine.Pace) -> it waits for its engine
// -> setup -> its bytes are under way, and its least time passes -> the engine is free ->
// latency -> its point is reached. Before its engine come its carriers (carry.go), where the machine has any.
//
// A world belongs to one context. Its methods are for its host threads.

// Options say how a world is to work; the zero value is bytes, in the order of causes.
type Options struct {
	// Seed draws the order of what happens at one instant, and whether a command's bytes
	// move when it starts or when it ends; 0 leaves the order as it came, and moves them
	// at the end.
	Seed uint64
	// Exact has rings go chunk by chunk. Else a ring is one flow over both its paths,
	// once its first chunk is on the host, which is some hundred times less work and within
	// 2 % of the same time, unless its chunks are so small that their setups count for much.
	Exact bool
	// Stamps has devices keep no bytes, but who wrote them (World.Seen). Kernels are not
	// run, and count as reading and writing what they are given to read and write. There
	// is no shared virtual memory. The host's blocks are of this process, and hold what
	// the host itself writes there.
	Stamps bool
	// Fail are commands that fail.
	Fail []Failure
	// Names are what devices are called, from the first on; the machine names the others.
	Names []string
	// Observer, where not nil, is told of what ended.
	Observer Observer
}

// Failure is what is to fail: a command by its number in the context, from 1 in order of
// enqueue; or, where Command is 0, whatever is under way on the device of a memory at a
// time. It fails when it would have ended, and what it has written by then is lost.
type Failure struct {
	Command uint64
	Memory  int
	At      uint64 // nanoseconds
}

// ErrInjected is why a command failed that was to (Options.Fail).
var ErrInjected = mem.Sentinel("failure asked for", mem.OutOfResources)

// World is devices in virtual time, and their clock.
type World struct {
	machine Machine
	opts    Options
	net     *network.Network
	host    *hostDevice
	devs    []devices.Device
	fails   map[uint64]bool // commands
	struck  []int           // see Struck
	spared  bool            // no device fails any more

	now     uint64
	events  events
	threads []*thread // that have not ended, by number
	running *thread
	numbers int // of threads, ever

	engines []copyEngine
	rank    []int   // by engine: the order in which who needs several takes them
	tasks   []*task // by number
	spare   []*task
	rings   []*ring // by number
	keeps   content

	carriers carriers
	stepping bool // something happens by itself

	spareRings []*ring
	ahead      map[[2]int]int // rings that are staged ahead, by their ends
	span       Span
	counts     Counts
	draws      uint64 // by early
}

// Counts are how much work a world has had.
type Counts struct {
	Events   uint64 // that happened
	Commands uint64 // that ended
	Flows    uint64 // that were started
}

var (
	_ devices.Executor = (*World)(nil)
	_ engine.Pace      = (*pace)(nil)
)

// New makes a world of a machine. It fails with mem.ErrInvalidValue where the machine
// makes no sense.
func New(m Machine, o Options) (*World, error) {
	net, err := network.New(m.Bandwidths())
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	w := &World{machine: m, opts: o, net: net, fails: make(map[uint64]bool), ahead: make(map[[2]int]int)}
	if w.keeps = (bytesKept{w}); o.Stamps {
		w.keeps = newStamps(w)
	}
	w.events.seed, w.events.heap.Before = o.Seed, (*event).before
	w.struck = make([]int, len(o.Fail))
	w.running = &thread{state: running}
	w.threads, w.numbers = []*thread{w.running}, 1
	for _, slots := range m.Engines() {
		w.engines = append(w.engines, copyEngine{free: slots})
	}
	w.rankEngines()
	w.carriers.init(m.Carriage())
	for i, f := range o.Fail {
		w.struck[i] = -1
		if f.Command != 0 {
			w.fails[f.Command] = true
			continue
		}
		if f.Memory < 0 || f.Memory >= m.Memories() {
			return nil, fmt.Errorf("failure on memory %d: the machine has 0 to %d: %w", f.Memory, m.Memories()-1, mem.ErrInvalidValue)
		}
		w.events.push(f.At, event{kind: failDevice, n: uint32(i)})
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

// Fail has a command of the context, by its number, fail as Options.Fail does. It may be
// called until the host thread that has enqueued the command makes its next call.
func (w *World) Fail(command uint64) { w.fails[command] = true }

// Spare has no device fail any more, and returns for each failure of Options.Fail how many
// commands and copies of its device it has struck; -1 where its time has not come, and for
// failures of commands.
func (w *World) Spare() []int {
	w.spared = true
	return w.struck
}

// failDevice fails what is under way on the device of a failure.
func (w *World) failDevice(n int) {
	if w.spared {
		return
	}
	memory, cause := w.opts.Fail[n].Memory, fmt.Errorf("at %d ns: %w", w.now, ErrInjected)
	w.struck[n] = 0
	for _, t := range w.tasks {
		if t.active && t.ring == nil && t.err == nil && t.uses(memory) {
			t.err = cause
			w.struck[n]++
		}
	}
	for _, x := range w.rings {
		if x.begun && x.err == nil && x.uses(memory) {
			x.err = cause
			w.struck[n]++
		}
	}
}

// rankEngines orders engines: those that do copies into memories after all others, and by
// number.
func (w *World) rankEngines() {
	n := len(w.engines)
	w.rank = make([]int, n)
	for i := range w.rank {
		w.rank[i] = i
	}
	for m := 1; m < w.machine.Memories(); m++ {
		if in := w.machine.Copy(0, m, 1).Engine; in >= 0 {
			w.rank[in] = n + int(in)
		}
	}
}

// Time is what the clock says, in nanoseconds since the world began: that of the host
// thread that calls, with what it owes.
func (w *World) Time() uint64 {
	if w.stepping {
		return w.now
	}
	return plus(w.now, w.running.debt)
}

// Counts are the world's figures; Solver has its network's.
func (w *World) Counts() Counts { return w.counts }

// Network is the world's, for its figures. It must not be changed.
func (w *World) Network() *Network { return w.net }

// Now implements devices.Executor.
func (w *World) Now() uint64 { return w.Time() + 1 }

// Go implements devices.Executor: f runs at this instant.
func (w *World) Go(f func()) { w.events.push(w.now, event{kind: callFunc, f: f}) }

// Call implements devices.Executor.
func (w *World) Call(f func()) { w.spawn(f) }

// Enter implements devices.Executor.
func (w *World) Enter(c devices.Call) {
	w.yield(w.machine.Call(w.running.host, c))
}

// Pause implements devices.Executor.
func (w *World) Pause(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.yield(uint64(max(d, 0)))
	return nil
}

// Sleep implements devices.Executor.
func (w *World) Sleep(ctx context.Context, what fmt.Stringer, done <-chan struct{}) error {
	return w.sleep(ctx, others{what}, mem.Point{}, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
}

// SleepUntil implements mem.Sleeper.
func (w *World) SleepUntil(ctx context.Context, p mem.Point, done func() bool) error {
	return w.sleep(ctx, p, p, done)
}

// Sleeper implements devices.Executor.
func (w *World) Sleeper() mem.Sleeper { return w }

// Cond implements devices.Executor.
func (w *World) Cond(l sync.Locker) devices.Cond { return &cond{w: w, l: l} }

// cond is a condition variable: who waits looks again after a broadcast.
type cond struct {
	w *World
	l sync.Locker
	n uint64 // broadcasts
}

func (c *cond) Signal()    { c.n++ }
func (c *cond) Broadcast() { c.n++ }

// Wait implements devices.Cond.
func (c *cond) Wait() error {
	n := c.n
	c.l.Unlock()
	defer c.l.Lock()
	return c.w.sleep(context.Background(), c, mem.Point{}, func() bool { return c.n != n })
}

func (c *cond) String() string { return "the end of what is under way" }
