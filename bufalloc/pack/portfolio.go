package pack

// arm is one preference order for the exact search.
type arm struct {
	perm   []int32 // place in the order -> box of the component
	search *search
}

// portfolio runs the exact search under several preference orders in turn: an
// order that is hopeless for one instance solves another at once. Each round
// grows the budget and adds orders perturbed by noise, as restarts do.
type portfolio struct {
	c    *component
	memo *memo
	arms []arm
	seed uint64
}

func newPortfolio(c *component) *portfolio {
	p := &portfolio{c: c, memo: newMemo(memoBits(len(c.boxes)))}
	for _, o := range []Order{ByArea, ByTotal, ByWidth, BySize} {
		p.add(o, 0)
	}
	return p
}

// memoBits sizes the table of failed states: 4096 slots for the smallest
// problems, 2^18 (6 MiB) from 64 boxes on.
func memoBits(n int) int {
	bits := 12
	for n > 8 && bits < 18 {
		n, bits = n/2, bits+2
	}
	return bits
}

func (p *portfolio) add(o Order, noise float64) {
	p.seed++
	perm := permutation(p.c.boxes, keys(p.c.boxes, p.c.load, o, noise, p.seed))
	boxes := make([]box, len(perm))
	for k, i := range perm {
		boxes[k] = p.c.boxes[i]
	}
	p.arms = append(p.arms, arm{perm, newSearch(boxes, p.c.m, p.memo)})
}

// round gives every arm a budget of placements.
func (p *portfolio) round(bud *budget, limit int64, nodes uint64) outcome {
	for k := range p.arms {
		a := &p.arms[k]
		p.memo.seed = mix(uint64(limit)<<8 + uint64(k))
		switch a.search.run(bud, limit, nodes) {
		case failed:
			return failed
		case found:
			offset := make([]int64, len(a.perm))
			for k, i := range a.perm {
				offset[i] = a.search.offset[k]
			}
			p.c.adopt(offset)
			return found
		}
		if bud.over {
			return stopped
		}
	}
	// The next round's newcomers replace this round's.
	p.arms = p.arms[:4]
	p.add(ByTotal, 0.3)
	p.add(ByArea, 0.3)
	return stopped
}
