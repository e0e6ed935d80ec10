package bufalloc

import (
	"cmp"
	"slices"
)

// gain is a move that gather considers.
type gain struct {
	chunk  uint32
	perOne float64 // growth of the sum of squares of holes, for a byte moved
	slide  bool    // into the hole right before it; else to another hole
}

// gather proposes the moves that raise the sum of the squares of all holes
// most for a byte moved. Every such move brings the holes nearer to being one,
// so gathering comes to an end.
func (d *Defrag) gather(dst []Move, budget uint64) []Move {
	r := d.r
	d.holes = d.holes[:0]
	var gains []gain
	for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
		if !r.nodes[i].live() {
			d.holes = append(d.holes, i)
		}
	}
	slices.SortFunc(d.holes, d.bySize)
	for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
		if g, ok := d.gainOf(i, budget); ok {
			gains = append(gains, g)
		}
	}
	slices.SortFunc(gains, func(a, b gain) int { return cmp.Or(cmp.Compare(b.perOne, a.perOne), cmp.Compare(a.chunk, b.chunk)) })
	spent := map[uint32]bool{} // holes that a proposal has used or counted on
	for _, g := range gains {
		n := &r.nodes[g.chunk]
		if n.size > budget || g.perOne < gains[0].perOne/16 {
			continue
		}
		p, x := n.prev, n.next
		if spent[p] || spent[x] || g.slide && r.nodes[p].live() {
			continue
		}
		h, addr := p, uint64(0)
		if g.slide {
			addr = r.nodes[p].addr
			r.remove(h)
			r.take(h)
		} else {
			k := d.tightest(g.chunk)
			if k < 0 || spent[d.holes[k]] {
				continue
			}
			h = d.takeHole(k)
			addr = r.nodes[h].addr
			h = r.carve(h, addr, n.size)
			r.take(h)
		}
		budget -= r.nodes[g.chunk].size
		spent[p], spent[x], spent[h] = true, true, true
		spent[r.nodes[h].prev], spent[r.nodes[h].next] = true, true
		dst = append(dst, d.propose(g.chunk, h, addr))
	}
	return dst
}

// tightest is the place in d.holes of the smallest hole that holds chunk i and
// starts at a multiple of its alignment and does not border on it, or -1.
func (d *Defrag) tightest(i uint32) int {
	ns := d.r.nodes
	n := &ns[i]
	align := d.align(i)
	return d.smallest(n.size, func(h uint32) bool {
		return h != n.prev && h != n.next && !ns[h].live() && ns[h].addr&(align-1) == 0
	})
}

// gainOf is the better of chunk i's two moves; ok is false where neither helps.
func (d *Defrag) gainOf(i uint32, budget uint64) (g gain, ok bool) {
	ns := d.r.nodes
	n := &ns[i]
	if !n.live() || n.size > budget || d.fixed(i) {
		return g, false
	}
	hole := func(i uint32) float64 {
		if ns[i].live() {
			return 0
		}
		return float64(ns[i].size)
	}
	before, behind, size := hole(n.prev), hole(n.next), float64(n.size)
	if before+behind == 0 {
		return g, false
	}
	align := d.align(i)
	if behind > 0 && before > 0 && ns[n.prev].addr&(align-1) == 0 {
		g = gain{i, 2 * before * behind / size, true}
	}
	if k := d.tightest(i); k >= 0 {
		h := float64(ns[d.holes[k]].size)
		all := before + size + behind
		if per := (all*all - before*before - behind*behind + (h-size)*(h-size) - h*h) / size; per > g.perOne {
			g = gain{i, per, false}
		}
	}
	return g, g.perOne > 0
}
