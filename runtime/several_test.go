package runtime_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

// TestOneMigrationToSeveralDevicesReadsTheSourceOnce: each chunk goes into staging once,
// and from there to all of them.
func TestOneMigrationToSeveralDevicesReadsTheSourceOnce(t *testing.T) {
	ctx := context.Background()
	var devs []devices.Device
	var s devicetest.Submits
	for range 4 {
		d, err := tce.New(tce.Options{Memory: 4 << 20})
		require.NoError(t, err)
		devs = append(devs, devicetest.FailNth(d, &s))
	}
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	q, err := c.NewQueue(devs[0], runtime.QueueOptions{})
	require.NoError(t, err)
	b, err := c.CreateBuffer(1<<20, 0, nil)
	require.NoError(t, err)
	to := []mem.MemoryID{2, 3, 4}

	// Every submit fails in turn: what has been accepted stays good, the rest is as it was.
	for n := 1; ; n++ {
		e, err := q.EnqueueFill(ctx, b, []byte{byte(n)}, 0, b.Size())
		require.NoError(t, err)
		require.NoError(t, e.Wait(ctx))
		require.NoError(t, e.Release())
		before := c.MoverStats()
		s.Fail(n)
		e, err = q.EnqueueMigrateTo(ctx, []*runtime.Buffer{b}, to)
		if err == nil {
			_ = e.Wait(ctx) // its copies may have failed; reads say what there is
			require.NoError(t, e.Release())
		}
		done := s.Count() < n
		s.Fail(0)
		if done {
			after := c.MoverStats()
			require.EqualValues(t, 1, after.Rings-before.Rings)
			chunks := (after.Legs - before.Legs) / 4
			require.Positive(t, chunks)
			require.EqualValues(t, 4*chunks, after.Legs-before.Legs, "each chunk is read once and written three times")
		}
		for i := range devs {
			qi, err := c.NewQueue(devs[i], runtime.QueueOptions{})
			require.NoError(t, err)
			got := make([]byte, b.Size())
			e, err := qi.EnqueueRead(ctx, b, 0, got)
			require.NoError(t, err)
			require.NoError(t, e.Wait(ctx))
			require.NoError(t, e.Release())
			require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(n)}, len(got)), got), "submit %d, device %d", n, i)
			require.NoError(t, qi.Close())
		}
		require.NoError(t, c.Check())
		if done {
			break
		}
	}

	for _, bad := range [][]mem.MemoryID{nil, {5}, {2, 2}} {
		_, err = q.EnqueueMigrateTo(ctx, []*runtime.Buffer{b}, bad)
		require.ErrorIs(t, err, mem.ErrInvalidValue)
	}
	_, err = q.EnqueueMigrateTo(ctx, nil, to)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.NoError(t, b.Release())
}
