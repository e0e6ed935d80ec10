package devicetest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// Bus makes a discrete device of a simulated one, for tests of what only those have:
// pageable memory of the process goes by carriers and lanes, whatever its size, and the
// queues take batches, and single copies of threads. All methods are safe for use from
// many goroutines.
type Bus struct {
	devices.Device
	pinned *lockable
	family *Family
}

// Family is what the devices of one driver share, and how it carries batches out.
// Rings between them go in batches.
type Family struct {
	Eager   bool          // batches ask for staging again and again by themselves; set before use
	Resumed func()        // not nil: is called by Resume; set before use
	Native  bool          // gates are the driver's: a batch asks for staging at once; set before use
	NoLocks atomic.Bool   // there is no page-locked memory
	OnLock  func()        // not nil: called where page-locked memory is asked for; set before use
	Pinned  func(int64)   // not nil: told of the bytes of page-locked memory that come or, below zero, go; set before use
	Batches atomic.Int64  // taken
	Hold    chan struct{} // not nil: batches that have their staging wait until it is closed; set before use

	mu   sync.Mutex
	held map[devices.Batch]chan struct{} // protected by mu: those that Stage had nothing for
}

// NewBus puts d behind a bus, whose Close closes it.
func NewBus(d devices.Device, f *Family) *Bus {
	return &Bus{d, &lockable{Host: storage.NewHost("pinned", 0), family: f, blocks: make(map[mem.Block]mem.Range)}, f}
}

// lockable is host memory that counts as page-locked.
type lockable struct {
	*storage.Host
	family *Family

	mu     sync.Mutex
	blocks map[mem.Block]mem.Range // protected by mu: their addresses
}

// Locking implements devices.PinnedMemory.
func (*lockable) Locking() devices.Locking { return devices.Locking{} }

// AllocAll implements mem.Resource.
func (l *lockable) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if l.family.OnLock != nil {
		l.family.OnLock()
	}
	if l.family.NoLocks.Load() {
		return mem.Exhausted, nil
	}
	o, err := l.Host.AllocAll(reqs, out, reuse)
	if err != nil || o != mem.Ready {
		return o, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, b := range out {
		if bytes, err := l.View(b, 0, reqs[i].Size); err == nil {
			at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(bytes))))
			l.blocks[b] = mem.Range{Start: at, End: at + reqs[i].Size}
			l.pinned(int64(reqs[i].Size))
		}
	}
	return o, nil
}

func (l *lockable) pinned(bytes int64) {
	if l.family.Pinned != nil {
		l.family.Pinned(bytes)
	}
}

// FreeAfter implements mem.Resource.
func (l *lockable) FreeAfter(b mem.Block, after []mem.Point) error {
	l.mu.Lock()
	l.pinned(-int64(l.blocks[b].Size()))
	delete(l.blocks, b)
	l.mu.Unlock()
	return l.Host.FreeAfter(b, after)
}

// holds reports whether a range of addresses is of this memory.
func (l *lockable) holds(r mem.Range) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range l.blocks {
		if have.Contains(r) {
			return true
		}
	}
	return false
}

// PinnedMemory implements devices.PageLocker.
func (b *Bus) PinnedMemory(int) (devices.PinnedMemory, error) { return b.pinned, nil }

// NUMANode implements devices.PageLocker.
func (b *Bus) NUMANode() int { return devices.NodeAny }

// Locked implements devices.PageLocker.
func (b *Bus) Locked(addr, size uint64) bool {
	return !b.family.NoLocks.Load() && b.pinned.holds(mem.Range{Start: addr, End: addr + size})
}

// HostLink implements devices.PageLocker.
func (b *Bus) HostLink(bool) mem.Link {
	l := mem.DirectLink(0, 10e9)
	l.Ring = mem.Path{There: true, Bandwidth: 40e9}
	return l
}

// Link implements devices.Device: what the device itself reaches is behind the bus.
func (b *Bus) Link(_, _ devices.Device) mem.Link { return mem.Link{} }

// NewQueue implements devices.Device.
func (b *Bus) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := b.Device.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return &busQueue{Queue: q, dev: b}, nil
}

// Close implements devices.Device.
func (b *Bus) Close() error { return errors.Join(b.pinned.Close(), b.Device.Close()) }

type busQueue struct {
	devices.Queue
	dev *Bus
	mu  sync.Mutex // held over Submit: batches come from goroutines
}

var (
	_ devices.PageLocker = (*Bus)(nil)
	_ devices.Batcher    = (*busQueue)(nil)
	_ devices.Shuttle    = (*busQueue)(nil)
)

// Submit unwraps the devices that a command names.
func (q *busQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	c := *cmd
	c.Dst.Device, c.Src.Device = inside(c.Dst.Device), inside(c.Src.Device)
	if c.Op == devices.OpLaunch {
		c.Args = append([]devices.Arg(nil), c.Args...)
		for i := range c.Args {
			c.Args[i].Device = inside(c.Args[i].Device)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.Queue.Submit(&c, waits)
}

// inside is the device in a Bus.
func inside(d devices.Device) devices.Device {
	if b, ok := d.(*Bus); ok {
		return b.Device
	}
	return d
}

// Start implements devices.Shuttle. It refuses bytes that are not page-locked, as
// OpenCL does.
func (q *busQueue) Start(dst, src devices.Loc, size uint64) (devices.Ticket, error) {
	if q.dev.family.NoLocks.Load() {
		return 0, mem.ErrInvalidValue
	}
	p, err := q.Submit(&devices.Command{Op: devices.OpCopy, Dst: dst, Src: src, Size: size}, nil)
	if err != nil {
		return 0, err
	}
	return devices.Ticket(p.Seq), nil
}

// Finish implements devices.Shuttle.
func (q *busQueue) Finish(t devices.Ticket) error {
	return mem.Point{Line: q.Timeline(), Seq: uint64(t)}.Wait(context.Background())
}

// Joins implements devices.Batcher.
func (q *busQueue) Joins(other devices.Queue) bool {
	o, ok := other.(*busQueue)
	return ok && o.dev.family == q.dev.family
}

// SubmitBatch carries a batch out in a goroutine, plainly: what every driver must come
// to, without its speed. The goroutine ends with the batch.
func (q *busQueue) SubmitBatch(b devices.Batch, to []devices.Queue, waits []mem.Wait, points []mem.Point) error {
	f := q.dev.family
	f.Batches.Add(1)
	own, errs := mem.NewTimeline("batch", false, nil), make([]error, len(to))
	landed := own.Next()
	for i, dst := range to {
		var err error
		cmd := devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { return errs[i] }}
		if points[i], err = dst.Submit(&cmd, []mem.Wait{{Point: landed}}); err != nil {
			panic(err) // only what the tests make fail
		}
	}
	var legs []devices.Leg
	staged := false
	if f.Native {
		legs, staged = b.Stage(true)
	}
	waits = append([]mem.Wait(nil), waits...)
	go func() {
		defer own.End(landed, nil)
		defer b.Ended()
		if err := awaitAll(waits); err != nil {
			for i := range errs {
				errs[i] = err
			}
			return
		}
		if !staged {
			legs = f.stage(b)
		}
		if f.Hold != nil {
			<-f.Hold
		}
		carryOut(legs, errs)
	}()
	return nil
}

func awaitAll(waits []mem.Wait) error {
	var first error
	for _, w := range waits {
		if err := w.Point.Wait(context.Background()); err != nil && w.Kind == mem.Data && first == nil {
			first = devices.Dependency(w.Point, err)
		}
	}
	return first
}

// stage waits until there is staging.
func (f *Family) stage(b devices.Batch) []devices.Leg {
	resumed := make(chan struct{}, 1)
	f.mu.Lock()
	if f.held == nil {
		f.held = make(map[devices.Batch]chan struct{})
	}
	f.held[b] = resumed
	f.mu.Unlock()
	for {
		if legs, ok := b.Stage(false); ok {
			f.mu.Lock()
			delete(f.held, b)
			f.mu.Unlock()
			return legs
		}
		if !f.Eager {
			<-resumed
		}
		runtime.Gosched()
	}
}

// Chunk implements devices.Batcher.
func (q *busQueue) Chunk(devices.Queue, uint64) uint64 { return 0 }

// Resume implements devices.Batcher.
func (q *busQueue) Resume(b devices.Batch) {
	f := q.dev.family
	if f.Resumed != nil {
		f.Resumed()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.held[b] <- struct{}{}:
	default:
	}
}

// carryOut submits legs, waits for them, and sets the first error of each destination.
func carryOut(legs []devices.Leg, errs []error) {
	points := make([]mem.Point, len(legs))
	failed := make([]error, len(legs))
	for i, l := range legs {
		var waits []mem.Wait
		if l.Data >= 0 {
			if failed[l.Data] != nil {
				failed[i] = failed[l.Data]
				continue
			}
			waits = append(waits, mem.Wait{Point: points[l.Data], Kind: mem.Data})
		}
		for _, j := range l.After {
			if int(j) >= i {
				panic("a leg comes after one that follows it")
			}
			if failed[j] == nil {
				waits = append(waits, mem.Wait{Point: points[j]})
			}
		}
		cmd := devices.Command{Op: devices.OpCopy, Dst: l.Dst, Src: l.Src, Size: l.Size}
		points[i], failed[i] = l.Queue.Submit(&cmd, waits)
	}
	for i, l := range legs {
		if failed[i] == nil {
			failed[i] = points[i].Wait(context.Background())
		}
		if l.To >= 0 && errs[l.To] == nil {
			errs[l.To] = failed[i]
		}
	}
}
