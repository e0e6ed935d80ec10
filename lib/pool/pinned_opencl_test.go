package pool_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/runtime"
)

// openCL is a context with an OpenCL device that counts as behind a bus.
func openCL(t *testing.T) (*runtime.Context, *runtime.Queue) {
	devs, err := devices.Open(bg, "opencl", devices.Config{Params: map[string]string{
		"count": "1", "bus": "on"}})
	if errors.Is(err, opencl.ErrMissing) {
		t.Skipf("no OpenCL here: %v", err)
	}
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	q, err := c.NewQueue(devs[0], runtime.QueueOptions{})
	require.NoError(t, err)
	return c, q
}

func TestOpenCLsPinnedMemoryIsBuffersAndNoneIsLeft(t *testing.T) {
	before, gone := opencl.Objects()
	c, q := openCL(t)
	p := pinnedPool(t, c, pool.PinnedOptions{Pinning: pool.PinAlways, Ceiling: 1 << 20})
	start, _ := opencl.Objects()
	var loans []pool.Handle
	for i := range 5 {
		h, err := p.Get(bg, q, 10_000<<i)
		require.NoError(t, err)
		loans = append(loans, h)
	}
	made, _ := opencl.Objects()
	require.EqualValues(t, 5, made.Buffers-start.Buffers, "a cl_mem for each")
	require.Equal(t, p.Held(), p.Locking().Locked)
	data, got := loans[0].Bytes(), loans[1].Bytes()
	for i := range data {
		data[i] = byte(i * 7)
	}
	b, err := c.CreateBuffer(uint64(len(data)), 0, nil)
	require.NoError(t, err)
	w, err := q.EnqueueWrite(bg, b, 0, data)
	require.NoError(t, err)
	r, err := q.EnqueueRead(bg, b, 0, got[:len(data)], w)
	require.NoError(t, err)
	require.NoError(t, r.Wait(bg))
	require.Equal(t, data, got[:len(data)])
	for _, e := range []runtime.Event{w, r} {
		require.NoError(t, e.Release())
	}
	require.NoError(t, b.Release())
	for _, h := range loans {
		require.NoError(t, p.PutAfter(h, q))
	}
	freed, err := p.Clear()
	require.NoError(t, err)
	require.NotZero(t, freed)
	require.Zero(t, p.Held())
	_, err = p.Get(bg, q, 1<<21)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.NoError(t, p.Check())
	require.NoError(t, p.Close())
	require.NoError(t, c.Close(bg))
	created, released := opencl.Objects()
	require.Equal(t, difference(created, before), difference(released, gone))
}

func difference(a, b opencl.Counts) opencl.Counts {
	return opencl.Counts{Contexts: a.Contexts - b.Contexts, Queues: a.Queues - b.Queues, Buffers: a.Buffers - b.Buffers,
		Programs: a.Programs - b.Programs, Kernels: a.Kernels - b.Kernels, Events: a.Events - b.Events}
}

func TestTwoGoroutinesStageThroughAnOpenCLDevice(t *testing.T) {
	c, q := openCL(t)
	other, err := c.NewQueue(mustDevice(t, c), runtime.QueueOptions{OutOfOrder: true})
	require.NoError(t, err)
	p := pinnedPool(t, c, pool.PinnedOptions{Pinning: pool.PinAlways, Ceiling: 1 << 16})
	hammerBoth(t, c, p, q, other)
	require.NoError(t, p.Close())
	require.NoError(t, c.Close(bg))
}

func mustDevice(t *testing.T, c *runtime.Context) devices.Device {
	d, err := c.Device(1)
	require.NoError(t, err)
	return d
}
