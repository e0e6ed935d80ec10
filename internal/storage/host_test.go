package storage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestHostMemoryIsBounded(t *testing.T) {
	m := NewHost("m", 8<<20)
	out := make([]mem.Block, 1)
	take := func(size uint64) mem.Outcome {
		got, err := m.AllocAll([]mem.Request{{Size: size}}, out, nil)
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
	m := NewHost("m", 0)
	defer func() { require.NoError(t, m.Close()) }()
	for _, size := range []uint64{1, 300, 70_000, 3 << 20} {
		for align := uint64(1); align <= 8<<20; align <<= 1 {
			out := make([]mem.Block, 1)
			got, err := m.AllocAll([]mem.Request{{Size: size, Align: align}}, out, nil)
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

// A layer that carves a block may ask for a piece of it, and for nothing that is no piece.
func TestOnlyWhatLiesInABlockIsAPieceOfIt(t *testing.T) {
	m := NewHost("m", 0)
	defer func() { require.NoError(t, m.Close()) }()
	out := make([]mem.Block, 1)
	_, err := m.AllocAll([]mem.Request{{Size: 4096}}, out, nil)
	require.NoError(t, err)
	b := out[0]
	for _, c := range []struct {
		name string
		mem.Block
		ok bool
	}{
		{"all of it", b, true},
		{"its end", b.Piece(4000, 96), true},
		{"more than it has", mem.Block{Addr: b.Addr, Size: 4097, Ref: b.Ref}, false},
		{"beyond its end", b.Piece(4000, 97), false},
		{"before it", mem.Block{Addr: b.Addr - 1, Size: 2, Ref: b.Ref}, false},
	} {
		_, err := m.Address(c.Block, 0, 1)
		if c.ok {
			require.NoError(t, err, c.name)
		} else {
			require.ErrorIs(t, err, mem.ErrInvalidBuffer, c.name)
		}
	}
	require.NoError(t, m.FreeAfter(b, nil))
}
