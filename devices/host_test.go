package devices_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/mem"
)

func TestHostConformance(t *testing.T) {
	devicetest.Run(t, func(testing.TB) devices.Device { return devices.NewHost(devices.HostOptions{}) }, devicetest.WithoutKernels())
}

func TestHostMemoryIsBounded(t *testing.T) {
	m := devices.NewHostMemory("m", 8<<20)
	out := make([]mem.Block, 1)
	take := func(size uint64) mem.Outcome {
		got, err := m.AllocAll([]mem.Request{{Size: size}}, out)
		require.NoError(t, err)
		require.NoError(t, m.Check())
		return got
	}
	require.Equal(t, mem.Exhausted, take(9<<20))
	require.Equal(t, mem.Ready, take(7<<20))
	large := out[0]
	require.Equal(t, mem.Ready, take(100), "a slab fits")
	small := out[0]
	require.Equal(t, mem.Exhausted, take(800_000))
	require.NoError(t, m.FreeAfter(small, nil))
	require.EqualValues(t, 256<<10, m.Stats().Reserved-m.Stats().Live)
	require.Zero(t, m.Trim(256<<10))
	require.EqualValues(t, 256<<10, m.Trim(0))
	require.Equal(t, mem.Ready, take(800_000))
	require.NoError(t, m.FreeAfter(out[0], nil))
	require.NoError(t, m.FreeAfter(large, nil))
	require.Zero(t, m.Stats().Reserved)
	require.NoError(t, m.Close())
	require.ErrorIs(t, m.Close(), mem.ErrClosed)
}

func TestHostBlocksHaveTheAlignmentAskedFor(t *testing.T) {
	m := devices.NewHostMemory("m", 0)
	defer func() { require.NoError(t, m.Close()) }()
	for _, size := range []uint64{1, 300, 70_000, 3 << 20} {
		for align := uint64(1); align <= 8<<20; align <<= 1 {
			out := make([]mem.Block, 1)
			got, err := m.AllocAll([]mem.Request{{Size: size, Align: align}}, out)
			require.NoError(t, err)
			require.Equal(t, mem.Ready, got)
			require.Zero(t, out[0].Addr%max(align, 128), "%d bytes at %d", size, align)
			view, err := m.View(out[0], 0, size)
			require.NoError(t, err)
			view[0], view[size-1] = 1, 2
			require.NoError(t, m.Check())
			require.NoError(t, m.FreeAfter(out[0], nil))
			_, err = m.View(out[0], 0, size)
			require.ErrorIs(t, err, mem.ErrInvalidBuffer)
		}
	}
}

func TestAPieceOfABlockIsReached(t *testing.T) {
	h := newHost(t, devices.HostOptions{})
	q := newQueue(t, h, devices.QueueOptions{Name: "q"})
	b := alloc(t, h, 100)
	p, err := q.Submit(&devices.Command{Op: devices.OpFill, Size: 10, Pattern: []byte{7}, Dst: devices.Loc{Device: h, Block: b.Piece(40, 20), Off: 5}}, nil)
	require.NoError(t, err)
	require.NoError(t, p.Wait(context.Background()))
	view, err := h.View(b.Piece(40, 20), 5, 10)
	require.NoError(t, err)
	require.Equal(t, []byte{7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, view)
	_, err = h.View(b.Piece(40, 20), 15, 10)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = h.View(b.Piece(90, 20), 0, 10)
	require.ErrorIs(t, err, mem.ErrInvalidBuffer, "past the block")
}
