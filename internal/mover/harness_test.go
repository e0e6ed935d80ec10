package mover_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/engine"
	"godwit/devices/tce"
	"godwit/internal/mover"
	"godwit/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("the test says so")

var ctx = context.Background()

// fabric is some memories with a block each, and a mover between them.
type fabric struct {
	t       testing.TB
	m       *mover.Mover
	family  *devicetest.Family
	other   *devicetest.Family // of kind "bus2"
	devs    []devices.Device   // as the mover has them
	ends    []mover.End
	queues  []devices.Queue // for tests; no submit of theirs is counted
	submits devicetest.Submits
	pinned  devicetest.Gauge // bytes that count as page-locked

	mu    sync.Mutex
	fails []mem.Point // protected by mu: told to OnFail
}

const blockSize = 300_000

// newFabric opens memories by kind: "host", "cpu" memory that the process reaches, "tce",
// "lazy", one whose queues begin with nothing before they are flushed, and "bus", a tce device behind a bus, "bus2" behind another one, and "lone" behind one of its own.
func newFabric(t testing.TB, o mover.Options, kinds ...string) *fabric {
	f := &fabric{t: t}
	family := func() *devicetest.Family { return &devicetest.Family{Pinned: f.pinned.Add} }
	f.family, f.other = family(), family()
	o.OnFail = func(p mem.Point, _ error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fails = append(f.fails, p)
	}
	for i, kind := range kinds {
		var d devices.Device
		if kind == "host" {
			d = engine.NewHost(engine.HostOptions{})
		} else {
			x, err := tce.New(tce.Options{Name: fmt.Sprint(kind, i), Memory: 2 << 20})
			require.NoError(t, err)
			d = x
		}
		plain := d
		if kind != "host" {
			d = devicetest.FailNth(d, &f.submits)
		}
		switch kind {
		case "lazy":
			d = lazy{d}
		case "bus":
			d = devicetest.NewBus(d, f.family)
		case "bus2":
			d = devicetest.NewBus(d, f.other)
		case "lone":
			d = devicetest.NewBus(d, family())
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

// lazy is a device whose queues keep commands until Flush.
type lazy struct{ devices.Device }

type lazyQueue struct {
	devices.Queue
	mu    sync.Mutex
	line  *mem.Timeline
	flush mem.Point // protected by mu: what is kept waits for it
}

func (d lazy) Unwrap() devices.Device { return devicetest.Unwrap(d.Device) }

func (d lazy) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	return &lazyQueue{Queue: q, line: mem.NewTimeline("flush", true, nil)}, err
}

func (q *lazyQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flush.IsZero() {
		q.flush = q.line.Next()
	}
	return q.Queue.Submit(cmd, append(slices.Clone(waits), mem.Wait{Point: q.flush, Kind: mem.Order}))
}

func (q *lazyQueue) Flush() error {
	q.mu.Lock()
	p := q.flush
	q.flush = mem.Point{}
	q.mu.Unlock()
	if !p.IsZero() {
		q.line.End(p, nil)
	}
	return q.Queue.Flush()
}

func (q *lazyQueue) Close() error { return errors.Join(q.Flush(), q.Queue.Close()) }

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
	if b, ok := d.(*devicetest.Bus); ok {
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
