package runtime_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/mem"
	"godwit/runtime"
)

// TestASweepOverTwiceTheMemoryOverlaps has a program sweep over twice a device's memory,
// changing each block, all enqueued before anything has run. Copies and commands overlap if
// no write-back waits for the command that was enqueued just before: else each block's way
// out begins when that ends, and the next one's way in after that.
func TestASweepOverTwiceTheMemoryOverlaps(t *testing.T) {
	const blocks, rounds = 32, 4
	d := must(cpu.New(cpu.Options{Memory: blocks * room}))
	hold := devicetest.NewHold(d)
	h := build(t, runtime.Options{Devices: []devices.Device{hold}}, runtime.QueueOptions{})
	var all []*runtime.Buffer
	for i := range 2 * blocks {
		all = append(all, h.buffer(room, slices.Repeat([]byte{byte(i)}, room)))
	}
	hold.Hold()
	for n := range rounds * len(all) {
		b := all[n%len(all)]
		e := h.ok(h.q[0].EnqueueFill(soon(t), b, []byte{byte(100 + n)}, 0, room/2))
		require.NoError(t, e.Release())
	}
	hold.Release()
	back, waits, evicted := 0, 0, 0
	var before mem.Point
	for n, c := range h.rec.Commands() {
		for _, e := range c.Evictions {
			evicted++
			if n < 2*len(all) { // it has not been seen to repeat itself
				continue
			}
			for _, s := range e.Backs {
				back++
				if slices.ContainsFunc(s.Waits, func(w mem.Wait) bool { return w.Point == before }) {
					waits++
				}
			}
		}
		before = c.Point
	}
	t.Logf("%d blocks left, %d were written back once the sweep was known, %d of these behind the command just enqueued", evicted, back, waits)
	require.Greater(t, back, blocks)
	require.Zero(t, waits)
	for i, b := range all {
		got := make([]byte, room)
		h.ended(h.ok(h.q[0].EnqueueRead(soon(t), b, 0, got)))
		require.Equal(t, byte(100+i+(rounds-1)*len(all)), got[0])
		require.Equal(t, byte(i), got[room-1])
		require.NoError(t, b.Release())
	}
}
