package pack

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// order is a rule by which items are taken when they are placed one by one,
// the most awkward first. Ties go to the longer lifetime, then to the item that
// comes first in the list.
type order uint8

const (
	// bySize takes the largest items first.
	bySize order = iota
	// byArea takes items of the largest size x lifetime first; lifetimes are
	// counted in sections, the instants that differ from their neighbours.
	byArea
	// byWidth takes the longest-lived items first.
	byWidth
	// byTotal takes items first that live through the fullest section.
	byTotal
	// byStart takes items in order of time, which is what an online first fit
	// does.
	byStart
)

// keys returns the weight of each box under an order: larger goes first. Noise
// above 0 multiplies each weight by up to 1+noise, drawn from seed.
func keys(boxes []box, load []int64, o order, noise float64, seed uint64) []float64 {
	ks := make([]float64, len(boxes))
	peak := newMaxTable(nil)
	if o == byTotal {
		peak = newMaxTable(load)
	}
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	for i := range boxes {
		b := &boxes[i]
		width := float64(b.hi - b.lo)
		switch o {
		case bySize:
			ks[i] = float64(b.size)
		case byArea:
			ks[i] = float64(b.size) * width
		case byWidth:
			ks[i] = width
		case byTotal:
			ks[i] = float64(peak.max(b.lo, b.hi))
		case byStart:
			ks[i] = -float64(b.lo)
		}
		if noise > 0 {
			f := float64(noise * rng.Float64()) // rounded here: no fused multiply-add, one result everywhere
			ks[i] *= 1 + f
		}
	}
	return ks
}

// permutation returns the indices of boxes, the largest key first.
func permutation(boxes []box, ks []float64) []int32 {
	p := make([]int32, len(boxes))
	for i := range p {
		p[i] = int32(i)
	}
	slices.SortFunc(p, func(a, b int32) int {
		x, y := &boxes[a], &boxes[b]
		return cmp.Or(cmp.Compare(ks[b], ks[a]), cmp.Compare(y.hi-y.lo, x.hi-x.lo), cmp.Compare(y.size, x.size), cmp.Compare(x.id, y.id))
	})
	return p
}

// maxTable answers the largest of a range of values in constant time after
// O(n log n) preparation: row k holds the maxima of runs of 2^k.
type maxTable struct{ rows [][]int64 }

func newMaxTable(values []int64) *maxTable {
	t := &maxTable{rows: [][]int64{values}}
	for w := 1; 2*w <= len(values); w *= 2 {
		last := t.rows[len(t.rows)-1]
		row := make([]int64, len(values)-2*w+1)
		for i := range row {
			row[i] = max(last[i], last[i+w])
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// max returns the largest value of [lo, hi), which must not be empty.
func (t *maxTable) max(lo, hi int32) int64 {
	k, w := 0, int32(1)
	for 2*w <= hi-lo {
		k, w = k+1, 2*w
	}
	return max(t.rows[k][lo], t.rows[k][hi-w])
}
