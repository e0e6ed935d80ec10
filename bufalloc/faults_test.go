package bufalloc

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// The faults that were seen in PoCL's bufalloc.c and in OffsetAllocator, each a
// test of its own over all strategies but those made to show PoCL's.

func honest(t *testing.T, f func(t *testing.T, s Strategy)) {
	each(t, func(t *testing.T, s Strategy) {
		if s == PoCLTight || s == PoCLWasteful {
			t.Skip("reproduces PoCL")
		}
		f(t, s)
	})
}

func alloc(t testing.TB, r *Region, size, align uint64) Chunk {
	t.Helper()
	c, err := r.Alloc(size, align)
	require.NoError(t, err)
	return c
}

// PoCL: a 64-byte request took a 512 KiB hole.
func TestPoCLFaultReuseWithoutSplitting(t *testing.T) {
	honest(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 0, 1<<20, Options{Strategy: s})
		first := alloc(t, r, 512<<10, 64)
		alloc(t, r, 64, 64)
		require.NoError(t, r.Free(first))
		alloc(t, r, 64, 64)
		require.Less(t, r.Stats().Slack, uint64(64))
		require.GreaterOrEqual(t, r.Stats().LargestFree, uint64(256<<10))
	})
	r := newRegion(t, 0, 1<<20, Options{Strategy: PoCLTight})
	first := alloc(t, r, 512<<10, 64)
	alloc(t, r, 64, 64)
	require.NoError(t, r.Free(first))
	alloc(t, r, 64, 64)
	require.Equal(t, uint64(512<<10-64), r.Stats().Slack, "PoCL's true behaviour, for study")
}

// PoCL: alloc(SIZE_MAX) overflows and succeeds.
func TestPoCLFaultHugeSizesOverflow(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		for _, granule := range []uint64{1, 256, 1 << 24} {
			for _, base := range []uint64{0, math.MaxUint64 - 1<<26} {
				r := newRegion(t, base, 1<<26, Options{Strategy: s, Granularity: granule})
				for _, size := range []uint64{math.MaxUint64, math.MaxUint64 - 1, math.MaxUint64 - granule, 1<<63 + 1, 1 << 63, 1<<26 + 1} {
					for _, align := range []uint64{1, 256, 1 << 63} {
						_, err := r.Alloc(size, align)
						require.ErrorIs(t, err, mem.ErrNoMemory, "size %d align %d", size, align)
						out := make([]Chunk, 2)
						reqs := []mem.Request{{Size: size, Align: align}, {Size: size, Align: align}}
						require.ErrorIs(t, r.AllocAll(reqs, out), mem.ErrNoMemory)
					}
				}
				require.NoError(t, r.Check())
				require.Zero(t, r.Stats().Chunks)
			}
		}
	})
}

// PoCL: alloc(0) gives the address of the next chunk.
func TestPoCLFaultZeroBytes(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 0, 4096, Options{Strategy: s})
		_, err := r.Alloc(0, 64)
		require.ErrorIs(t, err, mem.ErrInvalidSize)
		require.Equal(t, mem.InvalidBufferSize, mem.StatusOf(err))
		require.ErrorIs(t, r.AllocAll([]mem.Request{{Size: 64}, {}}, make([]Chunk, 2)), mem.ErrInvalidSize)
		require.Zero(t, r.Stats().Chunks)
	})
}

// PoCL: cannot tell "no space" from address 0.
func TestPoCLFaultAddressZeroIsAnAddressLikeAnyOther(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 0, 4096, Options{Strategy: s})
		whole := uint64(4096)
		if s == GoodFit { // rounds up to the next bin
			whole = 4096 / 33 * 32
		}
		c := alloc(t, r, whole, 1)
		require.False(t, c.IsZero())
		addr, err := r.Addr(c)
		require.NoError(t, err)
		require.Zero(t, addr)
		got, ok := r.Lookup(0)
		require.True(t, ok)
		require.Equal(t, c, got)
		_, err = r.Alloc(4096, 1)
		require.ErrorIs(t, err, mem.ErrNoMemory)
	})
}

// PoCL: no check of double frees.
func TestPoCLFaultDoubleStaleAndForeignFrees(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 0, 1<<16, Options{Strategy: s})
		other := newRegion(t, 0, 1<<16, Options{Strategy: s})
		foreign := alloc(t, other, 64, 64)
		c := alloc(t, r, 64, 64)
		require.NoError(t, r.Free(c))
		double := r.Free(c)
		require.ErrorIs(t, double, ErrStaleChunk)
		require.ErrorContains(t, double, c.String())
		again := alloc(t, r, 64, 64)
		require.ErrorIs(t, r.Free(c), ErrStaleChunk, "the place is taken again, by %v", again)
		_, err := r.Range(c)
		require.ErrorIs(t, err, ErrStaleChunk)
		for _, c := range []Chunk{foreign, {}, ChunkFromRef(1), ChunkFromRef(1<<63 | 1), ChunkFromRef(5), ChunkFromRef(math.MaxUint64), {index: again.index}} {
			require.ErrorIs(t, r.Free(c), ErrForeignChunk, "%v", c)
		}
		r.Reset()
		require.ErrorIs(t, r.Free(again), ErrStaleChunk, "from before Reset")
		require.NoError(t, r.Check())
	})
}
