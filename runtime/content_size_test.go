package runtime_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

// count is what a size buffer holds.
func count(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }

// mixed is a cpu device, two tce devices and the host's memory as a device.
func mixed(t testing.TB) []devices.Device {
	c := must(cpu.New(cpu.Options{Workers: 1}))
	devs := []devices.Device{c}
	for i := range 2 {
		d := must(tce.New(tce.Options{Name: fmt.Sprint("tce", i), Memory: 8 << 20}))
		devs = append(devs, d)
	}
	return append(devs, memories(1)...)
}

// counted makes a buffer of 4096 bytes and its size buffer.
func (h *house) counted() (b, size *runtime.Buffer) {
	b, size = h.buffer(4096, nil), h.buffer(64, nil)
	require.NoError(h.t, b.SetContentSizeBuffer(size))
	return b, size
}

// mixedHouse is a context over mixed devices, with a buffer and its size buffer.
func mixedHouse(t testing.TB) (h *house, b, size *runtime.Buffer) {
	h = build(t, runtime.Options{Devices: mixed(t)}, runtime.QueueOptions{OutOfOrder: true})
	b, size = h.counted()
	return h, b, size
}

// fill is a fill of a whole buffer.
func (h *house) fill(q int, b *runtime.Buffer, v byte, wait ...runtime.Event) runtime.Event {
	h.t.Helper()
	return h.ok(h.q[q].EnqueueFill(soon(h.t), b, []byte{v}, 0, b.Size(), wait...))
}

// setCount writes a size buffer.
func (h *house) setCount(q int, size *runtime.Buffer, n uint64, wait ...runtime.Event) runtime.Event {
	h.t.Helper()
	return h.ok(h.q[q].EnqueueWrite(soon(h.t), size, 0, count(n), wait...))
}

// seen is what a read of all of a buffer gives.
func (h *house) seen(q int, b *runtime.Buffer) []byte {
	h.t.Helper()
	got := make([]byte, b.Size())
	require.NoError(h.t, h.ok(h.q[q].EnqueueRead(soon(h.t), b, 0, got)).Wait(soon(h.t)))
	return got
}

// moved is how many bytes were moved since the last call.
func (h *house) moved(last *uint64) uint64 {
	now := h.c.Stats().BytesMoved
	n := now - *last
	*last = now
	return n
}

func TestOnlyTheBytesThatCountAreMoved(t *testing.T) {
	for _, noPeer := range []bool{false, true} {
		h := build(t, runtime.Options{Devices: mixed(t), NoPeer: noPeer}, runtime.QueueOptions{OutOfOrder: true})
		var last uint64
		for from := range h.q {
			for to := range h.q {
				if from == to {
					continue
				}
				b, size := h.counted()
				h.fill(from, b, 7)
				for _, turn := range []struct{ count, moved uint64 }{
					{100, 100}, {100, 0}, {1000, 900}, {10, 0}, {1 << 40, 3096}, {0, 0},
				} {
					h.setCount(from, size, turn.count)
					got := h.seen(to, b)[:min(turn.count, 4096)]
					require.Equal(t, bytes.Repeat([]byte{7}, len(got)), got)
					require.Equal(t, 8+turn.moved, h.moved(&last), "%d bytes count, from %d to %d", turn.count, from, to)
				}
				require.NoError(t, h.c.Check())
			}
		}
		require.Eventually(t, func() bool { return h.c.Stats().BytesMoved == h.rec.BytesMoved() }, time.Second, time.Millisecond, "the trace tells the same")
	}
}

func TestEnqueueingDoesNotWaitForTheCount(t *testing.T) {
	h, b, size := mixedHouse(t)
	h.fill(0, b, 1)
	gate := h.gate()
	h.setCount(1, size, 64, gate)
	got := make([]byte, 4096)
	read := h.ok(h.q[2].EnqueueRead(soon(t), b, 0, got))
	h.setCount(0, size, 1<<20) // of no concern to the read before it
	other := h.seen(3, h.buffer(16, bytes.Repeat([]byte{3}, 16)))
	require.Equal(t, bytes.Repeat([]byte{3}, 16), other, "nothing else waits")
	h.held(read)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, read.Wait(soon(t)))
	require.Equal(t, bytes.Repeat([]byte{1}, 64), got[:64])
	require.Equal(t, uint64(8+64+16), h.c.Stats().BytesMoved)
}

func TestSizeBuffersMayBeReleasedFirst(t *testing.T) {
	h := build(t, runtime.Options{Devices: mixed(t)}, runtime.QueueOptions{})
	b, size := h.counted()
	h.fill(0, b, 2)
	h.setCount(0, size, 8)
	require.NoError(t, size.Release())
	require.NoError(t, h.c.Check())
	require.Equal(t, []byte{2, 2, 2, 2, 2, 2, 2, 2}, h.seen(1, b)[:8])
	require.Equal(t, uint64(16), h.c.Stats().BytesMoved)
	require.Equal(t, 2, h.c.Stats().Buffers)
	require.NoError(t, b.Release())
	require.Zero(t, h.c.Stats().Buffers, "the size buffer went with it")

	b, size = h.counted()
	require.NoError(t, size.Release())
	require.NoError(t, b.SetContentSizeBuffer(nil))
	require.Equal(t, 1, h.c.Stats().Buffers)
	h.fill(0, b, 2)
	require.Equal(t, bytes.Repeat([]byte{2}, 4096), h.seen(1, b))
	b2, size2 := h.counted()
	require.NoError(t, b.SetContentSizeBuffer(size2), "one size buffer for two")
	other := h.buffer(8, nil)
	require.NoError(t, b2.SetContentSizeBuffer(other), "another one")
	require.NoError(t, h.c.Check())
}

func TestALeakOfWhatIsCountedNamesNoSizeBuffer(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	b := must(h.c.CreateNamedBuffer("data", 64, 0, nil))
	size := must(h.c.CreateNamedBuffer("size", 64, 0, nil))
	require.NoError(t, b.SetContentSizeBuffer(size))
	require.NoError(t, size.Release())
	h.closed = true
	err := h.c.Close(soon(t))
	require.ErrorIs(t, err, runtime.ErrLeak)
	require.ErrorContains(t, err, "data (64 bytes)")
	require.NotContains(t, err.Error(), "size (64 bytes)")
}

func TestSizeBuffersThatAreRefused(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	foreign := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{}).buffer(8, nil)
	b, size := h.counted()
	sub := must(b.Sub(0, 128, 0))
	defer func() { require.NoError(t, sub.Release()) }()
	gone := h.buffer(8, nil)
	require.NoError(t, gone.Release())
	p := must(h.c.SVMAlloc(4096, 0, 0))
	defer func() { require.NoError(t, h.c.SVMFree(p)) }()
	view := must(h.c.SVMBytes(p, 4096))
	shared := h.create(4096, runtime.UseHostPtr, view)
	defer func() { require.NoError(t, shared.Release()) }()
	plain := h.buffer(64, nil)
	for _, bad := range []struct {
		name    string
		b, size *runtime.Buffer
		want    error
	}{
		{"no buffer", nil, size, mem.ErrInvalidBuffer},
		{"not made", plain, &runtime.Buffer{}, mem.ErrInvalidBuffer},
		{"released", gone, size, mem.ErrInvalidBuffer},
		{"by a released one", plain, gone, mem.ErrInvalidBuffer},
		{"a sub-buffer", sub, size, mem.ErrInvalidBuffer},
		{"by a sub-buffer", plain, sub, mem.ErrInvalidBuffer},
		{"of another context", plain, foreign, mem.ErrInvalidContext},
		{"too small", plain, h.buffer(7, nil), mem.ErrInvalidSize},
		{"itself", plain, plain, mem.ErrInvalidValue},
		{"a cycle", size, b, mem.ErrInvalidValue},
		{"a chain", plain, b, mem.ErrInvalidValue},
		{"a chain from its other end", size, plain, mem.ErrInvalidValue},
		{"shared virtual memory", shared, size, mem.ErrInvalidOperation},
		{"by shared virtual memory", plain, shared, mem.ErrInvalidOperation},
	} {
		require.ErrorIs(t, bad.b.SetContentSizeBuffer(bad.size), bad.want, bad.name)
		require.NoError(t, h.c.Check(), bad.name)
	}
}

// While the host writes the count, nobody knows it: all bytes come, and no step
// brings the old count over the new one.
func TestACountDoesNotComeOverWhatTheHostHasMapped(t *testing.T) {
	for _, flags := range []runtime.MapFlags{runtime.MapInvalidate, runtime.MapWrite} {
		h := build(t, runtime.Options{Devices: mixed(t)}, runtime.QueueOptions{})
		ctx := soon(t)
		b, size := h.counted()
		h.fill(1, b, 4)
		h.done(h.setCount(1, size, 9))
		require.Equal(t, bytes.Repeat([]byte{4}, 9), h.seen(2, b)[:9])
		var last uint64
		h.moved(&last)
		m := must(h.q[1].Map(ctx, size, 0, 8, flags))
		copy(m.Bytes(), count(21))
		require.Zero(t, h.moved(&last), "the count was on the host")
		h.done(h.ok(h.q[1].EnqueueFill(ctx, size, []byte{0}, 16, 8))) // of no concern
		require.Equal(t, bytes.Repeat([]byte{4}, 4096), h.seen(3, b))
		require.Equal(t, uint64(4096), h.moved(&last), "all of it, from who has all of it")
		require.Equal(t, count(21), m.Bytes(), "the host's bytes are as it wrote them")
		require.NoError(t, h.c.Check())
		h.ok(h.q[1].EnqueueUnmap(ctx, m))
		require.Equal(t, bytes.Repeat([]byte{4}, 21), h.seen(2, b)[:21])
		require.Equal(t, uint64(12), h.moved(&last), "9 bytes are there")

		h.done(h.setCount(1, size, 30)) // so that the host's is old
		m = must(h.q[1].Map(ctx, size, 0, 8, runtime.MapInvalidate))
		copy(m.Bytes(), count(4096))
		h.done(h.ok(h.q[2].EnqueueMigrate(ctx, []*runtime.Buffer{b}, 0)))
		require.Equal(t, uint64(4096-21), h.moved(&last))
		require.Equal(t, count(4096), m.Bytes(), "the host's bytes are as it wrote them")
		h.done(h.ok(h.q[1].EnqueueUnmap(ctx, m)))
		require.NoError(t, h.c.Check())
	}
}
