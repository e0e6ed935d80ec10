package bufalloc

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

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
	before := r.Stats()
	x, err = r.Range(alloc(t, r, 4100, 1))
	require.NoError(t, err)
	require.Equal(t, uint64(4098), x.Start)
	require.Equal(t, before.Scans+1, r.Stats().Scans)
	require.Equal(t, before.ScanSteps+2, r.Stats().ScanSteps, "tight and roomy")
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
		{0, 1, Options{Strategy: 999}, mem.ErrInvalidValue},
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

// What Stats says of bookkeeping: no pointer, 32 bytes a node, at most 48 bytes
// a chunk set aside, and bins of a fixed size.
func TestBookkeeping(t *testing.T) {
	require.EqualValues(t, 32, unsafe.Sizeof(node{}))
	require.InDelta(t, 15<<10, int(unsafe.Sizeof(bins{})), 1<<10)
	for _, n := range []int{1_000, 10_000} {
		w := newW1(n, 4*n, 1)
		p := startFit(t, w, Fit)
		p.run(t, 0, 4*n)
		s := p.r.Stats()
		require.LessOrEqual(t, float64(s.Bookkeeping)/float64(s.Chunks), 48.0, "%d live", n)
	}
}
