package runtime_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/null"
	"godwit/devices/tce"
	"godwit/eviction"
	"godwit/internal/resource"
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
	s, err := b.Sub(off, size, 0)
	require.NoError(h.t, err)
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
	var why *resource.OutOfMemory
	require.ErrorAs(t, err, &why)
}

// What is stored whole is refused as ever.
func TestABufferThatIsStoredWholeNeedsRoomForAllOfIt(t *testing.T) {
	d, err := cpu.New(cpu.Options{Memory: 1 << 20})
	require.NoError(t, err)
	h := build(t, runtime.Options{Devices: []devices.Device{d}, WholeBelow: math.MaxUint64}, runtime.QueueOptions{})
	_, err = h.c.CreateBuffer(2<<20, 0, nil)
	require.ErrorIs(t, err, mem.ErrInvalidSize)
}

// A trace says which buffers are stored in no parts, and a launch may want all of a buffer.
func TestWhatIsStoredWholeIsSaid(t *testing.T) {
	h := ranged(t, runtime.Options{WholeBelow: 1024}, 1, 1<<16)
	b, err := h.c.CreateBuffer(4096, runtime.UseHostPtr, make([]byte, 4096))
	require.NoError(t, err)
	parts, small := h.buffer(4096, nil), h.buffer(512, nil)
	var whole []bool
	for _, r := range h.rec.Buffers() {
		whole = append(whole, r.Whole)
	}
	require.Equal(t, []bool{true, false, false}, whole)

	p, err := h.c.Build(soon(t), kernels.Program())
	require.NoError(t, err)
	k, err := p.Kernel("fill")
	require.NoError(t, err)
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

func TestABlockThatGrowsKeepsItsBytes(t *testing.T) {
	h := ranged(t, runtime.Options{}, 2, 1<<20)
	for i, q := range h.q {
		b := h.buffer(64<<10, nil)
		left, right, both := h.part(b, 0, 16<<10), h.part(b, 16<<10, 8<<10), h.part(b, 0, 24<<10)
		h.flood(q, left, 1)
		h.flood(q, right, 2)
		before := h.c.Stats()
		got := make([]byte, both.Size())
		h.ended(h.ok(q.EnqueueRead(soon(t), both, 0, got)))
		require.Equal(t, append(bytes.Repeat([]byte{1}, 16<<10), bytes.Repeat([]byte{2}, 8<<10)...), got)
		st := h.c.Stats()
		require.EqualValues(t, 24<<10, st.BytesRegrown-before.BytesRegrown)
		require.EqualValues(t, 1, st.Regrows-before.Regrows)
		require.Equal(t, before.BytesMoved, st.BytesMoved, "within the device")
		require.NoError(t, h.c.Check())
		f := h.c.Footprint(mem.MemoryID(i + 1))
		require.EqualValues(t, 48<<10, f.Peak)
		require.EqualValues(t, 24<<10, f.Now)
	}
}

// A refused copy of a regrow, the n-th, leaves all as it was.
func TestACopyIntoANewBlockThatIsRefusedChangesNothing(t *testing.T) {
	for n := 1; n <= 3; n++ {
		var fail *refusing
		d, err := cpu.New(cpu.Options{Memory: 1 << 20})
		require.NoError(t, err)
		fail = &refusing{Device: d}
		h := build(t, runtime.Options{Devices: []devices.Device{fail}, WholeBelow: 1}, runtime.QueueOptions{})
		b := h.buffer(64<<10, nil)
		for i := range 3 {
			h.flood(h.q[0], h.part(b, uint64(i)*8<<10, 8<<10), byte(i+1))
		}
		live := h.c.Resource(1).Stats().Live
		all := h.part(b, 0, 24<<10)
		fail.after = n
		_, err = h.q[0].EnqueueFill(soon(t), all, []byte{9}, 0, 8)
		require.ErrorIs(t, err, errRefusedCopy)
		fail.after = 0
		require.NoError(t, h.q[0].Finish(soon(t)))
		require.Equal(t, live, h.c.Resource(1).Stats().Live, "the new block is free")
		require.NoError(t, h.c.Check())
		for i := range 3 {
			h.has(h.q[0], h.part(b, uint64(i)*8<<10, 8<<10), byte(i+1))
		}
		h.ended(h.ok(h.q[0].EnqueueFill(soon(t), all, []byte{9}, 0, 8)))
		h.has(h.q[0], h.part(b, 16<<10, 8<<10), 3)
	}
}

// What leaves beside a new block may be written back into storage that the command wants,
// too: that stays where the command is refused.
func TestWhatLeftForANewBlockStaysWhereTheCommandIsRefused(t *testing.T) {
	d, err := cpu.New(cpu.Options{Memory: 1 << 20})
	require.NoError(t, err)
	fail := &refusing{Device: d}
	h := build(t, runtime.Options{Devices: []devices.Device{fail}, WholeBelow: 1}, runtime.QueueOptions{})
	b := h.buffer(64<<10, nil)
	const part = 8 << 10
	h.flood(h.q[0], h.part(b, 0, 2*part), 1)
	h.flood(h.q[0], h.part(b, part, 2*part), 2) // keeps the first part beside it, in vain
	last := h.part(b, 2*part, 2*part)
	fail.after = 1
	_, err = h.q[0].EnqueueMigrateTo(soon(t), []*runtime.Buffer{last}, []mem.MemoryID{mem.Host, 1})
	require.ErrorIs(t, err, errRefusedCopy)
	require.NotZero(t, h.c.Stats().BytesWrittenBack)
	fail.after = 0
	require.NoError(t, h.c.Check())
	h.has(h.q[0], h.part(b, 0, part), 1)
	h.has(h.q[0], h.part(b, part, 2*part), 2)
}

var errRefusedCopy = errors.New("refused copy")

// refusing refuses the n-th copy within it.
type refusing struct {
	*cpu.Device
	after int
}

func (d *refusing) Unwrap() devices.Device { return d.Device }

func (d *refusing) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return devicetest.Tap(d.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if cmd.Op == devices.OpCopy && cmd.Src.Device != nil && cmd.Src.Device == cmd.Dst.Device && d.after > 0 {
			if d.after--; d.after == 0 {
				return mem.Point{}, errRefusedCopy
			}
		}
		return q.Submit(cmd, waits)
	})
}

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

// Parts of one buffer leave for each other.
func TestAPartLeavesForAnotherOfTheSameBuffer(t *testing.T) {
	for _, policy := range []eviction.Policy{nil, eviction.LRU{}} {
		h := ranged(t, runtime.Options{Policy: policy}, 2, 32<<10)
		b := h.buffer(256<<10, nil)
		for i := range 16 {
			h.flood(h.q[i%2], h.part(b, uint64(i)*16<<10, 16<<10), byte(i+1))
			require.NoError(t, h.c.Check())
		}
		for i := range 16 {
			h.has(h.q[0], h.part(b, uint64(i)*16<<10, 16<<10), byte(i+1))
		}
		for m := range 2 {
			require.LessOrEqual(t, h.c.Resource(mem.MemoryID(m+1)).Stats().PeakLive, uint64(32<<10))
		}
	}
}

// A window that slides over 1 GiB in steps of its half, with several commands in each
// place.
func TestASlidingWindowDoesNotGrowToTheWhole(t *testing.T) {
	const size, w = 1 << 30, 16 << 20
	h := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}}, runtime.QueueOptions{})
	b := h.buffer(size, nil)
	for off := uint64(0); off+w <= size; off += w / 2 {
		s, err := b.Sub(off, w, 0)
		require.NoError(t, err)
		for range 3 {
			_, err := h.q[0].EnqueueFill(soon(t), s, []byte{1}, 0, w)
			require.NoError(t, err)
		}
		require.NoError(t, s.Release())
	}
	f := h.c.Footprint(1)
	require.LessOrEqual(t, f.Peak, uint64(w*5/2))
	require.EqualValues(t, size, f.WholePeak)
	require.NoError(t, h.c.Check())
}

// Two windows that overlap, used in turn, are one block after the first turn.
func TestWindowsUsedInTurnStay(t *testing.T) {
	h := ranged(t, runtime.Options{}, 1, 1<<20)
	b := h.buffer(256<<10, nil)
	left, right := h.part(b, 0, 64<<10), h.part(b, 32<<10, 64<<10)
	for i := range 10 {
		h.flood(h.q[0], left, byte(i))
		h.flood(h.q[0], right, byte(i+100))
	}
	require.EqualValues(t, 1, h.c.Stats().Regrows)
	require.Zero(t, h.c.Stats().BytesWrittenBack)
	require.EqualValues(t, 96<<10, h.c.Footprint(1).Now)
}

// Halves that overlap, used in turn, are the whole buffer after one exchange: nothing is
// written back, and nothing exchanged again.
func TestLargeWindowsUsedInTurnAreExchangedOnce(t *testing.T) {
	const size = 16 << 20
	h := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}}, runtime.QueueOptions{})
	b := h.buffer(size, nil)
	for i := range uint64(6) {
		_, err := h.q[0].EnqueueFill(soon(t), h.part(b, i%3*size/4, size/2), []byte{1}, 0, size/2)
		require.NoError(t, err)
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

// 64 devices share a buffer of 1 GiB: each stores its own part.
func TestDevicesThatShareALargeBufferStoreTheirParts(t *testing.T) {
	const size, n = 1 << 30, 64
	o := runtime.Options{}
	for range n {
		o.Devices = append(o.Devices, null.New(devices.Config{Memory: size / n}))
	}
	h := build(t, o, runtime.QueueOptions{})
	b := h.buffer(size, nil)
	for round := range 2 {
		for i, q := range h.q {
			s, err := b.Sub(uint64(i)*size/n, size/n, 0)
			require.NoError(t, err)
			_, err = q.EnqueueFill(soon(t), s, []byte{byte(round)}, 0, size/n)
			require.NoError(t, err)
			require.NoError(t, s.Release())
			require.EqualValues(t, size/n, h.c.Footprint(mem.MemoryID(i+1)).Peak)
		}
	}
}

// Ranges of one root that lie far apart are two blocks of one command.
func TestACommandMayReachFarApartParts(t *testing.T) {
	h := ranged(t, runtime.Options{}, 1, 64<<10)
	b := h.buffer(1<<20, nil)
	near, far := h.part(b, 0, 16<<10), h.part(b, 1<<20-16<<10, 16<<10)
	h.flood(h.q[0], near, 7)
	h.ended(h.ok(h.q[0].EnqueueCopy(soon(t), near, far, 0, 0, 16<<10)))
	h.has(h.q[0], far, 7)
	require.EqualValues(t, 32<<10, h.c.Footprint(1).Peak)
}

// A buffer released while its bytes go to a new block.
func TestReleaseWhileABlockIsExchanged(t *testing.T) {
	h := ranged(t, runtime.Options{}, 1, 1<<20)
	gate, err := h.c.NewUserEvent()
	require.NoError(t, err)
	b, err := h.c.CreateBuffer(64<<10, 0, nil)
	require.NoError(t, err)
	left, err := b.Sub(0, 8<<10, 0)
	require.NoError(t, err)
	both, err := b.Sub(0, 16<<10, 0)
	require.NoError(t, err)
	first := h.ok(h.q[0].EnqueueFill(soon(t), left, []byte{1}, 0, 8<<10, gate))
	second := h.ok(h.q[0].EnqueueFill(soon(t), both, []byte{2}, 8<<10, 8<<10))
	require.NoError(t, errors.Join(left.Release(), both.Release(), b.Release()))
	require.NoError(t, h.c.Check())
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.ended(first)
	h.ended(second)
	require.NoError(t, gate.Release())
	require.NoError(t, h.q[0].Finish(soon(t)))
	require.Zero(t, h.c.Resource(1).Stats().Live)
}

// A part that came up to a count goes into a larger block as it is: with the next count, the
// rest of it comes.
func TestWhatABlockHoldsUpToACountGoesWithIt(t *testing.T) {
	h := ranged(t, runtime.Options{}, 2, 1<<20)
	b, size := h.buffer(16<<10, nil), h.buffer(64, nil)
	part := h.part(b, 0, 8<<10)
	h.flood(h.q[0], part, 1)
	h.flood(h.q[1], b, 2)
	h.ended(h.setCount(1, size, 1<<10))
	require.NoError(t, b.SetContentSizeBuffer(size))
	h.ended(h.ok(h.q[0].EnqueueMigrate(soon(t), []*runtime.Buffer{part}, 0)))
	before := h.c.Stats()
	h.ended(h.ok(h.q[0].EnqueueMigrate(soon(t), []*runtime.Buffer{b}, 0)))
	require.EqualValues(t, 1, h.c.Stats().Regrows-before.Regrows)
	h.ended(h.setCount(1, size, 4<<10))
	got := make([]byte, 4<<10)
	h.ended(h.ok(h.q[0].EnqueueRead(soon(t), b, 0, got)))
	require.Equal(t, bytes.Repeat([]byte{2}, 4<<10), got)
}

// The rows of a rectangle are accesses of their own, and need one block for all of them, also
// where it begins and ends with its buffer.
func TestARectangleHasOneBlockForAllItsRows(t *testing.T) {
	const row, pitch = 64, 192
	h := ranged(t, runtime.Options{}, 2, 64<<10)
	for _, rows := range []uint64{5, 6} { // of 6 the last ends with the buffer
		b := h.buffer((rows-1)*pitch+row+(6-rows)*row, nil)
		host := bytes.Repeat([]byte{7}, int(rows*row))
		h.flood(h.q[0], b, 1)
		h.ended(h.ok(h.q[1].EnqueueWriteRect(soon(t), b, runtime.Box{Row: pitch}, host, runtime.Box{}, [3]uint64{row, rows, 1})))
		want := bytes.Repeat([]byte{1}, int(b.Size()))
		for i := range rows {
			copy(want[i*pitch:], host[:row])
		}
		got := make([]byte, b.Size())
		h.ended(h.ok(h.q[1].EnqueueRead(soon(t), b, 0, got)))
		require.Equal(t, want, got)
	}
	require.NoError(t, h.c.Check())
}
