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
}

// Result is a placement of all items, valid even where it is not good enough.
type Result struct {
	Offsets []uint64 // by item, bytes
	Height  uint64   // end of the highest item: the region needed, bytes
	Bound   uint64   // no placement is lower, bytes; at least the peak of live bytes
	Proven  bool     // Height == Bound: no placement is better
	Nodes   uint64   // placements tried
}

// Ratio returns Height / Bound, 1 for no items.
func (r Result) Ratio() float64 {
	if r.Bound == 0 {
		return 1
	}
	return float64(r.Height) / float64(r.Bound)
}

// packing is the state of one call.
type packing struct {
	n     int
	comps []*component
	bound int64 // the highest lower bound of all components
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

// Solve looks for a placement of all items within capacity bytes. It tries the
// greedy orders first and then searches, exhaustively where the items are few
// enough. It returns an error that wraps ErrInfeasible when it has proved that
// there is none, and one that wraps ErrUnsolved when ctx or the node budget
// ended first (and the context's error, if that was it). Beside either error
// Result holds the lowest placement found, which needs more than capacity.
//
// Solve starts no goroutine and is safe for concurrent use on shared items as
// long as nobody changes them.
func Solve(ctx context.Context, items []Item, capacity uint64, opts Options) (Result, error) {
	p, err := newPacking(ctx, items, opts)
	if err != nil {
		return Result{}, err
	}
	limit := int64(min(capacity, maxBytes))
	if p.bound > limit {
		r := p.result()
		return r, fmt.Errorf("pack: %d bytes are alive at once but the capacity is %d: %w", r.Bound, capacity, ErrInfeasible)
	}
	var open []*component
	for _, c := range p.comps {
		if c.greedy(p.bud, limit, allOrders, true); c.height > limit {
			open = append(open, c)
		}
	}
	// Rounds of growing effort, so that one hard component does not keep the
	// others from failing fast.
	for moves := uint64(firstRound); len(open) > 0 && !p.bud.over; moves *= 2 {
		left := open[:0]
		for _, c := range open {
			switch c.attempt(p, limit, moves) {
			case failed:
				c.lower = max(c.lower, limit+1)
				return p.result(), fmt.Errorf("pack: searched all placements of %d items in %d bytes: %w", len(c.boxes), capacity, ErrInfeasible)
			case stopped:
				left = append(left, c)
			}
		}
		open = left
	}
	r := p.result()
	if r.Height > capacity {
		return r, unsolved(ctx, r, capacity)
	}
	return r, nil
}

func unsolved(ctx context.Context, r Result, capacity uint64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pack: %d placements tried, best height %d of %d: %w (%w)", r.Nodes, r.Height, capacity, ErrUnsolved, err)
	}
	return fmt.Errorf("pack: %d placements tried, best height %d of %d: %w", r.Nodes, r.Height, capacity, ErrUnsolved)
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
