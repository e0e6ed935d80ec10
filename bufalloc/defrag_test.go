package bufalloc

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// arena is the bytes of a region and, beside them, what each chunk holds.
type arena struct {
	t    require.TestingT
	r    *Region
	b    []byte
	want map[Chunk][]byte
	keys []Chunk
}

func newArena(t testing.TB, base, size uint64, o Options) *arena {
	return &arena{t: t, r: newRegion(t, base, size, o), b: make([]byte, size), want: map[Chunk][]byte{}}
}

func (a *arena) at(x mem.Range) []byte { return a.b[x.Start-a.r.base : x.End-a.r.base] }

func (a *arena) alloc(size, align uint64, seed uint64) bool {
	c, err := a.r.Alloc(size, align)
	if err != nil {
		require.ErrorIs(a.t, err, mem.ErrNoMemory)
		return false
	}
	x, err := a.r.Range(c)
	require.NoError(a.t, err)
	content := make([]byte, size)
	rng := rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), seed)))
	_, _ = rng.Read(content)
	copy(a.at(x), content)
	a.want[c] = content
	a.keys = append(a.keys, c)
	return true
}

func (a *arena) free(k int) {
	c := a.keys[k]
	a.keys[k] = a.keys[len(a.keys)-1]
	a.keys = a.keys[:len(a.keys)-1]
	delete(a.want, c)
	require.NoError(a.t, a.r.Free(c))
}

func (a *arena) verify() {
	require.NoError(a.t, a.r.Check())
	for c, content := range a.want {
		x, err := a.r.Range(c)
		require.NoError(a.t, err)
		if !bytes.Equal(a.at(x), content) {
			require.Failf(a.t, "content lost", "%v at %v", c, x)
		}
	}
}

func TestContentSurvivesDefragmentation(t *testing.T) {
	for _, s := range []Strategy{Fit, BestFit, Tight, Wasteful, GoodFit} {
		t.Run(s.String(), func(t *testing.T) {
			for seed := range uint64(6) {
				rng := rand.New(rand.NewPCG(seed, 7))
				granule, base := uint64(1)<<(seed%4*3), 4096*seed
				if granule < 64 {
					base += 7 // no multiple: the ends stay apart
				}
				a := newArena(t, base, 1<<16, Options{Strategy: s, Granularity: granule})
				for round := range 4 {
					for i := range 300 {
						if len(a.keys) > 0 && rng.IntN(20) < 9 {
							a.free(rng.IntN(len(a.keys)))
						} else {
							a.alloc(1+rng.Uint64N(1<<(3+rng.IntN(9))), 1<<rng.IntN(7), uint64(i))
						}
					}
					if round == 1 { // the index by address must follow the moves
						a.r.Lookup(0)
					}
					defragment(t, a, rng, round%2 == 1)
				}
			}
		})
	}
}

// defragment runs a pass to its end, with the user working on the region
// meanwhile, and some moves aborted.
func defragment(t *testing.T, a *arena, rng *rand.Rand, aborts bool) {
	d, err := a.r.Defrag(0.9)
	require.NoError(t, err)
	for range 10_000 {
		budget := uint64(1) << (8 + rng.IntN(8))
		moves := d.Next(nil, budget)
		if len(moves) == 0 { // of any use within so small a budget
			budget = 1 << 16
			moves = d.Next(nil, budget)
		}
		if len(moves) == 0 {
			break
		}
		proposed := uint64(0)
		for _, m := range moves {
			proposed += m.From.Size()
		}
		require.LessOrEqual(t, proposed, budget)
		require.NoError(t, a.r.Check())
		require.ErrorIs(t, a.r.Free(moves[0].Chunk), mem.ErrInvalidOperation)
		if rng.IntN(4) == 0 {
			a.alloc(1+rng.Uint64N(100), 1, rng.Uint64())
		}
		rng.Shuffle(len(moves), func(i, j int) { moves[i], moves[j] = moves[j], moves[i] })
		for _, m := range moves {
			if aborts && rng.IntN(8) == 0 {
				require.NoError(t, d.Abort(m))
			} else {
				copy(a.at(m.To), a.at(m.From))
				require.NoError(t, d.Commit(m))
				x, err := a.r.Range(m.Chunk)
				require.NoError(t, err)
				require.Equal(t, m.To, x)
			}
			a.verify()
			require.ErrorIs(t, d.Commit(m), mem.ErrInvalidOperation)
			require.ErrorIs(t, d.Abort(m), mem.ErrInvalidOperation)
		}
	}
	require.Zero(t, d.Open())
	a.verify()
	if !aborts && a.r.granule >= 64 {
		require.True(t, d.Done(), "%+v", a.r.Stats())
	}
}

// TestAnOverlappingSelfMove: the only way to join two holes around a chunk
// larger than either is to slide it over itself.
func TestAnOverlappingSelfMove(t *testing.T) {
	a := newArena(t, 0, 300, Options{Strategy: Tight})
	for _, size := range []uint64{50, 200, 50} {
		require.True(t, a.alloc(size, 1, size))
	}
	big := a.keys[1]
	a.free(2)
	a.free(0)
	d, err := a.r.Defrag(1)
	require.NoError(t, err)
	require.Equal(t, uint64(0), d.Moved())
	moves := d.Next(nil, 1000)
	require.Equal(t, []Move{{big, mem.Range{Start: 50, End: 250}, mem.Range{Start: 0, End: 200}}}, moves)
	require.True(t, moves[0].Overlaps())
	require.Empty(t, d.Next(nil, 1000), "the next proposal depends on this one")
	require.NoError(t, d.Abort(moves[0]))
	a.verify()
	require.Empty(t, d.Next(nil, 1000), "aborted moves are not proposed again")

	d, err = a.r.Defrag(1)
	require.NoError(t, err)
	require.Empty(t, d.Next(nil, 199), "the chunk is larger than the budget")
	m := d.Next(nil, 200)[0]
	copy(a.at(m.To), a.at(m.From))
	require.NoError(t, d.Commit(m))
	a.verify()
	require.True(t, d.Done())
	require.Equal(t, uint64(100), a.r.Stats().LargestFree)
	require.Equal(t, uint64(200), d.Moved())
}

func TestDefragErrors(t *testing.T) {
	r := newRegion(t, 0, 1000, Options{})
	for _, goal := range []float64{0, -1, 1.01} {
		_, err := r.Defrag(goal)
		require.ErrorIs(t, err, mem.ErrInvalidValue)
	}
	_, err := newRegion(t, 0, 1024, Options{Strategy: Buddy}).Defrag(0.9)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
}

// TestBytesToDefragmentW1 drives W1 at 1e4 live to its worst, a region so tight
// that the next request fails, and defragments it to one hole of 90 % of what
// is free. What the chunks hold is modelled by two bytes for every 256.
func TestBytesToDefragmentW1(t *testing.T) {
	for _, s := range []Strategy{Fit, GoodFit} {
		t.Run(s.String(), func(t *testing.T) {
			r := worstW1(t, s, 10_000, 60_000)
			d, err := r.Defrag(0.9)
			require.NoError(t, err)
			before, bound := r.Stats(), d.Bound()
			content := newPages(r)
			passes := 0
			for moves := d.Next(nil, 256<<20); len(moves) > 0; moves = d.Next(moves[:0], 256<<20) {
				for _, m := range moves {
					content.move(m)
					require.NoError(t, d.Commit(m))
				}
				passes++
			}
			require.NoError(t, r.Check())
			require.Zero(t, content.lost(r), "chunks whose content is not what it was")
			require.True(t, d.Done())
			after := r.Stats()
			require.Equal(t, before.Live, after.Live)
			require.GreaterOrEqual(t, d.Moved(), bound)
			t.Logf("live %d MiB, free %d MiB in %d holes, largest %.1f %%; moved %d MiB (%.1f %% of live, %.2f of the bound) in %d passes; largest then %.1f %%",
				before.Live>>20, before.Free>>20, before.Holes, 100*(1-before.Fragmentation()), d.Moved()>>20,
				100*float64(d.Moved())/float64(before.Live), float64(d.Moved())/float64(bound), passes, 100*(1-after.Fragmentation()))
		})
	}
}

// pages is a model of what a region's chunks hold: a word for every 256 bytes,
// which tells which chunk and which of its pages it is.
type pages []uint16

func pageWord(c Chunk, k uint64) uint16 {
	return uint16((uint64(c.index)*0x9E3779B97F4A7C15 + k*0xD6E8FEB86659FD93) >> 48)
}

func newPages(r *Region) pages {
	p := make(pages, r.size/256+1)
	for s := range r.Walk() {
		for k := uint64(0); !s.Free() && k < s.Range.Size()/256; k++ {
			p[s.Range.Start/256+k] = pageWord(s.Chunk, k)
		}
	}
	return p
}

func (p pages) move(m Move) {
	copy(p[m.To.Start/256:m.To.End/256], p[m.From.Start/256:m.From.End/256])
}

// lost is the number of chunks with a page that is not theirs.
func (p pages) lost(r *Region) (n int) {
	for s := range r.Walk() {
		for k := uint64(0); !s.Free() && k < s.Range.Size()/256; k++ {
			if p[s.Range.Start/256+k] != pageWord(s.Chunk, k) {
				n++
				break
			}
		}
	}
	return n
}

// worstW1 is a region in which W1 with n live chunks has just failed.
func worstW1(t testing.TB, s Strategy, n, pairs int) *Region {
	w := newW1(n, pairs, 1)
	r := newRegion(t, 0, w.peak+w.peak/32, Options{Strategy: s, Granularity: 256, Chunks: n})
	held := make([]Chunk, n)
	var err error
	for i, size := range w.first {
		if held[i], err = r.Alloc(size, 256); err != nil {
			return r
		}
	}
	for _, q := range w.pairs {
		require.NoError(t, r.Free(held[q.k]))
		if held[q.k], err = r.Alloc(uint64(q.size), 256); err != nil {
			return r
		}
	}
	require.Fail(t, "W1 did not fail")
	return nil
}
