package bufalloc

import (
	"math"
	"sync"
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
		require.NoError(t, r.FreeAddr(0))
		require.ErrorIs(t, r.FreeAddr(0), ErrNoChunk)
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
		_, err = r.Sub(c, 0, 1)
		require.ErrorIs(t, err, ErrStaleChunk)
		for _, c := range []Chunk{foreign, {}, ChunkFromRef(1), ChunkFromRef(1<<63 | 1), ChunkFromRef(5), ChunkFromRef(math.MaxUint64), {index: again.index}} {
			require.ErrorIs(t, r.Free(c), ErrForeignChunk, "%v", c)
		}
		r.Reset()
		require.ErrorIs(t, r.Free(again), ErrStaleChunk, "from before Reset")
		require.NoError(t, r.Check())
	})
}

// OffsetAllocator: cannot allocate 1000 units from an empty region of 1000.
func TestOffsetAllocatorFaultAWholeRegion(t *testing.T) {
	for _, s := range []Strategy{Fit, BestFit, Tight, Wasteful} {
		for _, size := range []uint64{1, 31, 33, 1000, 1<<40 + 12345, 1 << 63} {
			r := newRegion(t, 0, size, Options{Strategy: s})
			c := alloc(t, r, size, 1)
			require.NoError(t, r.Check())
			require.Zero(t, r.Stats().Free)
			require.NoError(t, r.Free(c))
			require.Equal(t, size, r.Stats().LargestFree)
		}
	}
}

// OffsetAllocator: misses an exact hole.
func TestOffsetAllocatorFaultAnExactHole(t *testing.T) {
	for _, s := range []Strategy{Fit, BestFit, Tight, Wasteful} {
		for _, size := range []uint64{33, 1000, 70_001} {
			r := newRegion(t, 7, 3*size, Options{Strategy: s})
			var c [3]Chunk
			for i := range c {
				c[i] = alloc(t, r, size, 1)
			}
			require.NoError(t, r.Free(c[1]))
			x, err := r.Range(alloc(t, r, size, 1))
			require.NoError(t, err)
			require.Equal(t, mem.Range{Start: 7 + size, End: 7 + 2*size}, x)
		}
	}
}

// The last resort: the head of the request's own bin is too small, another hole
// of the bin is not, and no higher bin has any.
func TestFitFindsAHoleBehindItsBinsHead(t *testing.T) {
	const size = 1 << 20
	r := newRegion(t, 0, size, Options{})
	var tight, roomy Chunk
	roomy = alloc(t, r, 4127, 1) // lower address: second once tight's hole is freed after it
	alloc(t, r, 1, 1)
	tight = alloc(t, r, 4097, 1)
	alloc(t, r, 1, 1)
	for { // fill the rest
		if _, err := r.Alloc(min(4000, max(r.Stats().LargestFree, 1)), 1); err != nil {
			break
		}
	}
	require.NoError(t, r.Free(tight))
	require.NoError(t, r.Free(roomy))
	lo := alloc(t, r, 4100, 1)
	x, err := r.Range(lo)
	require.NoError(t, err)
	require.Zero(t, x.Start)
	require.NoError(t, r.Free(lo))
	// The other way round the head does not hold it.
	r.Reset()
	tight = alloc(t, r, 4097, 1)
	alloc(t, r, 1, 1)
	roomy = alloc(t, r, 4127, 1)
	alloc(t, r, 1, 1)
	for {
		if _, err := r.Alloc(min(4000, max(r.Stats().LargestFree, 1)), 1); err != nil {
			break
		}
	}
	require.NoError(t, r.Free(tight))
	require.NoError(t, r.Free(roomy))
	before := r.Stats().Scans
	x, err = r.Range(alloc(t, r, 4100, 1))
	require.NoError(t, err)
	require.Equal(t, uint64(4098), x.Start)
	require.Equal(t, before+1, r.Stats().Scans)
}

func TestBadRequests(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 0, 1<<16, Options{Strategy: s})
		for _, align := range []uint64{0, 3, 6, 12, 1<<63 + 1, math.MaxUint64} {
			_, err := r.Alloc(64, align)
			require.ErrorIs(t, err, mem.ErrInvalidValue, "align %d", align)
			if align != 0 {
				require.ErrorIs(t, r.AllocAll([]mem.Request{{Size: 1, Align: align}}, make([]Chunk, 1)), mem.ErrInvalidValue)
			}
		}
		require.ErrorIs(t, r.AllocAll(make([]mem.Request, 2), make([]Chunk, 1)), mem.ErrInvalidValue)
		c := alloc(t, r, 64, 64)
		for _, part := range [][2]uint64{{0, 0}, {0, 65}, {64, 1}, {1, math.MaxUint64}, {math.MaxUint64, 2}} {
			_, err := r.Sub(c, part[0], part[1])
			require.ErrorIs(t, err, mem.ErrInvalidValue, "%v", part)
		}
		x, err := r.Sub(c, 60, 4)
		require.NoError(t, err)
		require.Equal(t, uint64(4), x.Size())
	})
	bad := []struct {
		base, size uint64
		o          Options
		want       error
	}{
		{0, 0, Options{}, mem.ErrInvalidSize},
		{0, 1<<63 + 1, Options{}, mem.ErrInvalidSize},
		{math.MaxUint64, 1, Options{}, nil},
		{math.MaxUint64 - 1, 2, Options{}, mem.ErrInvalidValue},
		{0, 1, Options{Strategy: numStrategies}, mem.ErrInvalidValue},
		{0, 1, Options{Granularity: 3}, mem.ErrInvalidValue},
		{0, 1, Options{Granularity: 1 << 25}, mem.ErrInvalidValue},
		{0, 1, Options{MaxChunks: -1}, mem.ErrInvalidValue},
		{0, 1, Options{Chunks: -1}, mem.ErrInvalidValue},
	}
	for _, b := range bad {
		_, err := NewRegion(b.base, b.size, b.o)
		if b.want == nil {
			b.want = mem.ErrInvalidValue
		}
		require.ErrorIs(t, err, b.want, "%+v", b)
	}
}

func TestTheLimitOfChunks(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 0, 1<<20, Options{Strategy: s, MaxChunks: 3})
		out := make([]Chunk, 4)
		reqs := []mem.Request{{Size: 64}, {Size: 64}, {Size: 64}, {Size: 64}}
		require.ErrorIs(t, r.AllocAll(reqs, out), mem.ErrNoMemory)
		require.NoError(t, r.AllocAll(reqs[:3], out[:3]))
		_, err := r.Alloc(64, 1)
		require.ErrorContains(t, err, "all 3 chunks are in use")
		require.NoError(t, r.Free(out[1]))
		alloc(t, r, 64, 1)
	})
	r := newRegion(t, 0, 1<<20, Options{Strategy: PoCLWasteful})
	for range 1023 {
		alloc(t, r, 64, 64)
	}
	_, err := r.Alloc(64, 64)
	require.ErrorIs(t, err, mem.ErrNoMemory, "PoCL's array of 1,024 is full")
}

func TestBuffersOfOneCommandLieSideBySide(t *testing.T) {
	for _, s := range []Strategy{Fit, BestFit, Tight, Wasteful, GoodFit} {
		t.Run(s.String(), func(t *testing.T) {
			r := newRegion(t, 0, 1<<20, Options{Strategy: s, Granularity: 64})
			reqs := []mem.Request{{Size: 1000}, {Size: 5000, Align: 64}, {Size: 64}, {Size: 7777}}
			a, b := make([]Chunk, len(reqs)), make([]Chunk, len(reqs))
			require.NoError(t, r.AllocAll(reqs, a))
			require.NoError(t, r.AllocAll(reqs, b))
			for i := 1; i < len(a); i++ {
				x, _ := r.Range(a[i-1])
				y, _ := r.Range(a[i])
				require.Equal(t, (x.End+63)&^63, y.Start)
			}
			holes := r.Stats().Holes
			for _, c := range a {
				require.NoError(t, r.Free(c))
			}
			require.LessOrEqual(t, r.Stats().Holes, holes+1, "the frees give one hole back")
			require.NoError(t, r.Check())
		})
	}
}

func TestReserveGrowShrink(t *testing.T) {
	each(t, func(t *testing.T, s Strategy) {
		r := newRegion(t, 1000, 4096, Options{Strategy: s})
		if !s.splits() {
			_, err := r.Reserve(1000, 1)
			require.ErrorIs(t, err, mem.ErrInvalidOperation)
			require.ErrorIs(t, r.Grow(1), mem.ErrInvalidOperation)
			require.ErrorIs(t, r.Shrink(1), mem.ErrInvalidOperation)
			return
		}
		pin, err := r.Reserve(2000, 96)
		require.NoError(t, err)
		for _, x := range [][2]uint64{{1990, 20}, {2000, 1}, {2095, 2}, {1000, 4096}} {
			_, err := r.Reserve(x[0], x[1])
			require.ErrorIs(t, err, ErrInUse, "%v", x)
		}
		for _, x := range [][2]uint64{{999, 2}, {5096, 1}, {5095, 2}, {1000, 0}, {math.MaxUint64, 2}} {
			_, err := r.Reserve(x[0], x[1])
			require.ErrorIs(t, err, mem.ErrInvalidValue, "%v", x)
		}
		require.NoError(t, r.Check())
		require.ErrorIs(t, r.Shrink(3001), ErrInUse)
		require.ErrorIs(t, r.Shrink(4096), mem.ErrInvalidSize)
		require.ErrorIs(t, r.Shrink(0), mem.ErrInvalidSize)
		require.NoError(t, r.Shrink(3000))
		require.NoError(t, r.Check())
		require.Zero(t, r.Tail())
		require.Equal(t, uint64(1096), r.Size())
		_, err = r.Alloc(1001, 1)
		require.ErrorIs(t, err, mem.ErrNoMemory)
		require.NoError(t, r.Grow(2000))
		require.NoError(t, r.Grow(500))
		require.NoError(t, r.Check())
		require.Equal(t, uint64(2500), r.Tail())
		alloc(t, r, 2048, 1)
		require.ErrorIs(t, r.Grow(0), mem.ErrInvalidSize)
		require.ErrorIs(t, r.Grow(1<<63), mem.ErrInvalidSize)
		require.NoError(t, r.Free(pin))
		require.NoError(t, r.Check())
	})
	r := newRegion(t, math.MaxUint64-100, 50, Options{})
	require.ErrorIs(t, r.Grow(51), mem.ErrInvalidValue)
	require.NoError(t, r.Grow(50))
}

func TestRegionsAreSearchedInOrder(t *testing.T) {
	low, high := newRegion(t, 0, 100, Options{}), newRegion(t, 1000, 1000, Options{})
	g, err := NewRegions(low, high)
	require.NoError(t, err)
	require.ErrorIs(t, g.Add(newRegion(t, 50, 100, Options{})), mem.ErrOverlap)
	require.ErrorIs(t, g.Add(nil), mem.ErrInvalidValue)
	a, err := g.Alloc(80, 1)
	require.NoError(t, err)
	require.Equal(t, 0, a.Region)
	b, err := g.Alloc(80, 1)
	require.NoError(t, err)
	require.Equal(t, 1, b.Region)
	out := make([]Place, 3)
	require.NoError(t, g.AllocAll([]mem.Request{{Size: 20}, {Size: 20}, {Size: 900}}, out), "only by taking both regions")
	require.ErrorIs(t, g.AllocAll([]mem.Request{{Size: 1}, {Size: 1}, {Size: 900}}, out), mem.ErrNoMemory)
	require.Equal(t, make([]Place, 3), out)
	require.NoError(t, g.Check())
	p, ok := g.Lookup(1000)
	require.True(t, ok)
	require.Equal(t, 1, p.Region)
	require.ErrorIs(t, g.FreeAddr(500), ErrNoChunk)
	require.ErrorIs(t, g.Free(Place{Region: 2, Chunk: b.Chunk}), ErrForeignChunk)
	require.ErrorIs(t, g.Free(Place{Region: 0, Chunk: b.Chunk}), ErrForeignChunk)
	require.NoError(t, g.Free(a))
	require.NoError(t, g.FreeAddr(1000))
	require.NoError(t, g.Check())
	g.Reset()
	require.Zero(t, g.Stats().Live)
}

func TestLockedServesManyGoroutines(t *testing.T) {
	l := NewLocked(newRegion(t, 0, 1<<20, Options{Granularity: 64}))
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			var held []Chunk
			for i := range 2000 {
				if i%3 == 2 {
					c := held[(i*7+k)%len(held)]
					if err := l.Free(c); err != nil {
						t.Error(err)
					}
					held = append(held[:(i*7+k)%len(held)], held[(i*7+k)%len(held)+1:]...)
					continue
				}
				c, err := l.Alloc(uint64(64+i%512), 64)
				if err != nil {
					t.Error(err)
					return
				}
				held = append(held, c)
				if len(held) > 20 {
					if err := l.Free(held[0]); err != nil {
						t.Error(err)
					}
					held = held[1:]
				}
			}
			for _, c := range held {
				if err := l.Free(c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Check())
	require.Zero(t, l.Stats().Live)
}

func TestNothingIsAllocatedPerOperation(t *testing.T) {
	w := newW1(1000, 3000, 3)
	for _, s := range []Strategy{Fit, GoodFit} {
		p := startFit(t, w, s)
		p.run(t, 0, 1000)
		require.Zero(t, testing.AllocsPerRun(5, func() { p.run(t, 1000, 1300) }), "%v", s)
	}
}

func TestStrategyNames(t *testing.T) {
	for _, s := range Strategies() {
		got, err := ParseStrategy(s.String())
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	_, err := ParseStrategy("worst")
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.ErrorContains(t, err, "bestfit")
}
