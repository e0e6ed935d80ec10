package storage_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc"
	"godwit/internal/storage"
	"godwit/mem"
)

// blocks is a Blocks under random operations, and what its user knows: who lies where,
// and until when.
type blocks struct {
	t       *rapid.T
	m       *storage.Blocks
	line    *mem.Timeline
	live    []used
	pending []used
}

type used struct {
	b     mem.Block
	after []mem.Point
}

func (u used) over(o used) bool {
	return u.b.Addr < o.b.Addr+o.b.Size && o.b.Addr < u.b.Addr+u.b.Size
}

func (s *blocks) alloc() {
	n := rapid.IntRange(1, 3).Draw(s.t, "n")
	reqs, out := make([]mem.Request, n), make([]mem.Block, n)
	for i := range reqs {
		reqs[i].Size = uint64(rapid.SampledFrom([]int{64, 100, 256, 256, 700}).Draw(s.t, "size"))
		reqs[i].Align = 1 << rapid.IntRange(0, 7).Draw(s.t, "align")
	}
	var reuse *mem.Reuse
	if rapid.Bool().Draw(s.t, "reuse") {
		reuse = &mem.Reuse{May: func(p mem.Point) bool { return p.Seq%4 != 0 }}
	}
	fits := s.m.Fits(reqs, nil, reuse)
	o, err := s.m.AllocAll(reqs, out, reuse)
	require.NoError(s.t, err)
	if o != mem.Ready {
		require.Zero(s.t, reuse.Len())
		return
	}
	if n == 1 && s.fit() {
		require.True(s.t, fits, "what was given did not fit")
	}
	for i, b := range out {
		u := used{b: b}
		if reuse != nil {
			for _, e := range reuse.Busy {
				require.NotZero(s.t, e.Point.Seq%4)
				if e.Index == i {
					u.after = append(u.after, e.Point)
				}
			}
		}
		require.Zero(s.t, b.Addr%reqs[i].Align)
		for _, o := range s.live {
			require.False(s.t, u.over(o), "%v is live at %v", o.b, b)
		}
		for _, o := range s.pending {
			for _, p := range o.after {
				require.True(s.t, !u.over(o) || p.Reached() || slices.Contains(u.after, p), "%v is used until %v at %v", o.b, p, b)
			}
		}
		s.live = append(s.live, u)
	}
}

// fit reports whether nothing is busy, where a search that holds places aside may miss
// one.
func (s *blocks) fit() bool {
	return !slices.ContainsFunc(s.pending, func(u used) bool {
		return slices.ContainsFunc(u.after, func(p mem.Point) bool { return !p.Reached() })
	})
}

func (s *blocks) free() {
	if len(s.live) == 0 {
		return
	}
	i := rapid.IntRange(0, len(s.live)-1).Draw(s.t, "which")
	u := s.live[i]
	s.live = slices.Delete(s.live, i, i+1)
	for range rapid.IntRange(0, 2).Draw(s.t, "points") {
		u.after = append(u.after, s.line.Next())
	}
	require.NoError(s.t, s.m.FreeAfter(u.b, u.after))
	s.pending = append(s.pending, u)
}

// end ends some point; the handles of blocks that are in use are good until then.
func (s *blocks) end() {
	open := s.line.Unended(nil, 1)
	if len(open) == 0 {
		return
	}
	for _, u := range s.pending {
		if slices.ContainsFunc(u.after, func(p mem.Point) bool { return !p.Reached() }) {
			at, err := s.m.Address(u.b, 0, u.b.Size)
			require.NoError(s.t, err, "a command that starts late looks its block up")
			require.Equal(s.t, u.b.Addr, at)
		}
	}
	s.line.End(open[rapid.IntRange(0, len(open)-1).Draw(s.t, "end")], nil)
}

func (s *blocks) fits() {
	if len(s.live) == 0 {
		return
	}
	all := make([]mem.Block, 0, len(s.live))
	for _, u := range s.live {
		all = append(all, u.b)
	}
	require.True(s.t, s.m.Fits([]mem.Request{{Size: 4096}}, all, &mem.Reuse{}), "all of it, once nothing is there")
	require.False(s.t, s.m.Fits([]mem.Request{{Size: 4097}}, all, &mem.Reuse{}))
}

func TestBytesInUseAreGivenOnlyWithThePointsOfTheirUsers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store, err := storage.NewRegion(1<<20, 4096, bufalloc.Options{})
		require.NoError(t, err)
		s := &blocks{t: t, m: storage.NewBlocks("b", 1, store), line: mem.NewTimeline("q", false, nil)}
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(*rapid.T) { s.alloc() },
			"free":  func(*rapid.T) { s.free() },
			"end":   func(*rapid.T) { s.end() },
			"fits":  func(*rapid.T) { s.fits() },
			"": func(*rapid.T) {
				require.NoError(t, s.m.Check())
				var bytes [2]uint64
				s.m.Each(func(b mem.Block, pending bool) { bytes[map[bool]int{true: 1}[pending]] += b.Size })
				require.Equal(t, [2]uint64{s.m.Stats().Live, s.m.Stats().Pending}, bytes)
			},
		})
		for len(s.line.Unended(nil, 1)) > 0 {
			s.end()
		}
		for _, u := range s.live {
			require.NoError(t, s.m.FreeAfter(u.b, nil))
		}
		st := s.m.Stats()
		require.Zero(t, st.Live+st.Pending)
		require.EqualValues(t, 4096, st.LargestFree)
		require.NoError(t, s.m.Close())
	})
}

func TestWhatIsFreeComesBeforeWhatIsInUse(t *testing.T) {
	store, err := storage.NewRegion(0, 1024, bufalloc.Options{})
	require.NoError(t, err)
	m := storage.NewBlocks("b", 1, store)
	line := mem.NewTimeline("q", true, nil)
	var a, b [1]mem.Block
	_, err = m.AllocAll([]mem.Request{{Size: 512}}, a[:], nil)
	require.NoError(t, err)
	require.NoError(t, m.FreeAfter(a[0], []mem.Point{line.Next()}))
	reuse := &mem.Reuse{}
	for want, size := range []uint64{512, 512} {
		o, err := m.AllocAll([]mem.Request{{Size: size}}, b[:], reuse)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, o)
		require.Equal(t, want, reuse.Len())
	}
	require.Equal(t, a[0].Addr, b[0].Addr, "the same place")
	require.NotEqual(t, a[0], b[0], "by another handle")
	line.End(line.Last(), nil)
	require.NoError(t, m.Check())
	require.EqualValues(t, 1024, m.Stats().Live)
}

func BenchmarkABlockInStreamOrder(b *testing.B) {
	store, err := storage.NewRegion(0, 1<<20, bufalloc.Options{})
	require.NoError(b, err)
	m := storage.NewBlocks("b", 1, store)
	line := mem.NewTimeline("q", true, nil)
	reqs, out := []mem.Request{{Size: 1 << 20}}, make([]mem.Block, 1)
	reuse := &mem.Reuse{}
	_, err = m.AllocAll(reqs, out, nil)
	require.NoError(b, err)
	after := make([]mem.Point, 1)
	b.ReportAllocs()
	for b.Loop() {
		after[0] = line.Next()
		if err := m.FreeAfter(out[0], after); err != nil {
			b.Fatal(err)
		}
		reuse.Cut(0)
		if o, err := m.AllocAll(reqs, out, reuse); o != mem.Ready || err != nil {
			b.Fatal(o, err)
		}
		line.End(after[0], nil)
	}
}
