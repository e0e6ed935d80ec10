package pack

import (
	"context"
	"fmt"

	"godwit/mem"
)

// Options bound a search. The zero value searches until the context ends.
type Options struct {
	// Nodes is the number of placements that may be tried, 0 for no limit.
	// Under the same limit the same items give the same result on any machine,
	// as long as the context does not end first.
	Nodes uint64
	// Exact is the largest number of items alive in one unbroken span of time
	// that are searched exhaustively; larger groups are packed by greedy orders
	// and local repair alone. 0 means 2048.
	Exact int
	// Capacity is what a placement may need to be low enough, in bytes. 0 wants the
	// lowest. Result.Bound beyond it says that no placement fits.
	Capacity uint64
}

// Result is a placement of all items, valid even where it is not good enough.
type Result struct {
	Offsets []uint64 // by item, bytes
	Height  uint64   // end of the highest item: the region needed, bytes
	Bound   uint64   // no placement is lower, bytes; at least the peak of live bytes
	Proven  bool     // Height == Bound: no placement is better
	Nodes   uint64   // placements tried
}

// packing is the state of one call.
type packing struct {
	n     int
	comps []*component
	bound int64 // what is low enough: the highest lower bound of all components, or the capacity
	bud   *budget
	opts  Options
}

// newPacking checks and splits the items and gives each component its first
// placement.
func newPacking(ctx context.Context, items []Item, opts Options) (*packing, error) {
	if err := validate(items); err != nil {
		return nil, err
	}
	if opts.Exact < 0 {
		return nil, fmt.Errorf("pack: Options.Exact is %d: it must not be negative: %w", opts.Exact, mem.ErrInvalidValue)
	}
	if opts.Exact == 0 {
		opts.Exact = 2048
	}
	p := &packing{n: len(items), bud: newBudget(ctx, opts.Nodes), opts: opts}
	p.bound = int64(min(opts.Capacity, maxBytes))
	boxes, _ := sections(items)
	first := timeline(items, boxes)
	for _, group := range components(boxes) {
		c := newComponent(group)
		offset := make([]int64, len(group))
		for i := range group {
			offset[i] = first[group[i].id]
		}
		c.adopt(offset)
		p.comps = append(p.comps, c)
		p.bound = max(p.bound, c.lower)
	}
	return p, nil
}

func (p *packing) result() Result {
	r := Result{Offsets: make([]uint64, p.n), Nodes: p.bud.nodes}
	for _, c := range p.comps {
		for i := range c.boxes {
			r.Offsets[c.boxes[i].id] = uint64(c.offset[i])
		}
		r.Height = max(r.Height, uint64(c.height))
		r.Bound = max(r.Bound, uint64(c.lower))
	}
	r.Proven = r.Height == r.Bound
	return r
}

// firstRound is the number of placements each method may try in the first
// round of a search.
const firstRound = 1 << 11

// attempt spends one round of effort on placing c within limit.
func (c *component) attempt(p *packing, limit int64, moves uint64) outcome {
	if len(c.boxes) <= p.opts.Exact {
		if c.search == nil {
			c.search = newPortfolio(c)
		}
		if r := c.search.round(p.bud, limit, moves); r != stopped {
			return r
		}
	}
	if c.wheel == nil {
		c.wheel = newWheel(c)
	}
	return c.wheel.round(p.bud, limit, moves)
}
