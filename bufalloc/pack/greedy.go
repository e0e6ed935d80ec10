package pack

import "context"

// Greedy places the items without search: in order of time as an online best
// fit would, and then once for each order, each item at the lowest offset where it
// fits among those placed. The lowest placement found is returned, always a whole
// one: when ctx ends, orders not yet tried are left out. A pass over n items that
// overlap in k pairs costs O((n + k) log n). Invalid items are the only error.
func Greedy(ctx context.Context, items []Item) (Result, error) {
	p, err := newPacking(ctx, items, Options{})
	if err != nil {
		return Result{}, err
	}
	for _, c := range p.comps {
		c.greedy(p.bud, p.bound, false)
	}
	return p.result(), nil
}

// allOrders in the order in which they pay off most often.
var allOrders = []order{byTotal, bySize, byArea, byStart, byWidth}

// component is a group of items that share no time with any other, and the
// lowest placement known of it.
type component struct {
	boxes  []box      // immutable
	m      int        // sections; immutable
	load   []int64    // bytes alive, by section; immutable
	lower  int64      // proven: no placement is lower
	height int64      // of the placement
	offset []int64    // the placement, by box
	layout *layout    // scratch for greedy and repair
	search *portfolio // nil until needed
	wheel  *wheel     // nil until needed
}

func newComponent(boxes []box) *component {
	c := &component{boxes: boxes, offset: make([]int64, len(boxes))}
	for i := range boxes {
		c.m = max(c.m, int(boxes[i].hi))
	}
	c.load = loads(boxes, c.m)
	for _, l := range c.load {
		c.lower = max(c.lower, l)
	}
	return c
}

// adopt keeps a placement if it is lower than the one known.
func (c *component) adopt(offset []int64) bool {
	h := int64(0)
	for i := range c.boxes {
		h = max(h, offset[i]+c.boxes[i].size)
	}
	if c.height != 0 && h >= c.height {
		return false
	}
	c.height = h
	copy(c.offset, offset)
	return true
}

// greedy tries orders until one is no higher than enough, with a few moves of
// repair after each if asked for.
func (c *component) greedy(bud *budget, enough int64, mend bool) {
	if c.height <= enough {
		return
	}
	if c.layout == nil {
		c.layout = newLayout(c.boxes)
	}
	for _, o := range allOrders {
		if !c.pass(bud, permutation(c.boxes, keys(c.boxes, c.load, o, 0, 0))) {
			return
		}
		c.adopt(c.layout.offset)
		if mend && c.height > enough && newRepairer(c.layout).run(enough, bud, fewMoves) {
			c.adopt(c.layout.offset)
		}
		if c.height <= enough {
			return
		}
	}
}

// fewMoves is enough to mend a placement in which a handful of boxes stick out.
const fewMoves = 64

// pass places every box at its lowest offset in the order of perm.
func (c *component) pass(bud *budget, perm []int32) bool {
	c.layout.reset()
	for _, i := range perm {
		if !bud.spend() {
			return false
		}
		c.layout.put(i, c.layout.lowest(i))
	}
	return true
}
