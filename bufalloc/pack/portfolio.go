package pack

import "math/bits"

// arm is one preference order for the exact search.
type arm struct {
	perm   []int32 // place in the order -> box of the component
	search *search
	id     uint64 // tells its entries in the memo from other arms'
}

// portfolio runs the exact search under several preference orders in turn. The
// time to a solution is heavy-tailed: an order that is hopeless for one
// instance solves another at once, and a little noise in an order can decide.
// So half of each round's effort goes to a few fixed orders with a budget that
// grows from round to round, which in the end proves what cannot be placed, and
// half to short restarts under noisy orders whose lengths follow Luby's
// sequence (Luby, Sinclair and Zuckerman, "Optimal speedup of Las Vegas
// algorithms", 1993).
type portfolio struct {
	c        *component
	memo     *memo
	fixed    []arm
	restarts uint64 // made so far
}

// fixedOrders are the preference orders run without noise.
var fixedOrders = []order{byArea, byTotal, byWidth, bySize}

// noisy are the kinds of restarts, taken in turn.
var noisy = []struct {
	order order
	noise float64
}{{byArea, 0.3}, {byWidth, 1}, {byTotal, 0.3}, {byArea, 1}, {byWidth, 0.1}, {bySize, 1}, {byTotal, 1}, {byArea, 0.1}}

// restartUnit is the number of placements of the shortest restart.
const restartUnit = 1 << 10

func newPortfolio(c *component) *portfolio {
	p := &portfolio{c: c, memo: newMemo(memoBits(len(c.boxes)))}
	for k, o := range fixedOrders {
		p.fixed = append(p.fixed, p.arm(o, 0, uint64(k)))
	}
	return p
}

// memoBits sizes the table of failed states: from 4096 slots up to 2^18 (6 MiB).
func memoBits(n int) int { return min(18, 12+bits.Len(uint(n))) }

func (p *portfolio) arm(o order, noise float64, id uint64) arm {
	perm := permutation(p.c.boxes, keys(p.c.boxes, p.c.load, o, noise, id))
	boxes := make([]box, len(perm))
	for k, i := range perm {
		boxes[k] = p.c.boxes[i]
	}
	return arm{perm, newSearch(boxes, p.c.m, p.memo), id}
}

// round gives every fixed order a budget of nodes, and as many in all to
// restarts.
func (p *portfolio) round(bud *budget, limit int64, nodes uint64) outcome {
	for _, a := range p.fixed {
		if r := p.try(a, bud, limit, nodes); r != stopped || bud.over {
			return r
		}
	}
	for left := nodes * uint64(len(p.fixed)); left > 0; {
		p.restarts++
		kind := noisy[p.restarts%uint64(len(noisy))]
		length := min(restartUnit*luby(p.restarts), left)
		left -= length
		a := p.arm(kind.order, kind.noise, uint64(len(p.fixed))+p.restarts)
		if r := p.try(a, bud, limit, length); r != stopped || bud.over {
			return r
		}
	}
	return stopped
}

func (p *portfolio) try(a arm, bud *budget, limit int64, nodes uint64) outcome {
	p.memo.seed = mix(mix(uint64(limit)) + a.id)
	r := a.search.run(bud, limit, nodes)
	if r == found {
		offset := make([]int64, len(a.perm))
		for k, i := range a.perm {
			offset[i] = a.search.offset[k]
		}
		p.c.adopt(offset)
	}
	return r
}

// luby returns the i-th number, from 1, of 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...
func luby(i uint64) uint64 {
	for {
		n := bits.Len64(i)
		if i == 1<<n-1 {
			return 1 << (n - 1)
		}
		i -= 1<<(n-1) - 1
	}
}
