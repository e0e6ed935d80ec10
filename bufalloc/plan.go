package bufalloc

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"godwit/mem"
)

// Planned is one allocation of a recorded run, and where a packer that knew all lifetimes
// put it. It lived in [Lower, Upper), in any unit of time.
type Planned struct {
	Lower, Upper uint64
	Size         uint64 // bytes asked for
	Offset       uint64 // bytes from the region's start
}

// Plan is a recorded run of a program, packed: Options.Plan places later runs by it.
// bufalloc/pack makes plans and reads those that godwit pack wrote. Immutable; any number
// of regions may follow one.
type Plan struct {
	items  []item // in the order of their allocation
	frees  []int  // the items freed, in that order
	grams  []gram // by sum, then place
	bySize [65][]int
	height uint64
}

// item is a Planned whose time is the number of allocations.
type item struct {
	size, offset uint64
	until        int // allocations that the run had made when it was freed
}

// NewPlan makes a plan of a run's allocations, which it sorts by Lower; where two are the
// same, their order stays. It fails with mem.ErrInvalidSize or mem.ErrInvalidValue for a size of 0, an
// empty life, and an end beyond 2^62. Whether offsets overlap is not asked: a chunk lies
// where the plan says only if that is free.
func NewPlan(run []Planned) (*Plan, error) {
	p := &Plan{items: make([]item, len(run)), frees: make([]int, len(run))}
	for i, x := range run {
		switch {
		case x.Size == 0 || x.Size > 1<<62 || x.Offset > 1<<62-x.Size:
			return nil, fmt.Errorf("plan: allocation %d of %d bytes at %d: want 1 byte or more, ending by 2^62: %w", i, x.Size, x.Offset, mem.ErrInvalidSize)
		case x.Lower >= x.Upper:
			return nil, fmt.Errorf("plan: allocation %d lives in [%d, %d): a lifetime must not be empty: %w", i, x.Lower, x.Upper, mem.ErrInvalidValue)
		}
		p.height = max(p.height, x.Offset+x.Size)
	}
	slices.SortStableFunc(run, func(a, b Planned) int { return cmp.Compare(a.Lower, b.Lower) })
	for i, x := range run {
		until, _ := slices.BinarySearchFunc(run, x.Upper, func(y Planned, at uint64) int { return cmp.Compare(y.Lower, at) })
		p.items[i], p.frees[i] = item{x.Size, x.Offset, until}, i
		c := bits.Len64(x.Size)
		p.bySize[c] = append(p.bySize[c], i)
	}
	slices.SortStableFunc(p.frees, func(a, b int) int { return cmp.Compare(run[a].Upper, run[b].Upper) })
	p.index()
	return p, nil
}

// Height is the bytes that the plan needs: in a region of that size the recorded run fits.
func (p *Plan) Height() uint64 { return p.height }

// gram is the sizes of some allocations in a row, by which a run that has left its plan
// finds back.
type gram struct {
	sum uint64
	at  int // items that have been allocated behind them
}

const gramLength = 8

func (g gram) compare(h gram) int { return cmp.Or(cmp.Compare(g.sum, h.sum), cmp.Compare(g.at, h.at)) }

// roll is the sum of the last sizes, one of which is new and one of which goes.
func roll(sum, size uint64) uint64 { return sum<<(64/gramLength) ^ size*0x9E3779B97F4A7C15>>3 }

func (p *Plan) index() {
	sum := uint64(0)
	for i, x := range p.items {
		if sum = roll(sum, x.size); i+1 >= gramLength {
			p.grams = append(p.grams, gram{sum, i + 1})
		}
	}
	slices.SortFunc(p.grams, gram.compare)
}

// find is the first place behind `from`, or else the first of all, that comes after
// allocations of these sizes; ok is false where none does.
func (p *Plan) find(sum uint64, from int) (at int, ok bool) {
	for _, at := range [2]int{from, 0} {
		if k, _ := slices.BinarySearchFunc(p.grams, gram{sum, at}, gram.compare); k < len(p.grams) && p.grams[k].sum == sum {
			return p.grams[k].at, true
		}
	}
	return 0, false
}

// servedByFit reports whether Fit alone places the recorded run in such a region.
func (p *Plan) servedByFit(size, granule uint64) bool {
	r, err := NewRegion(0, size, Options{Granularity: granule})
	chunks, next := make([]Chunk, len(p.items)), 0
	for i := 0; i < len(p.items) && err == nil; i++ {
		for ; p.items[p.frees[next]].until <= i; next++ {
			_ = r.Free(chunks[p.frees[next]]) // it is live: its life is not empty
		}
		chunks[i], err = r.Alloc(p.items[i].size, granule)
	}
	return err == nil
}
