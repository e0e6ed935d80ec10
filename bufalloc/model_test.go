package bufalloc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// naive is the reference: the live ranges of a region in a sorted slice. It
// chooses no place itself but says whether one that was chosen is legal, and
// whether a request could have been served.
type naive struct {
	bounds mem.Range
	live   []mem.Range // in address order, slack included
}

// fits reports whether a gap holds size bytes at a multiple of align.
func (m *naive) fits(size, align uint64) bool {
	at := m.bounds.Start
	for i := 0; i <= len(m.live); i++ {
		end := m.bounds.End
		if i < len(m.live) {
			end = m.live[i].Start
		}
		if up, ok := mem.AlignUp(at, align); ok && up <= end && end-up >= size {
			return true
		}
		if i < len(m.live) {
			at = m.live[i].End
		}
	}
	return false
}

func (m *naive) add(x mem.Range) error {
	if !m.bounds.Contains(x) || x.Empty() {
		return fmt.Errorf("%v is empty or outside %v", x, m.bounds)
	}
	i, _ := slices.BinarySearchFunc(m.live, x, func(a, b mem.Range) int {
		if a.Start < b.Start {
			return -1
		}
		return 1
	})
	for _, k := range []int{i - 1, i} {
		if k >= 0 && k < len(m.live) && m.live[k].Overlaps(x) {
			return fmt.Errorf("%v overlaps %v", x, m.live[k])
		}
	}
	m.live = slices.Insert(m.live, i, x)
	return nil
}

func (m *naive) drop(x mem.Range) error {
	i := slices.Index(m.live, x)
	if i < 0 {
		return fmt.Errorf("%v is not live", x)
	}
	m.live = slices.Delete(m.live, i, i+1)
	return nil
}

// pair is a region and its reference, driven together.
type pair struct {
	r    *Region
	m    naive
	held []Chunk
	gone Chunk // freed before
}

func newPair(r *Region) *pair { return &pair{r: r, m: naive{bounds: r.Bounds()}} }

func (p *pair) whole(c Chunk) mem.Range {
	for s := range p.r.Walk() {
		if s.Chunk == c {
			return s.Range
		}
	}
	return mem.Range{}
}

func (p *pair) took(c Chunk, size, align uint64) error {
	x, err := p.r.Range(c)
	if err != nil {
		return err
	}
	if x.Size() != size || x.Start%align != 0 || x.Start%p.r.granule != 0 {
		return fmt.Errorf("%d bytes aligned to %d: got %v", size, align, x)
	}
	p.held = append(p.held, c)
	return p.m.add(p.whole(c))
}

func (p *pair) alloc(size, align uint64) error {
	c, err := p.r.Alloc(size, align)
	if errors.Is(err, mem.ErrNoMemory) {
		up, ok := mem.AlignUp(size, p.r.granule)
		if p.r.strategy.Exact() && ok && p.r.chunks() < p.r.maxChunks && p.m.fits(up, max(align, p.r.granule)) {
			return fmt.Errorf("%w, and there is", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return p.took(c, size, align)
}

func (p *pair) allocAll(reqs []mem.Request) error {
	out := make([]Chunk, len(reqs))
	before := spans(p.r)
	err := p.r.AllocAll(reqs, out)
	if errors.Is(err, mem.ErrNoMemory) {
		if after := spans(p.r); !slices.Equal(before, after) {
			return fmt.Errorf("a failed AllocAll changed %v to %v", before, after)
		}
		return nil
	}
	if err != nil {
		return err
	}
	for i, q := range reqs {
		if err := p.took(out[i], q.Size, max(q.Align, 1)); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) free(k int) error {
	if len(p.held) == 0 {
		return nil
	}
	k %= len(p.held)
	c := p.held[k]
	x := p.whole(c)
	p.held = slices.Delete(p.held, k, k+1)
	p.gone = c
	if err := p.r.Free(c); err != nil {
		return err
	}
	return p.m.drop(x)
}

// step does what the bytes say and checks everything.
func (p *pair) step(op byte, a, b uint64) error {
	var err error
	limit := p.r.Size() / 8
	switch op % 8 {
	case 0, 1, 2:
		err = p.alloc(1+a%limit, 1<<(b%10))
	case 3:
		n := 1 + b%5
		reqs := make([]mem.Request, n)
		for i := range reqs {
			reqs[i] = mem.Request{Size: 1 + (a>>(8*i))%limit, Align: 1 << ((b >> i) % 9)}
		}
		err = p.allocAll(reqs)
	case 4, 5, 6:
		err = p.free(int(a % 1024))
	case 7:
		if !p.gone.IsZero() {
			if e := p.r.Free(p.gone); !errors.Is(e, ErrStaleChunk) {
				err = fmt.Errorf("a second free of %v: %w", p.gone, e)
			}
		}
		for _, x := range p.m.live {
			if c, ok := p.r.Lookup(x.Start + a%x.Size()); !ok || p.whole(c) != x {
				err = fmt.Errorf("lookup in %v: %v", x, c)
			}
		}
	}
	if err != nil {
		return err
	}
	if err := p.r.Check(); err != nil {
		return err
	}
	if got := p.r.Stats().Chunks; got != len(p.m.live) {
		return fmt.Errorf("%d chunks, want %d", got, len(p.m.live))
	}
	return nil
}

func spans(r *Region) []Span { return slices.Collect(r.Walk()) }

// each runs a test for every strategy.
func each(t *testing.T, f func(t *testing.T, s Strategy)) {
	for _, s := range Strategies() {
		t.Run(s.String(), func(t *testing.T) { f(t, s) })
	}
}

func newRegion(t testing.TB, base, size uint64, o Options) *Region {
	t.Helper()
	r, err := NewRegion(base, size, o)
	require.NoError(t, err)
	require.NoError(t, r.Check())
	return r
}

func TestRandomHistoriesAgreeWithTheNaiveAllocator(t *testing.T) {
	shapes := []struct{ base, size, granule uint64 }{
		{0, 1 << 16, 1}, {4096, 100_000, 256}, {12345, 54321, 64}, {1<<64 - 1 - 70_001, 70_001, 1},
	}
	each(t, func(t *testing.T, s Strategy) {
		for k, sh := range shapes {
			rng := rand.New(rand.NewPCG(uint64(s), uint64(k)))
			p := newPair(newRegion(t, sh.base, sh.size, Options{Strategy: s, Granularity: sh.granule}))
			for i := range 3000 {
				require.NoError(t, p.step(byte(rng.Uint32()), rng.Uint64()>>(rng.Uint32()%60), rng.Uint64()), "shape %d, step %d", k, i)
			}
			for len(p.held) > 0 {
				require.NoError(t, p.free(0))
			}
			require.NoError(t, p.r.Check())
			require.Zero(t, p.r.Stats().Live)
		}
	})
}
