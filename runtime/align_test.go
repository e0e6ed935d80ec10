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
		d, err := tce.New(tce.Options{Name: fmt.Sprint("w", i), Memory: 1 << 20, DMAWord: 8})
		require.NoError(t, err)
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

// The rows of a rectangle come as ranges do, in whole words where that does no harm.
// The rectangle itself, and a fill, touch exactly their bytes.
func TestRowsComeInWholeWordsAndCommandsTouchTheirBytesOnly(t *testing.T) {
	devs, own := wordy(t, 2)
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	ctx := soon(t)
	b, to := h.buffer(64, nil), h.buffer(64, nil)
	h.fill(0, b, 7)
	h.fill(1, to, 1)
	rows := runtime.Box{Origin: [3]uint64{3}, Row: 24} // [3,13), [27,37), [51,61)
	h.done(h.ok(h.q[1].EnqueueCopyRect(ctx, b, to, rows, rows, [3]uint64{10, 3, 1})))
	require.Equal(t, uint64(30), h.c.Stats().BytesMoved)
	require.Equal(t, uint64(18), h.c.Stats().RideAlong, "3 bytes before and 3 after each row")
	require.Equal(t, tce.Transfers{Words: 6}, own[1].Transfers(), "the copies go in whole words")
	h.done(h.ok(h.q[1].EnqueueFill(ctx, b, []byte{9}, 5, 2)))
	require.Equal(t, tce.Transfers{Words: 6}, own[1].Transfers())
	require.Equal(t, uint64(18), h.c.Stats().RideAlong)

	want, filled := bytes.Repeat([]byte{1}, 64), bytes.Repeat([]byte{7}, 64)
	for _, at := range []int{3, 27, 51} {
		copy(want[at:], bytes.Repeat([]byte{7}, 10))
	}
	copy(filled[5:], []byte{9, 9})
	require.Equal(t, want, h.seen(1, to))
	require.Equal(t, filled, h.seen(1, b))
}

func TestWhatTheHostHasMappedIsNotCopiedOver(t *testing.T) {
	for _, flags := range []runtime.MapFlags{runtime.MapWrite, runtime.MapInvalidate} {
		notCopiedOver(t, flags)
	}
}

func notCopiedOver(t *testing.T, flags runtime.MapFlags) {
	devs, _ := wordy(t, 1)
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{OutOfOrder: true})
	ctx := soon(t)
	b := h.buffer(64, nil)
	h.fill(0, b, 1)
	m, mapped, err := h.q[0].EnqueueMap(ctx, b, 11, 10, flags)
	require.NoError(t, err)
	require.NoError(t, mapped.Wait(ctx))
	copy(m.Bytes(), bytes.Repeat([]byte{2}, 10)) // [11,21), which nobody is told of yet
	h.ok(h.q[0].EnqueueFill(ctx, b, []byte{3}, 22, 5))
	other, ready, err := h.q[0].EnqueueMap(ctx, b, 21, 6, runtime.MapRead) // brings [21,27), or words of it
	require.NoError(t, err)
	require.NoError(t, ready.Wait(ctx))
	require.Equal(t, []byte{1, 3, 3, 3, 3, 3}, other.Bytes())
	require.Equal(t, bytes.Repeat([]byte{2}, 10), m.Bytes())
	h.ok(h.q[0].EnqueueUnmap(ctx, other))
	h.ok(h.q[0].EnqueueUnmap(ctx, m))
	want := bytes.Repeat([]byte{1}, 64)
	copy(want[11:21], bytes.Repeat([]byte{2}, 10))
	copy(want[22:27], []byte{3, 3, 3, 3, 3})
	require.Equal(t, want, h.seen(0, b))
}

// The bytes beside those that a failed command was to write are nobody's loss (C9).
func TestWhatRidesAlongDoesNotInheritAFailure(t *testing.T) {
	devs, _ := wordy(t, 2)
	h := build(t, runtime.Options{Devices: devs}, outOfOrder)
	ctx, gate := soon(t), h.gate()
	b, dst := h.buffer(64, nil), h.buffer(4, []byte{9, 9, 9, 9})
	h.done(h.fill(0, b, 1))
	h.ok(h.q[0].EnqueueFill(ctx, b, []byte{2}, 0, 12, gate)) // fails: [0,12) is lost, and nothing else
	bad := h.ok(h.q[1].EnqueueRead(ctx, b, 0, make([]byte, 12)))
	beside := h.ok(h.q[1].EnqueueCopy(ctx, b, dst, 12, 0, 4))
	require.NoError(t, gate.SetStatus(-77))
	require.ErrorIs(t, bad.Wait(ctx), mem.ErrDependency)
	h.done(beside)
	require.Equal(t, []byte{1, 1, 1, 1}, h.seen(0, dst))
	require.NoError(t, h.c.Check())
}
