package bufalloc

import (
	"math"

	"godwit/mem"
)

// Hints of how long chunks live (mem.Hint) let Fit place a chunk beside one that
// dies at the same time: the two then leave one hole, and live chunks do not come
// to stand alone between holes.
//
// A hint is believed as long as hints prove true: every free of a hinted chunk
// is held against what was said of it. Where hints are wrong more often than one
// time in four, Fit's own rules place all chunks until they are right again.

// lives is what is known of the lives of a region's chunks.
type lives struct {
	said  []said // by node; the zero said in holes and chunks without a hint
	trust int    // 0 to fullTrust
	last  [2]mem.Hint
}

// said is what a hint said of a chunk: its class, or the operations between
// which it was expected to live.
type said struct {
	class    mem.Hint
	born, up uint64
}

const (
	fullTrust  = 64
	believe    = 16 // hints are followed from this trust on, for little chunks
	proven     = 18 // and from this for all
	firstTrust = 16
	breach     = 3 // what a wrong hint costs, where a right one brings 1

	// Before any hint has proved true nobody knows what hints are worth, and a chunk
	// in the wrong place may stay there. So little is at stake then: only chunks of
	// up to this part of the region.
	unprovenFraction = 2048
)

// reset forgets the chunks. What hints are worth is remembered.
func (l *lives) reset() { clear(l.said) }

// clock counts operations: what hints of a number of operations mean.
func (r *Region) clock() uint64 { return r.s.Allocs + r.s.Frees }

// learn makes Fit keep lives, from the first hint on.
func (r *Region) learn() {
	if r.lives == nil && r.strategy == Fit {
		r.lives, r.watched = &lives{trust: firstTrust}, true
		r.setQuick()
	}
}

// begin takes note of a new chunk.
func (l *lives) begin(i uint32, h mem.Hint, now uint64) {
	for int(i) >= len(l.said) {
		l.said = append(l.said, said{})
	}
	l.said[i] = expect(h, now)
}

func expect(h mem.Hint, now uint64) said {
	if n, ok := h.Ops(); ok {
		return said{born: now, up: now + n}
	}
	return said{class: h}
}

// end holds what was said of chunk i against its free.
func (l *lives) end(i uint32, now uint64) {
	if int(i) >= len(l.said) || l.said[i] == (said{}) {
		return
	}
	s := l.said[i]
	l.said[i] = said{}
	if s.right(now, l.last) {
		l.trust = min(l.trust+1, fullTrust)
	} else {
		l.trust = max(l.trust-breach, 0)
	}
	if s.class != 0 && s.class != l.last[0] {
		l.last = [2]mem.Hint{s.class, l.last[0]}
	}
}

// right reports whether a chunk that dies now does as it was said: within half
// the longer of the two lives, or after others of its class. Two classes may die
// at once; last has the last two seen to die.
func (s said) right(now uint64, last [2]mem.Hint) bool {
	if s.class != 0 {
		return last[1] == 0 || s.class == last[0] || s.class == last[1]
	}
	lived, expected := now-s.born, s.up-s.born
	return apart(lived, expected) <= max(lived, expected)/2
}

func apart(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// The price of a place is the binary logarithm of how many operations apart the
// chunk and its neighbour die, plus a little for a high address. These are the
// best of some thousand tries on half of the streams of docs/allocator.md.
const (
	wallPrice   = 2    // beside the region's end, which never dies
	otherPrice  = 20   // beside a chunk of whose death nothing is known
	heightPrice = 0.3  // for the whole region's height
	blur        = 0.01 // of its life: the longer it is, the less a few operations matter
)

// findByLife picks the cheapest place for the request in progress, which has a
// hint: the low or the high end of any hole that holds it. 0 where none does,
// or hints are not believed.
func (r *Region) findByLife(size, align uint64) (uint32, uint64) {
	l, b, ns := r.lives, r.bins, r.nodes
	if l.trust < believe || l.trust < proven && size > r.size/unprovenFraction {
		return 0, 0
	}
	now := r.clock()
	want := expect(r.hint, now)
	best, addr, least, room := uint32(0), uint64(0), math.Inf(1), uint64(0)
	for k, ok := b.from(binOf(size)); ok; k, ok = b.from(k + 1) {
		for h := b.head[k]; h != 0; h = ns[h].b {
			r.s.ScanSteps++
			n := &ns[h]
			if !holds(n, size, align) {
				continue
			}
			at, price := n.addr+-n.addr&(align-1), l.price(want, n.prev)
			if high := l.price(want, n.next); high < price {
				at, price = (n.end()-size)&^(align-1), high
			}
			price += heightPrice * float64(at-r.base) / float64(r.size)
			if price < least || price == least && (n.size < room || n.size == room && at < addr) {
				best, addr, least, room = h, at, price, n.size
			}
		}
	}
	return best, addr
}

// price is that of a place beside chunk i, for a chunk with these expectations.
func (l *lives) price(want said, i uint32) float64 {
	if i == anchor {
		return wallPrice
	}
	var s said
	if int(i) < len(l.said) {
		s = l.said[i]
	}
	switch {
	case want.class != 0 && s.class == want.class:
		return 0
	case want.class != 0 || s.class != 0 || s == (said{}):
		return otherPrice
	}
	return math.Log2(1 + float64(apart(want.up, s.up))/(1+blur*float64(want.up-want.born)))
}
