package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/engine"
	"godwit/mem"
	"godwit/runtime"
)

// drifting is a device with a clock of its own, minutes off and 50 ppm too fast.
type drifting struct {
	*cpu.Device
	off   uint64
	clock *engine.Clock
}

type driftingQueue struct {
	devices.Queue
	d *drifting
}

func (d *drifting) show(host uint64) uint64 { return host + host/20_000 + d.off }

func (d *drifting) read() (engine.Reading, bool) {
	r := engine.Reading{Before: devices.Now()}
	r.Device = d.show(devices.Now())
	r.After = devices.Now()
	return r, true
}

func (d *drifting) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	return &driftingQueue{q, d}, err
}

func (q *driftingQueue) Times(p mem.Point, by devices.Clock) (devices.Times, bool) {
	t, ok := q.Queue.Times(p, by)
	own := devices.Times{Queued: q.d.show(t.Queued), Submitted: q.d.show(t.Submitted), Started: q.d.show(t.Started), Ended: q.d.show(t.Ended)}
	if by == devices.HostClock && ok {
		return q.d.clock.On(own, devices.DeviceClock, true)
	}
	return own, ok
}

// TestTimesOfSeveralDevicesAreOnOneAxis has commands wait for each other around devices with clocks of their own: each
// begins after the one before it has ended, and the host sees them between its own two moments.
func TestTimesOfSeveralDevicesAreOnOneAxis(t *testing.T) {
	ctx := soon(t)
	var devs []devices.Device
	for i := range 3 {
		in := must(cpu.New(cpu.Options{}))
		if i == 2 { // it has none
			devs = append(devs, in)
			continue
		}
		d := &drifting{Device: in, off: uint64(1+i) * 7 * 60e9}
		d.clock = engine.NewClock(d.read)
		devs = append(devs, d)
	}
	c := must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true}))
	var queues []*runtime.Queue
	for _, d := range devs {
		q := must(c.NewQueue(d, runtime.QueueOptions{Profiling: true}))
		queues = append(queues, q)
	}
	for range 20 {
		before := uint64(c.Now())
		var events []runtime.Event
		for i := range 9 {
			e, err := queues[i%3].EnqueueHostCall(ctx, func(context.Context) error { return nil }, events...)
			require.NoError(t, err)
			events = append(events, e)
		}
		require.NoError(t, runtime.WaitAll(ctx, events...))
		after := uint64(c.Now())
		last, off := before, uint64(0)
		for i, e := range events {
			times, err := e.Times()
			require.NoError(t, err)
			require.LessOrEqual(t, last, times.Started+times.Error+off, "command %d", i)
			require.LessOrEqual(t, times.Started, times.Ended)
			require.LessOrEqual(t, times.Ended, after+times.Error)
			require.Equal(t, i%3 == 2, times.Error == 0)
			last, off = times.Ended, times.Error
			own, err := e.DeviceTimes()
			require.NoError(t, err)
			if i%3 < 2 {
				require.Greater(t, own.Started, uint64(7*60e9), "the device's own")
			}
			require.NoError(t, e.Release())
		}
	}
	require.NoError(t, c.Close(ctx))
}
