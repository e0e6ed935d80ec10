package bufalloc

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// drawn is a region that looks like layout, a letter for each byte: runs of a
// letter are chunks, runs of dots holes. Chunks of capitals are aligned to 4
// bytes, and those of '#' are reserved.
type drawn struct {
	t      *testing.T
	r      *Region
	chunks map[Chunk]byte
}

func draw(t *testing.T, layout string) *drawn {
	d := &drawn{t: t, r: newRegion(t, 0, uint64(len(layout)), Options{Strategy: Tight, Granularity: 1}), chunks: map[Chunk]byte{}}
	var holes []Chunk
	for i := 0; i < len(layout); {
		n := len(layout[i:]) - len(strings.TrimLeft(layout[i:], layout[i:i+1]))
		align := uint64(1)
		if layout[i] >= 'A' && layout[i] <= 'Z' {
			align = 4
		}
		var c Chunk
		var err error
		if layout[i] == '#' {
			c, err = d.r.Reserve(uint64(i), uint64(n))
		} else {
			c, err = d.r.Alloc(uint64(n), align)
		}
		require.NoError(t, err)
		if layout[i] == '.' {
			holes = append(holes, c)
		} else {
			d.chunks[c] = layout[i]
		}
		i += n
	}
	for _, c := range holes {
		require.NoError(t, d.r.Free(c))
	}
	require.Equal(t, layout, d.String())
	return d
}

func (d *drawn) String() string {
	b := []byte(strings.Repeat(".", int(d.r.size)))
	for c, name := range d.chunks {
		x, err := d.r.Range(c)
		require.NoError(d.t, err)
		for i := x.Start; i < x.End; i++ {
			require.EqualValues(d.t, '.', b[i])
			b[i] = name
		}
	}
	return string(b)
}

func TestWhatDefragmentationChooses(t *testing.T) {
	for _, c := range []struct {
		name   string
		goal   float64
		budget uint64   // bytes for each Next
		moved  uint64   // bytes before
		before string   // the region
		then   []string // after the moves of each Next
	}{
		{"what is in one hole stays", 1, 100, 0, "aaa....bb", nil},
		{"the window with the fewest bytes is emptied", 0.5, 100, 0, "...aaa...b...cc...",
			[]string{"b..aaa.......cc..."}},
		{"the largest first, into the smallest hole that takes it", 0.7, 100, 0, "xx..xxx...x.......abb.......xx",
			[]string{"xxbbxxxa..x.................xx"}},
		{"two share a hole", 0.8, 100, 0, "xxxx...xxxxx.....a..b.....yyyy",
			[]string{"xxxxba.xxxxx..............yyyy"}},
		{"not more than the budget", 0.8, 1, 0, "xxxx...xxxxx.....a..b.....yyyy",
			[]string{"xxxxb..xxxxx.....a........yyyy", "xxxxba.xxxxx..............yyyy"}},
		{"reserved chunks stay", 1, 100, 0, "aa...#...bb...cc",
			[]string{"aacc.#...bb.....", "aacc.#bb........"}},
		{"larger holes first where none takes a chunk", 1, 100, 0, "aa.bbbb..c....ddd...ee",
			[]string{"aacbbbb.......ddd...ee", "aacbbbb..........dddee"}},
		{"sliding where nothing else helps, first in the window", 0.55, 12, 0, "#.......BBBBBBBBBBBB###.....DDDDDDDD....####",
			[]string{"#.......BBBBBBBBBBBB###.DDDDDDDD........####", "#...BBBBBBBBBBBB....###.DDDDDDDD........####"}},
		{"several slide at a time", 0.5, 6, 0, "#..bbb..#..ccc..#",
			[]string{"#bbb....#ccc....#"}},
		{"one where the budget is for one", 0.5, 3, 0, "#..bbb..#..ccc..#",
			[]string{"#bbb....#..ccc..#"}},
		{"those that gain little wait", 0.8, 100, 0, "#....bbb....#.ccccc.#",
			[]string{"#bbb........#.ccccc.#"}},
		{"sliding all where that would have cost less by now", 1, 100, 7, "..a....bb...ccc",
			[]string{"a......bb...ccc", "abb.........ccc"}},
		{"but not before", 1, 100, 6, "..a....bb...ccc",
			[]string{"bba.........ccc"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := draw(t, c.before)
			pass, err := d.r.Defrag(c.goal)
			require.NoError(t, err)
			pass.moved = c.moved
			var then []string
			for moves := pass.Next(nil, c.budget); len(moves) > 0 && len(then) < 20; moves = pass.Next(moves[:0], c.budget) {
				sum := uint64(0)
				for _, m := range moves {
					require.NoError(t, pass.Commit(m))
					sum += m.From.Size()
				}
				require.LessOrEqual(t, sum, c.budget)
				require.NoError(t, d.r.Check())
				then = append(then, d.String())
			}
			require.Equal(t, c.then, then)
		})
	}
}

func TestWhileMovesAreOpenTheNextOnesEmptyTheSameWindow(t *testing.T) {
	d := draw(t, "xxxx...xxxxx.....a..b.....yyyy")
	pass, err := d.r.Defrag(0.8)
	require.NoError(t, err)
	first := pass.Next(nil, 1)
	second := pass.Next(nil, 100)
	require.Len(t, append(first, second...), 2)
	require.NotEqual(t, first[0].Chunk, second[0].Chunk)
	require.Empty(t, pass.Next(nil, 100))
	require.Equal(t, 2, pass.Open())
	require.Zero(t, pass.Bound())
	require.NoError(t, d.r.Check())
	require.NoError(t, pass.Commit(second[0]))
	require.NoError(t, pass.Commit(first[0]))
	require.Equal(t, "xxxxba.xxxxx..............yyyy", d.String())
}

// leastToMove is the bound by trying every window.
func leastToMove(d *Defrag) uint64 {
	r := d.r
	want := uint64(math.Ceil(d.goal * float64(r.Stats().Free)))
	least := uint64(math.MaxUint64)
	for at := r.base; at+want <= r.base+r.size; at++ {
		w, cost := mem.Range{Start: at, End: at + want}, uint64(0)
		for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
			if n := &r.nodes[i]; n.live() && w.Overlaps(mem.Range{Start: n.addr, End: n.end()}) {
				if d.fixed(i) {
					cost = math.MaxUint64
					break
				}
				cost += n.size - r.slack(i)
			}
		}
		least = min(least, cost)
	}
	return least
}

func TestTheBoundIsTheCheapestWindow(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		a := newArena(t, 16*seed, 512, Options{Strategy: Tight, Granularity: 1 << rng.IntN(4)})
		if seed%3 == 0 {
			_, err := a.r.Reserve(a.r.base+8*rng.Uint64N(60), 8)
			require.NoError(t, err)
		}
		for range 100 {
			if len(a.keys) > 0 && rng.IntN(20) < 9 {
				a.free(rng.IntN(len(a.keys)))
			} else {
				a.alloc(1+rng.Uint64N(30), 1<<rng.IntN(4), 1)
			}
		}
		d, err := a.r.Defrag(0.3 + 0.6*rng.Float64())
		require.NoError(t, err)
		want := leastToMove(d)
		if d.Done() {
			require.Zero(t, want)
		}
		if want == math.MaxUint64 { // no window is free of what is reserved
			want = 0
		}
		require.Equal(t, want, d.Bound(), "seed %d", seed)
	}
}
