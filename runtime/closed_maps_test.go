package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	_ "godwit/devices/cpu"
	"godwit/mem"
	"godwit/runtime"
)

// What is still mapped ends with its context: what is done with it afterwards is an error.
func TestMapsEndWithTheirContext(t *testing.T) {
	devs, err := devices.Open(t.Context(), "cpu", devices.Config{})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	q, err := c.NewQueue(devs[0], runtime.QueueOptions{})
	require.NoError(t, err)
	b, err := c.CreateBuffer(64, 0, make([]byte, 64))
	require.NoError(t, err)
	released, err := c.CreateBuffer(64, 0, make([]byte, 64))
	require.NoError(t, err)
	p, err := c.SVMAlloc(4096, 0, 0)
	require.NoError(t, err)
	m, err := q.Map(t.Context(), b, 0, 64, runtime.MapRead)
	require.NoError(t, err)
	_, err = q.Map(t.Context(), released, 0, 64, runtime.MapWrite)
	require.NoError(t, err)
	require.NoError(t, released.Release())
	_, _, err = q.SVMMap(t.Context(), p, 4096, runtime.MapWrite)
	require.NoError(t, err)
	err = c.Close(t.Context())
	require.ErrorIs(t, err, runtime.ErrLeak)
	require.ErrorContains(t, err, "3 buffers", "the released one too, which its map kept")
	require.NoError(t, c.Check())
	require.Error(t, c.SVMFree(p))
	require.Error(t, m.Abandon())
	require.ErrorIs(t, b.Release(), mem.ErrInvalidBuffer)
}
