package mover_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/mover"
	"godwit/devices/soft"
	"godwit/devices/storage"
	"godwit/devices/tce"
	"godwit/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("the test says so")

var ctx = context.Background()

// bus makes a discrete device of a simulated one: pageable memory of the process is to
// be staged, and its queues take batches together with those of its family.
type bus struct {
	devices.Device
	pinned *lockable
	family *family
}

// family is what the devices of one driver share, and how it carries batches out.
type family struct {
	native  bool         // gates are the driver's: a batch asks for staging at once
	noLocks atomic.Bool  // there is no page-locked memory
	batches atomic.Int64 // taken

	mu   sync.Mutex
	held map[devices.Batch]chan struct{} // protected by mu: those that Stage had nothing for
}

// lockable is host memory that says that it is page-locked.
type lockable struct {
	*storage.Host
	family *family
}

func (lockable) Locking() devices.Locking { return devices.Locking{} }

func (l lockable) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if l.family.noLocks.Load() {
		return mem.Exhausted, nil
	}
	return l.Host.AllocAll(reqs, out, reuse)
}

func newBus(d devices.Device, f *family) *bus {
	return &bus{d, &lockable{storage.NewHost("pinned", 0), f}, f}
}

func (b *bus) PinnedMemory(int) (devices.PinnedMemory, error) { return b.pinned, nil }
func (b *bus) NUMANode() int                                  { return devices.NodeAny }
func (b *bus) Locked(uint64, uint64) bool                     { return !b.family.noLocks.Load() }

func (b *bus) HostLink(bool) mem.Link {
	l := mem.DirectLink(0, 10e9)
	l.Ring = mem.Path{There: true, Bandwidth: 40e9}
	return l
}

func (b *bus) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := b.Device.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return &busQueue{Queue: q, dev: b}, nil
}

func (b *bus) Close() error { return errors.Join(b.pinned.Close(), b.Device.Close()) }

type busQueue struct {
	devices.Queue
	dev *bus
	mu  sync.Mutex // held over Submit: batches come from goroutines
}

// Submit unwraps the ends of a command.
func (q *busQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	c := *cmd
	for _, l := range []*devices.Loc{&c.Dst, &c.Src} {
		if b, ok := l.Device.(*bus); ok {
			l.Device = b.Device
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.Queue.Submit(&c, waits)
}

// Start refuses bytes that are not page-locked, as OpenCL does.
func (q *busQueue) Start(dst, src devices.Loc, size uint64) (devices.Ticket, error) {
	if q.dev.family.noLocks.Load() {
		return 0, mem.ErrInvalidValue
	}
	p, err := q.Submit(&devices.Command{Op: devices.OpCopy, Dst: dst, Src: src, Size: size}, nil)
	if err != nil {
		return 0, err
	}
	return devices.Ticket(p.Seq), nil
}

func (q *busQueue) Finish(t devices.Ticket) error {
	return mem.Point{Line: q.Timeline(), Seq: uint64(t)}.Wait(ctx)
}

func (q *busQueue) Joins(other devices.Queue) bool {
	o, ok := other.(*busQueue)
	return ok && o.dev.family == q.dev.family
}

// SubmitBatch carries a batch out in a goroutine, plainly: what every driver must come
// to, without its speed.
func (q *busQueue) SubmitBatch(b devices.Batch, to []devices.Queue, waits []mem.Wait, points []mem.Point) error {
	f := q.dev.family
	f.batches.Add(1)
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
	if f.native {
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
		carryOut(legs, errs)
	}()
	return nil
}

func awaitAll(waits []mem.Wait) error {
	var first error
	for _, w := range waits {
		if err := w.Point.Wait(ctx); err != nil && w.Kind == mem.Data && first == nil {
			first = devices.Dependency(w.Point, err)
		}
	}
	return first
}

// stage waits until there is staging.
func (f *family) stage(b devices.Batch) []devices.Leg {
	go_ := make(chan struct{}, 1)
	f.mu.Lock()
	f.held[b] = go_
	f.mu.Unlock()
	for {
		if legs, ok := b.Stage(false); ok {
			f.mu.Lock()
			delete(f.held, b)
			f.mu.Unlock()
			return legs
		}
		<-go_
	}
}

func (q *busQueue) Resume(b devices.Batch) {
	f := q.dev.family
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
			failed[i] = points[i].Wait(ctx)
		}
		if l.To >= 0 && errs[l.To] == nil {
			errs[l.To] = failed[i]
		}
	}
}

// fabric is some memories with a block each, and a mover between them.
type fabric struct {
	t       testing.TB
	m       *mover.Mover
	family  *family
	devs    []devices.Device // as the mover has them
	ends    []mover.End
	queues  []devices.Queue // for tests; no submit of theirs is counted
	submits devicetest.Submits

	mu    sync.Mutex
	fails []mem.Point // protected by mu: told to OnFail
}

const blockSize = 300_000

// newFabric opens memories by kind: "host", "cpu" memory that the process reaches, "tce",
// and "bus", a tce device behind a bus.
func newFabric(t testing.TB, o mover.Options, kinds ...string) *fabric {
	f := &fabric{t: t, family: &family{held: make(map[devices.Batch]chan struct{})}}
	o.OnFail = func(p mem.Point, _ error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fails = append(f.fails, p)
	}
	for i, kind := range kinds {
		var d devices.Device
		if kind == "host" {
			d = soft.NewHost(soft.HostOptions{})
		} else {
			x, err := tce.New(tce.Options{Name: fmt.Sprint(kind, i), Memory: 2 << 20})
			require.NoError(t, err)
			d = x
		}
		plain := d
		if kind != "host" {
			d = devicetest.FailNth(d, &f.submits)
		}
		if kind == "bus" {
			d = newBus(d, f.family)
		}
		t.Cleanup(func() {
			require.NoError(t, d.Memory().Check())
			require.NoError(t, d.Close())
		})
		q, err := plain.NewQueue(devices.QueueOptions{Name: "test"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, q.Close()) })
		f.devs, f.queues = append(f.devs, d), append(f.queues, q)
		f.ends = append(f.ends, mover.End{Memory: mem.MemoryID(i), Block: alloc(t, d, blockSize)})
		o.Memories = append(o.Memories, mover.Memory{Device: d, Name: d.Info().Name})
	}
	m, err := mover.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, m.Check())
		require.NoError(t, m.Close())
	})
	f.m = m
	return f
}

func alloc(t testing.TB, d devices.Device, size uint64) mem.Block {
	out := make([]mem.Block, 1)
	got, err := d.Memory().AllocAll([]mem.Request{{Size: size}}, out, nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, got)
	t.Cleanup(func() { require.NoError(t, d.Memory().FreeAfter(out[0], nil)) })
	return out[0]
}

// ring moves size bytes from one memory to others, once waits are reached.
func (f *fabric) ring(from int, to []int, size uint64, waits ...mem.Wait) ([]mem.Point, error) {
	t := mover.Transfer{Way: mem.Ring, From: f.ends[from], Size: size, Waits: waits, Points: make([]mem.Point, len(to))}
	for _, i := range to {
		t.To = append(t.To, f.ends[i])
	}
	err := f.m.Move(&t)
	return t.Points, err
}

// loc is the test's view of a memory's block.
func (f *fabric) loc(i int) devices.Loc {
	d := f.devs[i]
	if b, ok := d.(*bus); ok {
		d = b.Device
	}
	return devices.Loc{Device: devicetest.Unwrap(d), Block: f.ends[i].Block}
}

func (f *fabric) write(i int, b []byte) {
	f.copy(i, &devices.Command{Op: devices.OpCopy, Size: uint64(len(b)), Dst: f.loc(i), Src: devices.Loc{Bytes: b}})
}

func (f *fabric) read(i int) []byte {
	b := make([]byte, blockSize)
	f.copy(i, &devices.Command{Op: devices.OpCopy, Size: blockSize, Src: f.loc(i), Dst: devices.Loc{Bytes: b}})
	return b
}

func (f *fabric) copy(i int, cmd *devices.Command) {
	p, err := f.queues[i].Submit(cmd, nil)
	require.NoError(f.t, err)
	require.NoError(f.t, p.Wait(ctx))
}

func pattern(seed byte) []byte {
	b := make([]byte, blockSize)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}
