// Package bufalloctest is what a placement of one's own has to pass. bufalloc's own
// strategies pass it too.
package bufalloctest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc"
	"godwit/mem"
)

// Placement drives regions under the strategy with random operations, and holds
// every chunk against a plain list of what is live: none overlaps another, lies
// outside the region or is misaligned; an exact strategy refuses nothing that
// fits; what is freed can be given again; the region's own Check holds after
// every step. Regions are reset, grown and shrunk on the way.
func Placement(t *testing.T, s bufalloc.Strategy) {
	t.Run("random operations", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { newDriver(rt, s).run(rt) })
	})
	t.Run("all or nothing", func(t *testing.T) { allOrNothing(t, s) })
	t.Run("the region filled and emptied", func(t *testing.T) { fillAndEmpty(t, s) })
}

// driver is a region and the list of what is live in it.
type driver struct {
	r    *bufalloc.Region
	s    bufalloc.Strategy
	held []bufalloc.Chunk
}

func newDriver(rt *rapid.T, s bufalloc.Strategy) *driver {
	base := rapid.SampledFrom([]uint64{0, 4096, 1<<40 + 64}).Draw(rt, "base")
	size := rapid.SampledFrom([]uint64{1, 100, 1 << 12, 1<<16 + 8, 1 << 40}).Draw(rt, "size")
	granule := rapid.SampledFrom([]uint64{0, 1, 64, 256}).Draw(rt, "granularity")
	r, err := bufalloc.NewRegion(base, size, bufalloc.Options{Strategy: s, Granularity: granule})
	require.NoError(rt, err)
	return &driver{r: r, s: s}
}

func (d *driver) run(rt *rapid.T) {
	rt.Repeat(map[string]func(*rapid.T){
		"alloc":       d.alloc,
		"alloc again": d.alloc,
		"free":        d.free,
		"reset":       d.reset,
		"":            func(rt *rapid.T) { require.NoError(rt, d.r.Check()) },
	})
}

func (d *driver) alloc(rt *rapid.T) {
	size := rapid.Uint64Range(1, max(d.r.Size()/4, 1)).Draw(rt, "bytes")
	align := uint64(1) << rapid.IntRange(0, 12).Draw(rt, "log2 align")
	hint := rapid.SampledFrom([]mem.Hint{0, mem.Lives(3), mem.Lives(1 << 50), mem.Together(7)}).Draw(rt, "hint")
	before := d.r.Stats()
	c, err := d.r.AllocHint(size, align, hint)
	if err != nil {
		require.ErrorIs(rt, err, mem.ErrNoMemory, "%v fails for want of room alone", d.s)
		if d.s.Exact() {
			require.False(rt, d.fits(size, align), "%v refused %d bytes aligned to %d that fit", d.s, size, align)
		}
		after := d.r.Stats()
		after.Failures, after.Scans, after.ScanSteps = before.Failures, before.Scans, before.ScanSteps
		require.Equal(rt, before, after, "a refusal changes nothing")
		return
	}
	x, err := d.r.Range(c)
	require.NoError(rt, err)
	require.Equal(rt, size, x.Size())
	require.True(rt, d.r.Bounds().Contains(x), "%v gave %v in %v", d.s, x, d.r.Bounds())
	require.Zero(rt, x.Start&(max(align, d.r.Granularity())-1))
	for _, other := range d.held {
		o, err := d.r.Range(other)
		require.NoError(rt, err)
		require.False(rt, x.Overlaps(o), "%v gave %v, and %v is live", d.s, x, o)
	}
	d.held = append(d.held, c)
}

// fits looks for a hole as a region's Walk shows it.
func (d *driver) fits(size, align uint64) bool {
	align = max(align, d.r.Granularity())
	size, ok := mem.AlignUp(size, d.r.Granularity())
	if !ok {
		return false
	}
	for s := range d.r.Walk() {
		if at, ok := mem.AlignUp(s.Range.Start, align); s.Free() && ok && at < s.Range.End && s.Range.End-at >= size {
			return true
		}
	}
	return false
}

func (d *driver) free(rt *rapid.T) {
	if len(d.held) == 0 {
		rt.Skip("nothing is live")
	}
	i := rapid.IntRange(0, len(d.held)-1).Draw(rt, "which")
	c := d.held[i]
	d.held = append(d.held[:i], d.held[i+1:]...)
	require.NoError(rt, d.r.Free(c))
	require.ErrorIs(rt, d.r.Free(c), bufalloc.ErrStaleChunk)
	if len(d.held) == 0 && d.r.Stats().Holes != 1 {
		_, err := d.r.Reserve(d.r.Base(), 1) // strategies on a grid of their own keep pieces
		require.ErrorIs(rt, err, mem.ErrInvalidOperation, "%v: %d holes in an empty region", d.s, d.r.Stats().Holes)
	}
}

func (d *driver) reset(*rapid.T) {
	d.r.Reset()
	d.held = d.held[:0]
}

func allOrNothing(t *testing.T, s bufalloc.Strategy) {
	r, err := bufalloc.NewRegion(0, 1<<20, bufalloc.Options{Strategy: s})
	require.NoError(t, err)
	reqs := []mem.Request{{Size: 1000}, {Size: 64, Align: 4096}, {Size: 30_000, Hint: mem.Together(1)}}
	out := make([]bufalloc.Chunk, len(reqs))
	require.NoError(t, r.AllocAll(reqs, out))
	require.NoError(t, r.Check())
	reqs[2].Size = 1 << 20
	more := make([]bufalloc.Chunk, len(reqs))
	require.ErrorIs(t, r.AllocAll(reqs, more), mem.ErrNoMemory)
	require.Equal(t, 3, r.Stats().Chunks)
	require.NoError(t, r.Check())
}

// fillAndEmpty fills a region with chunks of one size to the last byte, frees
// every other one and then the rest, and does it again.
func fillAndEmpty(t *testing.T, s bufalloc.Strategy) {
	const n, size = 256, 4096
	r, err := bufalloc.NewRegion(0, n*size, bufalloc.Options{Strategy: s, MaxChunks: n})
	require.NoError(t, err)
	for range 3 {
		var held []bufalloc.Chunk
		for range n {
			c, err := r.Alloc(size, 1)
			if !s.Exact() && errors.Is(err, mem.ErrNoMemory) {
				break
			}
			require.NoError(t, err, "%v: chunk %d of %d", s, len(held), n)
			held = append(held, c)
		}
		_, err := r.Alloc(size, 1)
		require.ErrorIs(t, err, mem.ErrNoMemory)
		for _, odd := range []int{1, 0} {
			for i := odd; i < len(held); i += 2 {
				require.NoError(t, r.Free(held[i]))
			}
			require.NoError(t, r.Check())
		}
		require.Equal(t, uint64(n*size), r.Stats().Free)
	}
}
