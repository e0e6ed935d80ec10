package driver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/runtime"
)

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t testing.TB) devices.Device {
		d, err := open("remote", 8<<20, time.Microsecond)
		require.NoError(t, err)
		return d
	})
}

// Two stores in a context, opened by name: a buffer goes to where it is used.
func TestABufferGoesFromStoreToStore(t *testing.T) {
	ctx := context.Background()
	var stores []devices.Device
	for _, name := range []string{"near", "far"} {
		d, err := devices.Open(ctx, "remote", devices.Config{Name: name, Params: map[string]string{"latency": "10us"}})
		require.NoError(t, err)
		stores = append(stores, d...)
	}
	c, err := runtime.NewContext(runtime.Options{Name: "example", Devices: stores, OwnDevices: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	near, err := c.NewQueue(stores[0], runtime.QueueOptions{})
	require.NoError(t, err)
	far, err := c.NewQueue(stores[1], runtime.QueueOptions{})
	require.NoError(t, err)
	b, err := c.CreateBuffer(4096, 0, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Release()) }()

	filled, err := near.EnqueueFill(ctx, b, []byte{7}, 0, 4096)
	require.NoError(t, err)
	got := make([]byte, 4096)
	read, err := far.EnqueueRead(ctx, b, 0, got, filled)
	require.NoError(t, err)
	require.NoError(t, read.Wait(ctx))
	require.EqualValues(t, 7, got[4095])
	require.EqualValues(t, 4096, c.Stats().BytesMoved, "from store to store, through the host")
	require.NoError(t, filled.Release())
	require.NoError(t, read.Release())
}

func TestADeviceHasANameWhereNoneIsGiven(t *testing.T) {
	ds, err := devices.Open(context.Background(), "remote", devices.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, ds[0].Close()) }()
	require.Equal(t, "remote", ds[0].Info().Name)
}

func TestUnknownParametersAreErrors(t *testing.T) {
	for _, params := range []map[string]string{{"latency": "soon"}, {"speed": "1"}} {
		_, err := devices.Open(context.Background(), "remote", devices.Config{Params: params})
		require.Error(t, err)
	}
}
