package runtime_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/devices/tce"
	"godwit/lib/kernels"
	"godwit/mem"
	"godwit/runtime"
)

// ranged is a context whose buffers are stored by range, over n devices of so many bytes.
func ranged(t testing.TB, o runtime.Options, n int, size uint64) *house {
	for i := range n {
		var d devices.Device
		var err error
		if d, err = cpu.New(cpu.Options{Memory: size}); i%2 == 1 {
			d, err = tce.New(tce.Options{Memory: size})
		}
		require.NoError(t, err)
		o.Devices = append(o.Devices, d)
	}
	if o.WholeBelow == 0 {
		o.WholeBelow = 1
	}
	return build(t, o, runtime.QueueOptions{OutOfOrder: true})
}

// part is a sub-buffer, released at the end.
func (h *house) part(b *runtime.Buffer, off, size uint64) *runtime.Buffer {
	h.t.Helper()
	s := must(b.Sub(off, size, 0))
	h.t.Cleanup(func() {
		if !h.closed {
			require.NoError(h.t, s.Release())
		}
	})
	return s
}

func (h *house) flood(q *runtime.Queue, b *runtime.Buffer, v byte, wait ...runtime.Event) {
	h.t.Helper()
	h.ended(h.ok(q.EnqueueFill(soon(h.t), b, []byte{v}, 0, b.Size(), wait...)))
}

func (h *house) has(q *runtime.Queue, b *runtime.Buffer, v byte) {
	h.t.Helper()
	got := make([]byte, b.Size())
	h.ended(h.ok(q.EnqueueRead(soon(h.t), b, 0, got)))
	require.Equal(h.t, bytes.Repeat([]byte{v}, int(b.Size())), got)
}

// Quarters of a buffer of 1 MiB on four devices of half of that, with what the options
// are by themselves.
func TestAQuarterOfABufferNeedsRoomForAQuarter(t *testing.T) {
	const size, n = 1 << 20, 4
	h := ranged(t, runtime.Options{WholeBelow: 256 << 10}, n, size/2)
	b := h.buffer(size, nil)
	for i := range n {
		h.flood(h.q[i], h.part(b, uint64(i)*size/n, size/n), byte(i+1))
	}
	for i := range n {
		h.has(h.q[i], h.part(b, uint64(i)*size/n, size/n), byte(i+1))
		f := h.c.Footprint(mem.MemoryID(i + 1))
		require.EqualValues(t, size/n, f.Peak)
		require.EqualValues(t, size, f.WholePeak)
		require.EqualValues(t, size/n, h.c.Resource(mem.MemoryID(i+1)).Stats().PeakLive)
	}
	require.NoError(t, h.c.Check())
	_, err := h.q[0].EnqueueFill(soon(t), b, []byte{9}, 0, size)
	require.ErrorIs(t, err, mem.ErrNoMemory, "all of it at once")
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
}

// What is stored whole is refused as ever.
func TestABufferThatIsStoredWholeNeedsRoomForAllOfIt(t *testing.T) {
	d := must(cpu.New(cpu.Options{Memory: 1 << 20}))
	h := build(t, runtime.Options{Devices: []devices.Device{d}, WholeBelow: math.MaxUint64}, runtime.QueueOptions{})
	_, err := h.c.CreateBuffer(2<<20, 0, nil)
	require.ErrorIs(t, err, mem.ErrInvalidSize)
}

// A trace says which buffers are stored in no parts, and a launch may want all of a buffer.
func TestWhatIsStoredWholeIsSaid(t *testing.T) {
	h := ranged(t, runtime.Options{WholeBelow: 4096}, 1, 1<<16)
	b := h.create(4096, runtime.UseHostPtr, make([]byte, 4096))
	parts, small := h.buffer(4096, nil), h.buffer(512, nil)
	var whole []bool
	for _, r := range h.rec.Buffers() {
		whole = append(whole, r.Whole)
	}
	require.Equal(t, []bool{true, false, false}, whole)

	p := must(h.c.Build(soon(t), kernels.Program()))
	k := must(p.Kernel("fill"))
	for _, arg := range []runtime.Arg{runtime.Out(parts).Range(0, 512), runtime.Out(parts).Range(0, 512).Whole()} {
		h.ended(h.ok(h.q[0].EnqueueLaunch(soon(t), runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{arg, runtime.Float32(1), runtime.Uint64(128)}})))
	}
	all := h.rec.Commands()
	require.EqualValues(t, 512, all[len(all)-2].Blocks[0].Bytes)
	require.EqualValues(t, 4096, all[len(all)-1].Blocks[0].Bytes)
	for _, b := range []*runtime.Buffer{b, parts, small} {
		require.NoError(t, b.Release())
	}
}

var errRefusedCopy = errors.New("refused copy")

// A working set of which old and new do not fit at once: what the old blocks hold is
// written back first.
func TestAWindowThatDoesNotFitBesideTheOldOne(t *testing.T) {
	h := ranged(t, runtime.Options{}, 1, 40<<10)
	b := h.buffer(256<<10, nil)
	const w = 32 << 10
	for i := range 7 {
		h.flood(h.q[0], h.part(b, uint64(i)*w/2, w), byte(i+1))
		require.NoError(t, h.c.Check())
	}
	for i := range 6 {
		h.has(h.q[0], h.part(b, uint64(i)*w/2, w/2), byte(i+1))
	}
	require.LessOrEqual(t, h.c.Resource(1).Stats().PeakLive, uint64(40<<10))
	require.Greater(t, h.c.Stats().BytesWrittenBack, uint64(0))
}

// A window that slides over 1 GiB in steps of its half, with several commands in each
// place.
func TestASlidingWindowDoesNotGrowToTheWhole(t *testing.T) {
	const size, w = 1 << 30, 16 << 20
	h := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}}, runtime.QueueOptions{})
	b := h.buffer(size, nil)
	for off := uint64(0); off+w <= size; off += w / 2 {
		s := must(b.Sub(off, w, 0))
		for range 3 {
			_ = must(h.q[0].EnqueueFill(soon(t), s, []byte{1}, 0, w))
		}
		require.NoError(t, s.Release())
	}
	f := h.c.Footprint(1)
	require.LessOrEqual(t, f.Peak, uint64(w*5/2))
	require.EqualValues(t, size, f.WholePeak)
	require.NoError(t, h.c.Check())
}

func TestAnExchangeForAQueueOfLowPriorityDoesNotGiveWay(t *testing.T) {
	const size = 16 << 20
	h := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}}, runtime.QueueOptions{})
	low := h.queue(h.devs[0], runtime.QueueOptions{Priority: devices.PriorityLow})
	b := h.buffer(size, nil)
	for i := range uint64(6) {
		_ = must(low.EnqueueFill(soon(t), h.part(b, i%3*size/4, size/2), []byte{1}, 0, size/2))
	}
	require.EqualValues(t, 1, h.c.Stats().Regrows)
	require.Zero(t, h.c.MoverStats().Yielded)
}

// Halves that overlap, used in turn, are the whole buffer after one exchange: nothing is
// written back, and nothing exchanged again.
func TestLargeWindowsUsedInTurnAreExchangedOnce(t *testing.T) {
	const size = 16 << 20
	h := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}}, runtime.QueueOptions{})
	b := h.buffer(size, nil)
	for i := range uint64(6) {
		_ = must(h.q[0].EnqueueFill(soon(t), h.part(b, i%3*size/4, size/2), []byte{1}, 0, size/2))
	}
	require.EqualValues(t, 1, h.c.Stats().Regrows)
	require.Zero(t, h.c.Stats().BytesWrittenBack)
	require.EqualValues(t, size, h.c.Footprint(1).Now)
}

// Two halves side by side become one block when the second comes, where there is room for
// both blocks: a window that lies in both exchanges nothing then, and no more is stored.
func TestHalvesSideBySideAreOneBlock(t *testing.T) {
	for room, regrows := range map[uint64]uint64{64 << 10: 0, 96 << 10: 1} {
		h := ranged(t, runtime.Options{}, 1, room)
		b := h.buffer(64<<10, nil)
		for i := range uint64(2) {
			h.flood(h.q[0], h.part(b, i*32<<10, 32<<10), byte(i+1))
		}
		require.EqualValues(t, regrows, h.c.Stats().Regrows, "%d bytes of room", room)
		require.EqualValues(t, 64<<10, h.c.Footprint(1).Now)
		require.Zero(t, h.c.Stats().Evictions)
		require.NoError(t, h.c.Check())
		if regrows > 0 {
			h.flood(h.q[0], h.part(b, 16<<10, 32<<10), 3)
			require.EqualValues(t, 1, h.c.Stats().Regrows)
		}
		h.has(h.q[0], h.part(b, 0, 16<<10), 1)
		h.has(h.q[0], h.part(b, 48<<10, 16<<10), 2)
	}
}

// Nothing leaves so that a large window may be the whole buffer.
func TestALargeWindowIsNoMoreThanThereIsRoomFor(t *testing.T) {
	h := ranged(t, runtime.Options{}, 1, 96<<10)
	b, other := h.buffer(64<<10, nil), h.buffer(8<<10, nil)
	h.flood(h.q[0], other, 9)
	for i := range uint64(2) {
		h.flood(h.q[0], h.part(b, i*8<<10, 32<<10), byte(i+1))
	}
	require.EqualValues(t, 48<<10, h.c.Footprint(1).Now, "8 of the other buffer, 40 of 64 of this")
	require.Zero(t, h.c.Stats().Evictions)
	require.NoError(t, h.c.Check())
}
