package opencl_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/runtime"
)

// What leaves a device behind a bus is kept in page-locked memory, as far as that may be:
// it moves without staging, and counts.
func TestMoreDataThanADevicesMemoryBehindABus(t *testing.T) {
	bg := context.Background()
	for _, locked := range []uint64{0, 8 << 20} {
		devs, err := devices.Open(bg, "opencl", devices.Config{Memory: 16 << 20, Params: map[string]string{"bus": "on", "carve": "on", "slab": "8388608", "count": "1"}})
		if err != nil {
			t.Skipf("no OpenCL here: %v", err)
		}
		ctx, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true, LockedBacks: locked})
		require.NoError(t, err)
		q, err := ctx.NewQueue(devs[0], runtime.QueueOptions{OutOfOrder: true})
		require.NoError(t, err)
		const size = 2 << 20
		var all []*runtime.Buffer
		for i := range 16 {
			b, err := ctx.CreateBuffer(size, 0, nil)
			require.NoError(t, err)
			all = append(all, b)
			_, err = q.EnqueueFill(bg, b, []byte{byte(i)}, 0, size)
			require.NoError(t, err)
		}
		for range 2 {
			for i, b := range all {
				_, err := q.EnqueueFill(bg, b, []byte{byte(i + 100)}, 5, 1000)
				require.NoError(t, err)
			}
		}
		require.NoError(t, ctx.Check())
		st := ctx.MoverStats()
		require.Positive(t, st.Direct)
		if locked == 0 { // 16 GiB
			require.Zero(t, st.Rings)
		}
		for i, b := range all {
			got, want := make([]byte, size), bytes.Repeat([]byte{byte(i)}, size)
			copy(want[5:], bytes.Repeat([]byte{byte(i + 100)}, 1000))
			e, err := q.EnqueueRead(bg, b, 0, got)
			require.NoError(t, err)
			require.NoError(t, e.Wait(bg))
			require.True(t, bytes.Equal(want, got), "buffer %d", i)
			require.NoError(t, b.Release())
		}
		require.NoError(t, ctx.Check())
		require.Positive(t, ctx.Stats().BytesWrittenBack)
		require.NoError(t, ctx.Close(bg))
	}
}
