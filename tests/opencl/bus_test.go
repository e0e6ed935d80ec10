package opencl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/runtime"
)

// Devices that count as across a bus hand content around through staging, and user memory
// goes there in the same way.
func TestContentGoesRoundDevicesAcrossABus(t *testing.T) {
	bg := context.Background()
	devs, err := devices.Open(bg, "opencl", devices.Config{Params: map[string]string{"bus": "on"}})
	if errors.Is(err, opencl.ErrMissing) {
		t.Skipf("no OpenCL here: %v", err)
	}
	require.NoError(t, err)
	if len(devs) < 2 {
		for _, d := range devs {
			require.NoError(t, d.Close())
		}
		t.Skip("one OpenCL device here")
	}
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	var qs []*runtime.Queue
	for _, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		qs = append(qs, q)
	}
	const n = 24<<20 + 4
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 31 >> 3)
	}
	b, err := c.CreateBuffer(n, 0, nil)
	require.NoError(t, err)
	_, err = qs[0].EnqueueWrite(bg, b, 0, data)
	require.NoError(t, err)
	for i := range 20 {
		_, err = qs[(i+1)%2].EnqueueFill(bg, b, []byte{byte(i), 1, 2, 3}, uint64(i*4), 4)
		require.NoError(t, err)
		copy(data[i*4:], []byte{byte(i), 1, 2, 3})
	}
	got := make([]byte, n)
	e, err := qs[0].EnqueueRead(bg, b, 0, got)
	require.NoError(t, err)
	require.NoError(t, e.Wait(bg))
	require.Equal(t, data, got)
	require.NoError(t, b.Release())
	require.NoError(t, c.Close(bg))
}
