package bufalloc

import "math/bits"

// Bins hold the holes by size: one list for each size below 64, then 64 to an
// octave. A bit in a two-level map says which lists are not empty.
const (
	subBits  = 6
	subCount = 1 << subBits
	octaves  = 64 - subBits + 1
)

// binOf is the bin in which a hole of that size lies.
func binOf(size uint64) uint32 {
	if size < subCount {
		return uint32(size)
	}
	e := uint32(bits.Len64(size)) - subBits
	return e<<subBits | uint32(size>>(e-1))&(subCount-1)
}

// bins is the order of holes under Fit and GoodFit. A list is edited without
// branches where that is possible: nodes[0] takes the writes that go past its
// ends (see node). On random sizes every branch saved is a misprediction saved.
type bins struct {
	fit   bool
	order uint32 // all ones under Fit: heads are ordered by address
	top   uint64 // bit o: sub[o] is not 0
	sub   [octaves + 4]uint64
	head  [octaves*subCount + 1]uint32 // one more than there are: see Alloc
	count int
	rules
}

func (b *bins) reset(size uint64) {
	*b = bins{fit: b.fit}
	if b.fit {
		b.order = ^uint32(0)
	}
	b.rules.resize(size)
}

// below is 1 where x < y, else 0, for x and y less than 2^63 apart: a comparison
// that is never mispredicted.
func below(x, y uint64) uint64 { return (x - y) >> 63 }

// insert puts hole i at its bin's head, or second where the head is at a lower
// address and the strategy is Fit.
func (b *bins) insert(ns []node, i uint32) {
	n := &ns[i]
	bin := binOf(n.size)
	h := b.head[bin]
	b.sub[bin>>subBits] |= 1 << (bin & (subCount - 1))
	b.top |= 1 << (bin >> subBits)
	b.count++
	swap := (i ^ h) & b.order & -uint32(below(ns[h].addr, n.addr)) // never with nodes[0]
	first, second := i^swap, h^swap
	// What follows second: where i is first, what followed h before, which is
	// linked to it already.
	third := ns[h].b
	b.head[bin] = first
	ns[first].a = 0
	ns[first].b = second
	ns[second].a = first
	ns[second].b = third
	ns[third].a = second
}

// remove takes hole i out of its bin.
func (b *bins) remove(ns []node, i uint32) { b.unlink(ns, i, binOf(ns[i].size)) }

func (b *bins) unlink(ns []node, i, bin uint32) {
	n := &ns[i]
	p, x := n.a, n.b
	b.count--
	ns[x].a = p
	if p != 0 {
		ns[p].b = x
		return
	}
	b.behead(bin, x)
}

// scant is how many holes are few enough that most are alone in their bins, so
// that it pays to change them in place. Where they are many, the questions that this
// takes are answered at random, and cost more than taking holes out and putting
// others in.
const scant = 32

// rebin moves hole i from a bin to that of its size, after it has changed.
func (b *bins) rebin(ns []node, i, from uint32) {
	n := &ns[i]
	to := binOf(n.size)
	h := b.head[to]
	// One question for three: it is alone, and the new bin is empty or the same.
	if uint64(n.a|n.b)|uint64(h)*uint64(h^i) == 0 {
		o := from >> subBits
		b.head[from] = 0
		b.sub[o] &^= 1 << (from & (subCount - 1))
		b.top &^= isZero(b.sub[o]) << o
		o = to >> subBits
		b.head[to] = i
		b.sub[o] |= 1 << (to & (subCount - 1))
		b.top |= 1 << o
		return
	}
	b.unlink(ns, i, from)
	b.insert(ns, i)
}

// isZero is 1 for 0, else 0.
func isZero(m uint64) uint64 {
	if m == 0 {
		return 1
	}
	return 0
}

// behead makes x, or nothing where x is 0, the first hole of a bin.
func (b *bins) behead(bin, x uint32) {
	b.head[bin] = x
	if x == 0 {
		o := bin >> subBits
		b.sub[o] &^= 1 << (bin & (subCount - 1))
		if b.sub[o] == 0 {
			b.top &^= 1 << o
		}
	}
}

// from is the first bin at or above bin that is not empty; ok is false where
// all are.
func (b *bins) from(bin uint32) (uint32, bool) {
	o := bin >> subBits
	if o >= octaves {
		return 0, false
	}
	if m := b.sub[o] >> (bin & (subCount - 1)); m != 0 {
		return bin + uint32(bits.TrailingZeros64(m)), true
	}
	t := b.top >> 1 >> o << 1 << o
	if t == 0 {
		return 0, false
	}
	o = uint32(bits.TrailingZeros64(t))
	return o<<subBits | uint32(bits.TrailingZeros64(b.sub[o])), true
}

// holds reports whether n has room for size bytes at a multiple of align.
func holds(n *node, size, align uint64) bool {
	return n.size >= size && n.size-size >= -n.addr&(align-1)
}

// find picks a hole for size bytes at a multiple of align, and the address in
// it. Alloc has the most frequent case in line.
func (b *bins) find(r *Region, size, align uint64) (uint32, uint64) {
	ns := r.nodes
	if b.fit && size >= b.few {
		i := b.search(ns, size, align, &r.s)
		return i, b.place(ns, i, size, align)
	}
	i := b.pick(r, size, align)
	if b.fit {
		i = b.under(r, i, size, align)
	}
	return i, b.place(ns, i, size, align)
}

// pick is a good fit: the head of the request's own bin or of a higher one; under Fit any
// hole that holds it before there is none.
func (b *bins) pick(r *Region, size, align uint64) uint32 {
	ns, bin := r.nodes, binOf(size)
	if h := b.head[bin]; b.fit && holds(&ns[h], size, align) {
		return h
	}
	// Any hole of a higher bin holds the size; a hole of the bins above that of
	// size+align-1 holds it wherever it lies.
	k, ok := b.from(bin + 1)
	if ok && b.fit && b.count <= sparse {
		k = b.lower(ns, k, size)
	}
	if ok && holds(&ns[b.head[k]], size, align) {
		return b.head[k]
	}
	if sum := size + align - 1; ok && sum > size {
		if k, ok := b.from(binOf(sum) + 1); ok {
			return b.head[k]
		}
	}
	if !b.fit {
		return 0
	}
	return b.scan(ns, bin, size, align, &r.s)
}

// scan is the last resort: every hole of the candidate bins, smallest bins
// first.
func (b *bins) scan(ns []node, bin uint32, size, align uint64, s *Stats) uint32 {
	s.Scans++
	for k, ok := b.from(bin); ok; k, ok = b.from(k + 1) {
		for h := b.head[k]; h != 0; h = ns[h].b {
			s.ScanSteps++
			if holds(&ns[h], size, align) {
				return h
			}
		}
	}
	return 0
}
