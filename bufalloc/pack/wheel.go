package pack

import (
	"cmp"
	"slices"
)

// wheel improves a greedy order by its failures: boxes that stick out above the
// limit move forward in the order, and the pass is made again. This is squeaky
// wheel optimization (Joslin and Clements, JAIR 1999). A short repair follows
// each pass. After a number of turns it starts anew from another order, from
// the second time on with noise.
type wheel struct {
	c     *component
	place []float64 // by box, position in the order: the lowest goes first
	perm  []int32
	turns int
}

// turnsPerOrder is after how many passes an order has shown what it can.
const turnsPerOrder = 12

func newWheel(c *component) *wheel {
	return &wheel{c: c, place: make([]float64, len(c.boxes))}
}

// round makes passes worth about so many placements, one at least. It never
// proves anything: its outcome is found or stopped.
func (w *wheel) round(bud *budget, limit int64, moves uint64) outcome {
	c := w.c
	if c.layout == nil {
		c.layout = newLayout(c.boxes)
	}
	for start := bud.nodes; ; {
		w.turn()
		if !c.pass(bud, w.perm) {
			return stopped
		}
		c.adopt(c.layout.offset)
		w.squeak(limit)
		if c.height > limit && newRepairer(c.layout).run(limit, bud, fewMoves+uint64(len(c.boxes)/fewMoves)) {
			c.adopt(c.layout.offset)
		}
		switch {
		case c.height <= limit:
			return found
		case bud.over || bud.nodes-start >= moves:
			return stopped
		}
	}
}

// turn sets perm for the next pass.
func (w *wheel) turn() {
	c := w.c
	if again := w.turns / turnsPerOrder; w.turns%turnsPerOrder == 0 {
		noise := 0.0
		if again >= len(allOrders) {
			noise = 0.2
		}
		w.perm = permutation(c.boxes, keys(c.boxes, c.load, allOrders[again%len(allOrders)], noise, uint64(again)))
		for k, i := range w.perm {
			w.place[i] = float64(k)
		}
	} else {
		slices.SortFunc(w.perm, func(a, b int32) int {
			return cmp.Or(cmp.Compare(w.place[a], w.place[b]), cmp.Compare(a, b))
		})
	}
	w.turns++
}

// squeak moves forward what sticks out of the last pass.
func (w *wheel) squeak(limit int64) {
	for i := range w.place {
		if w.c.layout.offset[i]+w.c.boxes[i].size > limit {
			w.place[i] = w.place[i]/2 - 1
		}
	}
}
