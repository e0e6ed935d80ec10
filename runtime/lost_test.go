package runtime_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/devicetest"
	"godwit/mem"
	"godwit/runtime"
)

func TestWhatALostDeviceHeldBesideAnotherComesFromThere(t *testing.T) {
	for at := range 4 {
		devs, lose := devicetest.Losable(windowedDevices(t, 4))
		h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
		const size = 70_000
		content := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, size) }
		var shared, own []*runtime.Buffer
		for i := range devs {
			shared, own = append(shared, h.buffer(size, nil)), append(own, h.buffer(size, nil))
			h.filled(i, shared[i], byte(i+1))
			h.filled(i, own[i], byte(i+1))
			h.done(h.ok(h.q[(i+1)%4].EnqueueMigrate(soon(t), shared[i:i+1], 0)))
		}
		lose(at)
		for i := range devs {
			for k := range devs {
				if k == at {
					_, err := h.q[k].EnqueueFill(soon(t), shared[i], []byte{9}, 0, 1)
					require.ErrorIs(t, err, mem.ErrDeviceLost)
					continue
				}
				require.True(t, bytes.Equal(content(i), h.migrated(shared[i], k)), "of %d, at %d", i, k)
				if i != at {
					require.True(t, bytes.Equal(content(i), h.migrated(own[i], k)), "of %d, at %d", i, k)
					continue
				}
				_, err := h.q[k].EnqueueMigrate(soon(t), own[i:i+1], 0)
				require.ErrorIs(t, err, mem.ErrDeviceLost)
			}
		}
		h.filled((at+1)%4, own[at], 7) // new content has nothing to do with it
		require.True(t, bytes.Equal(bytes.Repeat([]byte{7}, size), h.migrated(own[at], (at+2)%4)))
		require.NoError(t, h.c.Check())
	}
}
