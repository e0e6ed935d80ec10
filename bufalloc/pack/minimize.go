package pack

import "context"

// Minimize looks for the placement that needs the smallest region. It returns
// the best found when ctx or the node budget ends, or sooner when that is
// proved to be the best there is. The end of ctx is not an error: even under a
// context that is over already the result is a whole, valid placement. Invalid
// items are the only error.
//
// A component that determines the height is searched at capacities between its
// proven bound and its best placement, the bound itself first, in rounds of
// growing effort, so that one hard component does not keep others from failing fast.
// With Options.Capacity it is searched at that alone.
func Minimize(ctx context.Context, items []Item, opts Options) (Result, error) {
	p, err := newPacking(ctx, items, opts)
	if err != nil {
		return Result{}, err
	}
	for _, c := range p.comps {
		c.greedy(p.bud, p.bound, true)
	}
	for moves := uint64(firstRound); !p.bud.over && !p.hopeless(); moves *= 2 {
		settled := true
		for _, c := range p.comps {
			if c.height > p.bound {
				c.improve(p, moves)
				p.bound = max(p.bound, c.lower)
				settled = settled && c.height <= p.bound
			}
		}
		if settled {
			break
		}
	}
	return p.result(), nil
}

// hopeless reports whether no placement fits the capacity.
func (p *packing) hopeless() bool {
	return p.opts.Capacity != 0 && p.bound > int64(min(p.opts.Capacity, maxBytes))
}

// improve makes one round of attempts at capacities chosen by bisection.
func (c *component) improve(p *packing, moves uint64) {
	floor := max(c.lower, p.bound) // no use in going lower
	limit := floor
	for low := floor; low < c.height && !p.bud.over; {
		switch c.attempt(p, limit, moves) {
		case failed:
			c.lower = limit + 1
			low = max(low, c.lower)
		case stopped:
			low = limit + 1
		}
		if p.opts.Capacity != 0 || c.height-low <= floor>>12 { // a 4096th is not worth a round at this effort
			return
		}
		limit = low + (c.height-1-low)/2
	}
}
