package bufalloc

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/yardstick"
)

// w1 is the workload W1: n live chunks of log-uniform sizes from 256 B to
// 16 MiB; a pair frees a random one and allocates another.
type w1 struct {
	first []uint64 // sizes of the first n chunks
	pairs []w1Pair
	peak  uint64 // bytes live at most
}

type w1Pair struct {
	k    uint32 // which chunk is freed and replaced
	size uint32 // bytes
}

type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (s *splitmix) size() uint64 {
	lo, hi := math.Log(256), math.Log(16<<20)
	v := uint64(math.Exp(lo + float64(s.next()>>11)/(1<<53)*(hi-lo)))
	return (max(v, 1) + 255) &^ 255
}

func newW1(n, pairs int, seed uint64) *w1 {
	s := splitmix(seed)
	w := &w1{first: make([]uint64, n), pairs: make([]w1Pair, pairs)}
	live := uint64(0)
	for i := range w.first {
		w.first[i] = s.size()
		live += w.first[i]
	}
	sizes := slices.Clone(w.first)
	w.peak = live
	for i := range w.pairs {
		k := s.next() % uint64(n)
		size := s.size()
		w.pairs[i] = w1Pair{uint32(k), uint32(size)}
		live += size - sizes[k]
		sizes[k] = size
		w.peak = max(w.peak, live)
	}
	return w
}

// play is W1 on a region, filled by start.
type play struct {
	w    *w1
	r    *Region
	held []Chunk
}

func startFit(t testing.TB, w *w1, s Strategy) *play {
	r, err := NewRegion(0, 2*w.peak, Options{Strategy: s, Granularity: 256, Chunks: len(w.first)})
	require.NoError(t, err)
	p := &play{w, r, make([]Chunk, len(w.first))}
	for i, size := range w.first {
		p.held[i], err = r.Alloc(size, 256)
		require.NoError(t, err)
	}
	return p
}

// run does pairs [from, to) and returns the time it took.
func (p *play) run(t testing.TB, from, to int) time.Duration {
	start := time.Now()
	for _, q := range p.w.pairs[from:to] {
		if err := p.r.Free(p.held[q.k]); err != nil {
			t.Fatal(err)
		}
		c, err := p.r.Alloc(uint64(q.size), 256)
		if err != nil {
			t.Fatal(err)
		}
		p.held[q.k] = c
	}
	return time.Since(start)
}

// bare is W1 on the yardstick.
type bare struct {
	w    *w1
	a    *yardstick.Allocator
	held []uint32
}

func startBare(w *w1) *bare {
	b := &bare{w, yardstick.New(2*w.peak, len(w.first)), make([]uint32, len(w.first))}
	for i, size := range w.first {
		b.held[i] = b.a.Alloc(size)
	}
	return b
}

func (b *bare) run(t testing.TB, from, to int) time.Duration {
	start := time.Now()
	for _, q := range b.w.pairs[from:to] {
		b.a.Free(b.held[q.k])
		c := b.a.Alloc(uint64(q.size))
		if c == yardstick.None {
			t.Fatal("the yardstick failed")
		}
		b.held[q.k] = c
	}
	return time.Since(start)
}

// BenchmarkPairsOfW1 times Fit and the bare good-fit by turns in one run. The
// metrics are medians over the turns: ns a pair of each, and their ratio;
// quiet-ratio is that of the lower deciles, which other work on the machine
// disturbs least.
func BenchmarkPairsOfW1(b *testing.B) {
	for _, n := range []int{1e3, 1e4, 1e5} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const turn = 4_000
			w := newW1(n, 2*n+64*turn, 1)
			f, y := startFit(b, w, Fit), startBare(w)
			f.run(b, 0, 2*n)
			y.run(b, 0, 2*n)
			var fits, bares, ratios []float64
			at := 2 * n
			b.ReportAllocs()
			for b.Loop() {
				if at+turn > len(w.pairs) {
					at = 2 * n
				}
				tf, ty := f.run(b, at, at+turn), y.run(b, at, at+turn)
				at += turn
				fits = append(fits, float64(tf.Nanoseconds())/turn)
				bares = append(bares, float64(ty.Nanoseconds())/turn)
				ratios = append(ratios, float64(tf)/float64(ty))
			}
			b.ReportMetric(quantile(fits, 0.5), "fit-ns/pair")
			b.ReportMetric(quantile(bares, 0.5), "bare-ns/pair")
			b.ReportMetric(quantile(ratios, 0.5), "ratio")
			b.ReportMetric(quantile(fits, 0.1)/quantile(bares, 0.1), "quiet-ratio")
			s := f.r.Stats()
			b.ReportMetric(float64(s.Bookkeeping)/float64(s.Chunks), "B/chunk")
			b.ReportMetric(float64(s.Scans), "scans")
		})
	}
}

func quantile(v []float64, q float64) float64 {
	slices.Sort(v)
	return v[int(q*float64(len(v)))]
}
