package mover_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/engine"
	"godwit/devices/tce"
	"godwit/internal/mover"
	"godwit/mem"
)

// near is a device whose queues take batches, and which is not behind a bus.
type near struct {
	devices.Device
	bus *devicetest.Bus
}

// NewQueue implements devices.Device.
func (d *near) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.bus.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return &nearQueue{q.(devices.Batcher)}, nil // a busQueue is one
}

type nearQueue struct{ devices.Batcher }

func (q *nearQueue) Joins(o devices.Queue) bool {
	x, ok := o.(*nearQueue)
	return ok && q.Batcher.Joins(x.Batcher)
}

func (q *nearQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	c := *cmd
	for _, l := range []*devices.Loc{&c.Dst, &c.Src} {
		if d, ok := l.Device.(*near); ok {
			l.Device = d.bus
		}
	}
	return q.Batcher.Submit(&c, waits)
}

// TestABatchIsNeverWithoutStaging: the points of a batch are its driver's, so the mover
// can fail none. With no more host memory to be had, and other rings that want the budget,
// batches between devices that share the host's staging are carried out all the same.
func TestABatchIsNeverWithoutStaging(t *testing.T) {
	family := &devicetest.Family{}
	o := mover.Options{Budget: 256 << 10}
	devs := []devices.Device{engine.NewHost(engine.HostOptions{})}
	for i := range 3 {
		d, err := tce.New(tce.Options{Name: fmt.Sprint("near", i), Memory: 2 << 20})
		require.NoError(t, err)
		if bus := devicetest.NewBus(d, family); i < 2 {
			devs = append(devs, &near{bus, bus})
		} else {
			devs = append(devs, devicetest.NewBus(d, &devicetest.Family{})) // of no family: its staging comes and goes
		}
	}
	var ends []mover.End
	for i, d := range devs {
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		ends = append(ends, mover.End{Memory: mem.MemoryID(i), Block: alloc(t, d, blockSize)})
		o.Memories = append(o.Memories, mover.Memory{Device: d, Name: d.Info().Name})
	}
	m, err := mover.Open(o)
	require.NoError(t, err)
	ring := func(from int, to ...int) (points []mem.Point) {
		x := mover.Transfer{Way: mem.Ring, From: ends[from], Size: blockSize, Points: make([]mem.Point, len(to))}
		for _, i := range to {
			x.To = append(x.To, ends[i])
		}
		require.NoError(t, m.Move(&x))
		return x.Points
	}
	giveBack := m.LoseHostMemory()
	var all []mem.Point
	for range 8 {
		all = append(all, ring(1, 2)...)
		all = append(all, ring(3, 0)...)
	}
	for _, p := range all {
		require.NoError(t, p.Wait(ctx))
	}
	require.EqualValues(t, 8, family.Batches.Load())
	require.NoError(t, m.Check())
	giveBack()
	require.NoError(t, m.Close())
}
