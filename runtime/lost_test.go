package runtime_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
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

// TestWhatALostDeviceHeldGivesWayFromElsewhere once a piece of one copy has found it out.
func TestWhatALostDeviceHeldGivesWayFromElsewhere(t *testing.T) {
	for at := range 2 {
		givesWayFromElsewhere(t, at)
	}
}

func givesWayFromElsewhere(t *testing.T, at int) {
	devs, lose := devicetest.Losable(windowedDevices(t, 3))
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	low := h.queue(devs[2], runtime.QueueOptions{Priority: devices.PriorityLow})
	const size = 70_000
	var bufs []*runtime.Buffer
	for i := range 8 {
		b := h.buffer(size, nil)
		bufs = append(bufs, b)
		h.filled(0, b, byte(i))
		h.done(h.ok(h.q[1].EnqueueMigrate(soon(t), []*runtime.Buffer{b}, 0)))
	}
	lose(at)
	failed := 0
	for _, b := range bufs {
		e, err := low.EnqueueMigrate(soon(t), []*runtime.Buffer{b}, 0)
		require.NoError(t, err)
		if err := e.Wait(soon(t)); err != nil {
			require.ErrorIs(t, err, mem.ErrDeviceLost)
			failed++
		}
		require.NoError(t, e.Release())
	}
	require.LessOrEqual(t, failed, 1)
	h.q[2] = low
	for i, b := range bufs {
		require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(i)}, size), h.migrated(b, 2)))
	}
	require.NoError(t, h.c.Check())
}
