package pack

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// draw makes n boxes over m sections.
func draw(rng *rand.Rand, n, m int) []box {
	boxes := make([]box, n)
	for i := range boxes {
		lo := rng.Int32N(int32(m))
		boxes[i] = box{lo: lo, hi: lo + 1 + rng.Int32N(int32(m)-lo), id: int32(i), size: 1 + rng.Int64N(100), align: 1}
	}
	return boxes
}

func TestIndexAgreesWithComparingAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		boxes := draw(rng, 1+rng.IntN(100), 1+rng.IntN(60))
		x := newIndex(boxes)
		placed := make([]bool, len(boxes))
		for range 200 {
			i := rng.Int32N(int32(len(boxes)))
			if placed[i] {
				x.remove(i)
			} else {
				x.insert(i, boxes[i].hi)
			}
			placed[i] = !placed[i]
			q := &boxes[rng.IntN(len(boxes))]
			var want []int32
			for j := range boxes {
				if placed[j] && boxes[j].overlaps(q) {
					want = append(want, int32(j))
				}
			}
			got := x.query(q.lo, q.hi, nil)
			slices.Sort(got)
			require.Equal(t, want, got)
		}
		x.reset()
		require.Empty(t, x.query(0, 1<<30, nil))
	}
}

func TestLowestAndCheapestAgreeWithTryingEveryOffset(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		boxes := draw(rng, 12, 6)
		for i := range boxes {
			boxes[i].align = 1 << rng.IntN(4)
		}
		l := newLayout(boxes)
		for i := range boxes[1:] {
			l.put(int32(i+1), l.lowest(int32(i+1)))
		}
		price := func(r *repairer, p int64) (sum int64) {
			for j := range boxes[1:] {
				o := &boxes[j+1]
				if off := l.offset[j+1]; o.overlaps(&boxes[0]) && off < p+boxes[0].size && p < off+o.size {
					sum += r.cost(int32(j + 1))
				}
			}
			return sum
		}
		r := newRepairer(l)
		for i := range r.weight {
			r.weight[i] = 1 + rng.Int64N(5)
		}
		limit := boxes[0].size + rng.Int64N(200)
		best, first := none, int64(-1)
		for p := int64(0); ; p += boxes[0].align {
			c := price(r, p)
			if p+boxes[0].size <= limit {
				best = min(best, c)
			}
			if c == 0 {
				first = p
				break
			}
		}
		require.Equal(t, first, l.lowest(0))
		at := r.cheapest(0, limit)
		require.Zero(t, at%boxes[0].align)
		require.LessOrEqual(t, at+boxes[0].size, limit)
		for p := int64(0); p+boxes[0].size <= limit; p += boxes[0].align {
			best = min(best, price(r, p))
		}
		require.Equal(t, best, price(r, at))
	}
}

func TestMaxTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	values := make([]int64, 37)
	for i := range values {
		values[i] = rng.Int64N(1000)
	}
	table := newMaxTable(values)
	for lo := range values {
		for hi := lo + 1; hi <= len(values); hi++ {
			require.Equal(t, slices.Max(values[lo:hi]), table.max(int32(lo), int32(hi)))
		}
	}
}

func TestLuby(t *testing.T) {
	var got []uint64
	for i := uint64(1); i <= 15; i++ {
		got = append(got, luby(i))
	}
	require.Equal(t, []uint64{1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8}, got)
}

func TestSectionsKeepExactlyTheOverlaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		items := make([]Item, 1+rng.IntN(20))
		for i := range items {
			lower := rng.Uint64N(12)
			items[i] = Item{Lower: lower, Upper: lower + 1 + rng.Uint64N(6), Size: 1 + rng.Uint64N(9)}
		}
		boxes, m := sections(items)
		for i := range items {
			require.Less(t, boxes[i].lo, boxes[i].hi)
			require.LessOrEqual(t, int(boxes[i].hi), m)
			for j := range items {
				alive := items[i].Lower < items[j].Upper && items[j].Lower < items[i].Upper
				require.Equal(t, alive, boxes[i].overlaps(&boxes[j]))
			}
		}
		peak := int64(0)
		for _, at := range items {
			live := int64(0)
			for _, it := range items {
				if it.Lower <= at.Lower && at.Lower < it.Upper {
					live += int64(it.Size)
				}
			}
			peak = max(peak, live)
		}
		require.Equal(t, peak, slices.Max(loads(boxes, m)))
		n := 0
		for _, group := range components(boxes) {
			n += len(group)
			require.Zero(t, group[0].lo)
		}
		require.Equal(t, len(items), n)
	}
}

func TestMemoOnlyHoldsForStatesThatAllowNoMore(t *testing.T) {
	m := newMemo(4)
	require.False(t, m.failed(5, mark{-1, -1}))
	m.store(5, mark{10, 3})
	for k, want := range map[mark]bool{{10, 3}: true, {10, 4}: true, {11, 0}: true, {10, 2}: false, {9, 7}: false, {-1, -1}: false} {
		require.Equal(t, want, m.failed(5, k), "%v", k)
		require.False(t, m.failed(7, k))
	}
}

// A search cut short and run again, with what it remembers, ends as one that
// was never interrupted: the memory must not hide placements.
func TestMemoryHidesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for range 300 {
		boxes := components(draw(rng, 9, 6))[0]
		m := 0
		for i := range boxes {
			m = max(m, int(boxes[i].hi))
		}
		least := slices.Max(loads(boxes, m))
		for limit := least; ; limit++ {
			fresh := newSearch(boxes, m, newMemo(1)) // two slots remember next to nothing
			want := fresh.run(newBudget(context.Background(), 0), limit, 1<<40)
			again, got := newSearch(boxes, m, newMemo(12)), stopped
			for nodes := uint64(1); got == stopped; nodes++ {
				got = again.run(newBudget(context.Background(), 0), limit, nodes)
			}
			require.Equal(t, want, got)
			if got == found {
				break
			}
		}
	}
}

// support leaves off early; it must not do so too early.
func TestSupportAgreesWithAskingEveryBox(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 2))
	for range 3000 {
		boxes := draw(rng, 2+rng.IntN(8), 3)
		s := newSearch(boxes, 3, newMemo(1))
		list := make([]entry, len(boxes))
		for i := range list {
			boxes[i].size, boxes[i].align = 1+rng.Int64N(3), 1<<rng.IntN(3)
			list[i] = entry{idx: int32(i), eff: rng.Int64N(6)}
			s.eff[i] = list[i].eff + rng.Int64N(2) // bounds only rise
		}
		slices.SortFunc(list, func(a, b entry) int {
			if a.before(&b) {
				return -1
			}
			return 1
		})
		copy(s.boxes, boxes)
		c, i := &list[rng.IntN(len(list))], rng.Int32N(int32(len(list)))
		want := none
		for j := range boxes {
			if j := int32(j); j != i && j != c.idx && boxes[j].overlaps(&boxes[i]) {
				want = min(want, s.eff[j]+boxes[j].size)
			}
		}
		if want != none {
			want = alignUp(want, boxes[i].align)
		}
		require.Equal(t, want, s.support(list, c, i))
	}
}
