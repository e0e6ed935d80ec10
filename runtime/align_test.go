package runtime_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

// wordy makes devices whose copies go in words of 8 bytes.
func wordy(t testing.TB, n int) ([]devices.Device, []*tce.Device) {
	var devs []devices.Device
	var own []*tce.Device
	for i := range n {
		d := must(tce.New(tce.Options{Name: fmt.Sprint("w", i), Memory: 1 << 20, DMAWord: 8}))
		devs, own = append(devs, d), append(own, d)
	}
	return devs, own
}

func TestUnalignedEndsAreWidenedAndElseSplitByTheDevice(t *testing.T) {
	devs, own := wordy(t, 2)
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	require.Equal(t, uint64(8), h.c.Topology().Link(1, 2).Align)
	require.Equal(t, uint64(8), h.c.Topology().Link(mem.Host, 2).Align)
	ctx := soon(t)
	b := h.buffer(64, nil)
	want := bytes.Repeat([]byte{7}, 64)
	h.fill(0, b, 7)
	require.NoError(t, h.q[0].Finish(ctx))

	migrate := func(q int, off, size uint64) tce.Transfers { // of the device at the destination
		before, got := own[q].Transfers(), make([]byte, size)
		require.NoError(t, h.ok(h.q[q].EnqueueRead(ctx, b, off, got)).Wait(ctx))
		require.Equal(t, want[off:off+size], got)
		after := own[q].Transfers()
		return tce.Transfers{Words: after.Words - before.Words, Bytes: after.Bytes - before.Bytes}
	}
	in := migrate(1, 3, 40)
	require.Equal(t, uint64(40), h.c.Stats().BytesMoved)
	require.Equal(t, uint64(8), h.c.Stats().RideAlong, "3 bytes before and 5 after")
	out := migrate(1, 3, 40) // the read alone: nothing has to come
	require.Equal(t, tce.Transfers{Words: 6, Bytes: 0}, tce.Transfers{Words: in.Words - out.Words, Bytes: in.Bytes - out.Bytes}, "the copy goes in whole words")

	// Newer bytes beside those that come: the device has to split the copy.
	h.ok(h.q[0].EnqueueFill(ctx, b, []byte{8}, 8, 13))
	copy(want[8:21], bytes.Repeat([]byte{8}, 13))
	h.ok(h.q[1].EnqueueFill(ctx, b, []byte{9}, 21, 2))
	copy(want[21:23], []byte{9, 9})
	in = migrate(1, 8, 13)
	out = migrate(1, 8, 13)
	require.Equal(t, tce.Transfers{Words: 1, Bytes: 5}, tce.Transfers{Words: in.Words - out.Words, Bytes: in.Bytes - out.Bytes})
	require.Equal(t, uint64(8), h.c.Stats().RideAlong, "nothing came along")
	require.Equal(t, want, h.seen(1, b), "what is newer there is as it was")
}
