// Package mover moves ranges of bytes between memories, by the way that the
// planner chose. Everything that is neither a decision (package migration) nor one
// copy (a driver) is here: which queues, staging memory, chunks, the order of legs,
// several destinations, figures of the links.
//
// Assumptions: a range is up to gigabytes, links work in both directions at once,
// staging memory is dear (page-locked), many transfers are gated and few run at a
// time, and who asks holds the planner's lock meanwhile. So Move never blocks,
// allocates nothing in the steady state, and ends no point with an error.
//
// A transfer goes in one of three forms:
//
//   - direct: one leg on one hidden queue, which does the waiting too (direct.go);
//   - a chain: legs through staging, on the host or in windows on devices, tied by points
//     (legs.go) or, where one driver has all ends, given to it as one batch (batch.go).
//     Only queues take part;
//   - in lanes: where one end is bytes of this process and the other device is
//     reached over a bus, goroutines copy between the bytes and staging while queues
//     move what is staged (lanes.go).
//
// The last two are rings (ring.go). Life of a ring: free -> gated (its waits are not
// reached; it holds no staging and no place in a queue) -> starving (no staging is
// free; first come, first served) -> flying -> landed, for each destination, when its
// point ends -> free, when nothing touches its staging. What is ready goes from free to
// flying inside Move. A batch is gated by its driver, and asks for staging when it can
// begin (batch.go): staging is held by what ends without further help, so that it
// always comes back.
//
// What may not be done inside Move (end a point with an error, allocate staging) or
// inside a waiter's call (submit) is done by the pump, which the executor runs when there
// is such work, and which ends when there is no more (pump.go).
//
// Links between devices are opened beside the work (windows.go).
//
// Lock order: submit, then drivers'; mu is a leaf. Staging is allocated by the pump and
// by who opens links, without locks.
package mover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/internal/pairs"
	"godwit/internal/storage"
	"godwit/mem"
)

// Memory is one of the memories that a mover serves. A mem.MemoryID is its index.
type Memory struct {
	Device devices.Device
	Name   string // in errors and timelines
}

// Options say how a mover is to work; zero values are defaults.
type Options struct {
	Name     string // of its timeline; "mover"
	Memories []Memory
	Budget   uint64 // most bytes of staging; 256 MiB
	Chunk    uint64 // most bytes of a chunk; 0 leaves it to the size of what is moved
	Lanes    int    // goroutines that copy to and from staging; half of the processors, at most 8
	// NoWindows leaves the links between devices (devices.Windowed) alone.
	NoWindows bool
	// OnWays is called, by a goroutine without locks, when links are open, so that
	// Adopt knows of their ways.
	OnWays func()
	// Profiling keeps times: see Times.
	Profiling bool
	// Executor runs the pump; nil is devices.Goroutines.
	Executor devices.Executor
	// OnFail is told of every failed point, as in devices.QueueOptions; never from
	// within Move.
	OnFail func(p mem.Point, cause error)
}

// Stats are a mover's figures; counts since it was opened.
type Stats struct {
	Direct  uint64 // copies of one leg
	Linked  uint64 // transfers over links between devices, those of one leg too
	Rings   uint64 // transfers through staging
	Batches uint64 // of Rings, those that a driver took whole
	Legs    uint64 // copies submitted, those in batches too

	Yielded uint64 // transfers that gave way (Transfer.For); their pieces count as any

	Flying   int    // rings, and transfers that give way, accepted and not landed, now
	Staging  uint64 // bytes of staging held, now
	InFlight uint64 // bytes of staging in use, now
	Unlocked uint64 // arenas of ordinary memory, because locking failed
	Why      string // why it failed last, for people
}

// Mover moves ranges between memories. All methods are safe for use from many
// goroutines.
type Mover struct {
	opts   Options                         // immutable
	line   *mem.Timeline                   // immutable
	mems   []memory                        // immutable once open
	costs  map[[2]mem.MemoryID]*cost       // immutable once measured: by source and destination
	reach  pairs.Table[atomic.Uint32]      // of reach: as costs, of those that were asked for
	queues map[*mem.Timeline]devices.Queue // immutable once open: hidden queues of which Move gives points out
	lazy   []devices.Queue                 // immutable once open: of queues, those that are to be flushed
	own    *storage.Host                   // immutable: ordinary host memory
	open   []devices.Queue                 // hidden ones that are not closed; appended to by Open and who opens links, then of who has set closed
	lanes  lanes
	copies sync.Pool // of *userCopy
	hands  sync.Pool // of *Hand
	links  links

	held   atomic.Bool     // there are transfers that give way; changed under mu
	submit sync.Mutex      // held over each Submit
	leg    devices.Command // protected by submit: its ends and Late are clear between uses

	by     devices.Executor // immutable
	beside sync.WaitGroup   // who opens links
	landed devices.Cond     // closed, Flying is zero and the pump at rest; its lock is mu

	mu      sync.Mutex
	stats   Stats    // protected by mu
	arenas  []*arena // protected by mu: staging
	starved []*ring  // protected by mu: wait for staging, in order
	short   int      // protected by mu: the home of which a gated batch found no staging; -1 is none
	spare   []*ring  // protected by mu
	todo    []task   // protected by mu: for the pump
	doing   []task   // protected by mu: storage, while the pump is at rest
	yields  yielders // protected by mu
	times   []timed  // protected by mu: of rings on the mover's own line; nil unless profiling
	pumping bool     // protected by mu: the pump runs, or will
	closed  bool     // protected by mu
	abort   error    // protected by mu: why no transfer begins any more; nil until Abort
}

// memory is a memory as the mover uses it. Its queues are out of order and hidden
// from users, one for each direction, so that a copy waits for nothing but its own
// waits and copies out of a memory overlap those into it. Immutable.
type memory struct {
	Memory
	in, out  devices.Queue
	all      [2]devices.Queue   // in and out
	view     devices.Viewer     // not nil: its blocks are bytes of this process
	locker   devices.PageLocker // not nil: it has page-locked memory
	window   devices.Windowed   // not nil: it may have links
	discrete bool               // it is reached over a bus, so that staging pays
	family   int                // of memories between which rings go in batches; -1 where it has none
	align    uint64             // of copies from and to it; 0 is any
	gated    uint64             // protected by Mover.mu: of the pool that it names, bytes of staging of gated batches
	home     int                // the memory whose staging its rings use; see staging.go
	lanes    [2]*laneQueue      // out of it, into it; nil where it is not discrete
}

// End is one end of a transfer.
type End struct {
	Memory mem.MemoryID
	Block  mem.Block
	Off    uint64 // bytes into the block
	Bytes  []byte // instead of a block: bytes of this process
}

// Transfer is a copy of Size bytes from one end to others.
type Transfer struct {
	Way    mem.Way // not Same
	From   End
	To     []End
	Size   uint64        // bytes, not zero
	Late   devices.Late  // what part of Size is to move, for one destination; nil is all
	For    *mem.Timeline // where not nil, it gives way to transfers that have none (yield.go): the timeline of who needs it. Not with Late or Hand
	Hand   *Hand         // of a ring of which one end is the program's memory: who waits for it and may leave; nil is nobody
	Waits  []mem.Wait
	Points []mem.Point // set by Move: when each destination has its bytes
}

// Open opens a mover with its hidden queues. It fails with mem.ErrInvalidValue on
// options that make no sense, and as devices do.
func Open(opts Options) (*Mover, error) {
	opts.Name = cmp.Or(opts.Name, "mover")
	opts.Budget = cmp.Or(opts.Budget, 256<<20)
	opts.Lanes = cmp.Or(opts.Lanes, DefaultLanes())
	switch {
	case opts.Budget < leastBudget:
		return nil, fmt.Errorf("staging of %s: a ring takes at least %s: %w", mem.FormatBytes(opts.Budget), mem.FormatBytes(leastBudget), mem.ErrInvalidValue)
	case opts.Lanes < 0 || opts.Lanes > mostLanes:
		return nil, fmt.Errorf("%d lanes: at least one and at most %d: %w", opts.Lanes, mostLanes, mem.ErrInvalidValue)
	}
	m := &Mover{opts: opts, line: mem.NewTimeline(opts.Name, false, opts.OnFail), own: storage.NewHost(opts.Name, 0), short: -1}
	m.leg = devices.Command{Op: devices.OpCopy, Checked: devices.Vouched}
	m.by = devices.ExecutorOr(opts.Executor)
	m.line.SleepBy(m.by.Sleeper())
	m.landed = m.by.Cond(&m.mu)
	m.lanes.init(m)
	if opts.Profiling {
		m.times = make([]timed, keptTimes)
	}
	m.mems = make([]memory, len(opts.Memories))
	m.links.init(len(m.mems))
	m.yields.out, m.yields.in = make([]int, len(m.mems)), make([]int, len(m.mems))
	m.reach, m.costs, m.queues = pairs.Make[atomic.Uint32](len(m.mems)), make(map[[2]mem.MemoryID]*cost), make(map[*mem.Timeline]devices.Queue)
	for i := range m.mems {
		if err := m.openMemory(&m.mems[i], opts.Memories[i]); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	m.findFamilies()
	return m, nil
}

func (m *Mover) openMemory(x *memory, of Memory) (err error) {
	x.Memory, x.align = of, of.Device.Info().CopyAlign
	x.view, _ = of.Device.(devices.Viewer)
	x.locker, _ = of.Device.(devices.PageLocker)
	x.window, _ = of.Device.(devices.Windowed)
	if x.locker != nil {
		l := x.locker.HostLink(true)
		x.discrete = l.Ring.There
	}
	x.family = -1
	hidden := devices.QueueOptions{OutOfOrder: true, Profiling: m.opts.Profiling, OnFail: m.opts.OnFail}
	for i, direction := range []string{"in", "out"} {
		if x.all[i], err = m.openQueue(of, direction, hidden); err != nil {
			return err
		}
		m.queues[x.all[i].Timeline()] = x.all[i]
		if _, ok := x.all[i].(devices.Prompt); !ok {
			m.lazy = append(m.lazy, x.all[i])
		}
	}
	x.in, x.out = x.all[0], x.all[1]
	for i, direction := range []string{"lanes.out", "lanes.in"} {
		if !x.discrete {
			break
		}
		q, err := m.openQueue(of, direction, devices.QueueOptions{})
		if err != nil {
			return err
		}
		x.lanes[i] = &laneQueue{queue: q, locker: x.locker}
		x.lanes[i].shut, _ = q.(devices.Shuttle)
	}
	return nil
}

func (m *Mover) openQueue(of Memory, direction string, o devices.QueueOptions) (devices.Queue, error) {
	o.Name = of.Name + "." + direction
	q, err := of.Device.NewQueue(o)
	if err != nil {
		return nil, fmt.Errorf("hidden queue %s of %s: %w", direction, of.Name, err)
	}
	m.open = append(m.open, q)
	return q, nil
}

// Wait blocks until p, which Move gave, is reached, or ctx ends; where a driver gave the
// point its queue waits, which may know sooner.
func (m *Mover) Wait(ctx context.Context, p mem.Point) error {
	if q := m.queueOf(p.Line); q != nil {
		return q.Wait(ctx, p, devices.Park)
	}
	return p.Wait(ctx)
}

// Owns reports whether points on a timeline are the mover's.
func (m *Mover) Owns(line *mem.Timeline) bool { return line == m.line || m.queueOf(line) != nil }

// queueOf is the hidden queue of which Move gives points out, by its timeline; nil where it is
// none's.
func (m *Mover) queueOf(line *mem.Timeline) devices.Queue { return m.queues[line] }

// Lazy are the queues whose Flush makes sure that all accepted copies will start without further calls.
func (m *Mover) Lazy() []devices.Queue { return m.lazy }

// Lost reports whether a memory's device takes no commands any more.
func (m *Mover) Lost(id mem.MemoryID) bool {
	_, err := m.mems[id].in.Submit(&devices.Command{Op: devices.OpMarker}, nil)
	return errors.Is(err, mem.ErrDeviceLost)
}

// Move accepts a transfer, to start once its waits are reached, and sets its points.
// A Data wait that fails fails all of them, a leg that fails those that depend on it.
// Where Move itself fails, the points of destinations that were not accepted are
// zero, and the others go on. It fails with mem.ErrInvalidOperation where the way is
// none between the two memories, with mem.ErrInvalidValue on a transfer that makes no
// sense, with ErrLinkLost where it goes over a link that is there no more, with
// mem.ErrClosed, and as Submit does.
func (m *Mover) Move(t *Transfer) error {
	clear(t.Points)
	for i := range t.To {
		if slices.ContainsFunc(t.To[:i], func(e End) bool { return e.Memory == t.To[i].Memory && t.To[i].Bytes == nil }) {
			return fmt.Errorf("transfer to %s twice: each destination is named once: %w", m.mems[t.To[i].Memory].Name, mem.ErrInvalidValue)
		}
	}
	if t.Size == 0 || len(t.To) == 0 || len(t.Points) != len(t.To) || t.Late != nil && len(t.To) != 1 {
		return fmt.Errorf("transfer of %d bytes to %d destinations with room for %d points: %w", t.Size, len(t.To), len(t.Points), mem.ErrInvalidValue)
	}
	if t.For != nil && t.Late == nil && t.Hand == nil && t.Way != mem.Same {
		return m.yield(t)
	}
	for i := range t.Waits {
		m.Raise(t.Waits[i].Point)
	}
	switch t.Way {
	case mem.Direct:
		return m.direct(t)
	case mem.Ring:
		return m.ring(t)
	case mem.Linked, mem.Windows:
		return m.linked(t)
	}
	return fmt.Errorf("transfer by way %v: there is nothing to move: %w", t.Way, mem.ErrInvalidOperation)
}

func (m *Mover) count(f func(*Stats)) {
	m.mu.Lock()
	f(&m.stats)
	m.mu.Unlock()
}

// Stats returns a consistent copy of the figures.
func (m *Mover) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// Abort has all transfers that have not begun fail with cause, once their waits are
// reached, and those under way as soon as a leg of theirs that had not begun was to. Of
// several causes the first counts. It does not block.
func (m *Mover) Abort(cause error) {
	m.mu.Lock()
	if m.abort == nil {
		m.abort = cause
	}
	m.mu.Unlock()
	for i := range m.mems {
		for _, q := range m.mems[i].all {
			q.Abort(cause)
		}
	}
}

// aborted is why no transfer begins any more.
func (m *Mover) aborted() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.abort
}

// Close refuses further transfers, waits for those under way, closes the hidden queues and
// gives staging back. Gated transfers end when the points they wait for do. In virtual time
// it fails with devices.ErrStuck where nothing under way ends those; it may then be called
// again.
func (m *Mover) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return m.errClosed()
	}
	m.closed = true
	m.links.stop()
	for m.stats.Flying > 0 || m.pumping {
		if err := m.landed.Wait(); err != nil {
			m.closed = false
			m.mu.Unlock()
			return fmt.Errorf("mover %s: %w", m.opts.Name, err)
		}
	}
	m.mu.Unlock()
	m.beside.Wait()
	err := m.closeQueues()
	if errors.Is(err, devices.ErrStuck) {
		m.mu.Lock()
		m.closed = false
		m.mu.Unlock()
		return fmt.Errorf("mover %s: %w", m.opts.Name, err)
	}
	m.lanes.close()
	return errors.Join(err, m.closeStaging())
}

func (m *Mover) errClosed() error { return fmt.Errorf("mover %s: %w", m.opts.Name, mem.ErrClosed) }

// closeQueues closes the hidden queues. Those that are stuck stay open.
func (m *Mover) closeQueues() error {
	var errs []error
	var stuck []devices.Queue
	for _, q := range m.open {
		err := q.Close()
		if errors.Is(err, devices.ErrStuck) {
			stuck = append(stuck, q)
		}
		errs = append(errs, err)
	}
	m.open = stuck
	return errors.Join(errs...)
}

// Check tests the mover's invariants: staging is what the figures say and within
// the budget, and nothing starves while nothing is under way.
func (m *Mover) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.checkStaging()
	if err == nil && m.stats.Flying == 0 && len(m.starved) != 0 {
		err = fmt.Errorf("nothing under way, but %d transfers starve", len(m.starved))
	}
	some := func(n int) bool { return n != 0 }
	if ys := &m.yields; err == nil && m.stats.Flying == 0 && (len(ys.all) > 0 || slices.ContainsFunc(ys.in, some) || slices.ContainsFunc(ys.out, some)) {
		err = fmt.Errorf("nothing under way, but %d transfers that give way, with pieces %v out and %v in", len(ys.all), ys.out, ys.in)
	}
	if err != nil {
		return fmt.Errorf("mover %s: %w", m.opts.Name, err)
	}
	return nil
}
