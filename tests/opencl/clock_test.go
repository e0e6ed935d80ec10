//go:build cgo

package opencl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/runtime"
)

// TestTimesOfOpenCLDevicesAreOnTheHostsAxis copies from device to device, an OpenCL one or not: each copy begins after
// the one before it has ended, all between two moments of the host's, within the errors that are stated.
func TestTimesOfOpenCLDevicesAreOnTheHostsAxis(t *testing.T) {
	need(t)
	devs, err := devices.Open(t.Context(), "opencl", devices.Config{Params: map[string]string{"count": "2"}})
	require.NoError(t, err)
	simulated, err := cpu.New(cpu.Options{})
	require.NoError(t, err)
	devs = append(devs, simulated)
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	var queues []*runtime.Queue
	for _, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{Profiling: true})
		require.NoError(t, err)
		queues = append(queues, q)
	}
	b, err := c.CreateBuffer(1<<20, 0, nil)
	require.NoError(t, err)
	for range 10 {
		before := uint64(c.Now())
		var events []runtime.Event
		for i := range 6 {
			e, err := queues[i%len(queues)].EnqueueFill(t.Context(), b, []byte{byte(i)}, 0, 1<<20, events...)
			require.NoError(t, err)
			events = append(events, e)
		}
		require.NoError(t, runtime.WaitAll(t.Context(), events...))
		after := uint64(c.Now())
		last, off := before, uint64(0)
		for i, e := range events {
			times, err := e.Times()
			require.NoError(t, err)
			require.LessOrEqual(t, last, times.Started+times.Error+off, "command %d", i)
			require.LessOrEqual(t, times.Started, times.Ended)
			require.LessOrEqual(t, times.Ended, after+times.Error)
			last, off = times.Ended, times.Error
			own, err := e.DeviceTimes()
			require.NoError(t, err)
			took := int64(times.Ended-times.Started) - int64(own.Ended-own.Started)
			require.LessOrEqual(t, max(took, -took), int64(2*times.Error), "as long by either clock")
			require.NoError(t, e.Release())
		}
	}
	require.NoError(t, b.Release())
	require.NoError(t, c.Close(t.Context()))
}
