package virtual_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/virtual"
	"godwit/lib/kernels"
	"godwit/mem"
	"godwit/runtime"
)

// What an observer is told of a command: the engine that it had, also the machine's first, whom it waited behind there, and
// its bytes.
func TestAnObserverIsToldOfEnginesAndBytes(t *testing.T) {
	told := &starts{}
	h := open(t, &bench{devices: 2, rate: gig, kernel: 100 * gig}, virtual.Options{Observer: told})
	x, y := h.buffer(1e6), h.buffer(1e6)
	h.runs(func() {
		h.write(0, x, make([]byte, 1e6))
		h.write(0, y, make([]byte, 1e6))
	})
	require.Equal(t, []int32{0}, told.spans[0].Engines)
	told.spans = nil
	var read mem.Point
	h.runs(func() {
		e, err := h.qs[0].EnqueueRead(bg, y, 0, make([]byte, 1e6))
		require.NoError(t, err)
		read, err = e.Point()
		h.ok(e, err)
		h.migrate(1, x)
	})
	for _, s := range told.spans {
		if s.Ring {
			require.Equal(t, read, s.Behind, "the ring's first engine was the read's")
		}
	}
	told.spans = nil
	h.runs(func() {
		h.ok(h.qs[0].EnqueueCopyRect(bg, y, y, runtime.Box{Row: 100, Slice: 1000}, runtime.Box{Origin: [3]uint64{50}, Row: 100, Slice: 1000}, [3]uint64{8, 4, 2}))
	})
	require.Len(t, told.spans, 1)
	require.EqualValues(t, 8*4*2, told.spans[0].Bytes)
}

// A device that fails fails what uses it, and neither what another's queue does nor what goes between others.
func TestADeviceThatFailsLeavesOthersAlone(t *testing.T) {
	h := open(t, &bench{devices: 3, rate: gig, kernel: gig}, virtual.Options{Fail: []virtual.Failure{{Memory: 3, At: 1_500_000}}})
	x, y, z := h.buffer(1e6), h.buffer(1e6), h.buffer(1e6)
	h.runs(func() { h.ok(h.qs[0].EnqueueFill(bg, x, []byte{1}, 0, 1e6)) })
	moved, err := h.qs[1].EnqueueMigrate(bg, []*runtime.Buffer{x}, 0)
	require.NoError(t, err)
	beside, err := h.qs[0].EnqueueFill(bg, y, []byte{2}, 0, 1e6)
	require.NoError(t, err)
	there, err := h.qs[2].EnqueueFill(bg, z, []byte{3}, 0, 1e6)
	require.NoError(t, err)
	require.ErrorIs(t, there.Wait(bg), virtual.ErrInjected)
	require.NoError(t, beside.Wait(bg))
	require.NoError(t, moved.Wait(bg))
	require.NotZero(t, h.c.MoverStats().Rings)
	require.ErrorIs(t, h.qs[2].Finish(bg), virtual.ErrInjected)
}

// Without bytes: what a launch only writes it has not read.
func TestALaunchIsNotSeenToReadWhatItOnlyWrites(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig, kernel: gig}, virtual.Options{Stamps: true})
	p, err := h.c.Build(bg, kernels.Program())
	require.NoError(t, err)
	k, err := p.Kernel("copy")
	require.NoError(t, err)
	x, y := h.buffer(4096), h.buffer(4096)
	h.runs(func() {
		h.write(0, x, make([]byte, 4096))
		h.write(0, y, make([]byte, 4096))
		h.ok(h.qs[0].EnqueueLaunch(bg, runtime.Launch{Kernel: k, Global: []uint64{64}, Args: []runtime.Arg{runtime.In(x), runtime.Out(y), runtime.Uint64(64)}}))
	})
	seen := h.w.Seen(3)
	require.NotEmpty(t, seen)
	for _, s := range seen {
		require.EqualValues(t, 1, s.First.By, "%+v", s)
	}
}

// Without bytes, too, a count that a buffer was created with is what a copy goes by.
func TestACountIsKeptWhereBytesAreNot(t *testing.T) {
	h := open(t, &bench{devices: 2, rate: gig, kernel: gig}, virtual.Options{Stamps: true})
	size, err := h.c.CreateBuffer(8, runtime.CopyHostPtr, binary.LittleEndian.AppendUint64(nil, 4096))
	require.NoError(t, err)
	x := h.buffer(1 << 20)
	h.Cleanup(func() { require.NoError(t, size.Release()) })
	h.runs(func() { h.ok(h.qs[0].EnqueueFill(bg, x, []byte{1}, 0, 1<<20)) })
	require.NoError(t, x.SetContentSizeBuffer(size))
	before := h.c.Stats().BytesMoved
	h.runs(func() { h.migrate(1, x) })
	require.EqualValues(t, 4096, h.c.Stats().BytesMoved-before)
}
