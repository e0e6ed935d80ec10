package bufalloc

import "math/bits"

// len64 is the place of the highest bit of m, which is not 0.
func len64(m uint64) int { return bits.Len64(m) - 1 }

// Bins hold the holes by size: one list for each size below 32, then 32 to an
// octave. A bit in a two-level map says which lists are not empty.
const (
	subBits  = 5
	subCount = 1 << subBits
	octaves  = 64 - subBits + 1
)

// binOf is the bin in which a hole of that size lies.
func binOf(size uint64) uint32 {
	e := uint32(bits.Len64(size | (subCount - 1)))
	// Below subCount, e is subBits and the shift would be -1 short: see the mask.
	if size < subCount {
		return uint32(size)
	}
	return (e-subBits)<<subBits | uint32(size>>(e-subBits-1))&(subCount-1)
}

// bins is the order of holes under Fit and GoodFit.
//
// What distinguishes Fit, in the order of the gain (found by search over
// several hundred policies on real traces): before it rounds the request up to
// the next bin, it looks at the head of the request's own; large chunks are cut
// from the high end of their hole and all others from the low end, so that
// they gather at opposite ends of the region; the hole at the lower address is
// kept at a bin's head; and before failing it searches in full.
type bins struct {
	fit   bool
	large uint64 // chunks from this size on go to the high end
	top   uint64
	sub   [octaves]uint32
	head  [octaves * subCount]uint32
	count int
}

func (b *bins) reset(size uint64) {
	*b = bins{fit: b.fit}
	b.resize(size)
}

// resize tells the bins the size of the region.
func (b *bins) resize(size uint64) {
	b.large = max(size/10, 1)
	if !b.fit {
		b.large = ^uint64(0)
	}
}

func (b *bins) insert(ns []node, i uint32) {
	n := &ns[i]
	bin := binOf(n.size)
	b.count++
	h := b.head[bin]
	switch {
	case h == 0:
		n.a, n.b = 0, 0
		b.head[bin] = i
		b.sub[bin>>subBits] |= 1 << (bin & (subCount - 1))
		b.top |= 1 << (bin >> subBits)
	case b.fit && ns[h].addr < n.addr: // second
		s := ns[h].b
		n.a, n.b = h, s
		ns[h].b = i
		if s != 0 {
			ns[s].a = i
		}
	default:
		n.a, n.b = 0, h
		ns[h].a = i
		b.head[bin] = i
	}
}

func (b *bins) remove(ns []node, i uint32) {
	p, n := ns[i].a, ns[i].b
	b.count--
	if n != 0 {
		ns[n].a = p
	}
	if p != 0 {
		ns[p].b = n
		return
	}
	bin := binOf(ns[i].size)
	b.head[bin] = n
	if n == 0 {
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
		return bin + uint32(bits.TrailingZeros32(m)), true
	}
	t := b.top >> 1 >> o << 1 << o
	if t == 0 {
		return 0, false
	}
	o = uint32(bits.TrailingZeros64(t))
	return o<<subBits | uint32(bits.TrailingZeros32(b.sub[o])), true
}

// holds reports whether n has room for size bytes at a multiple of align.
func holds(n *node, size, align uint64) bool {
	return n.size >= size && n.size-size >= -n.addr&(align-1)
}

func (b *bins) find(r *Region, size, align uint64) (uint32, uint64) {
	ns := r.nodes
	bin := binOf(size)
	if b.fit {
		if h := b.head[bin]; h != 0 && holds(&ns[h], size, align) {
			return h, b.place(&ns[h], size, align)
		}
	}
	// Any hole of a higher bin holds the size; a hole of the bins above that of
	// size+align-1 holds it wherever it lies.
	k, ok := b.from(bin + 1)
	if ok && holds(&ns[b.head[k]], size, align) {
		h := b.head[k]
		return h, b.place(&ns[h], size, align)
	}
	if sum := size + align - 1; ok && sum > size {
		if k, ok := b.from(binOf(sum) + 1); ok {
			h := b.head[k]
			return h, b.place(&ns[h], size, align)
		}
	}
	if !b.fit {
		return 0, 0
	}
	return b.scan(r, bin, size, align)
}

// scan is the last resort: every hole of the candidate bins, smallest bins
// first.
func (b *bins) scan(r *Region, bin uint32, size, align uint64) (uint32, uint64) {
	r.s.Scans++
	for k, ok := b.from(bin); ok; k, ok = b.from(k + 1) {
		for h := b.head[k]; h != 0; h = r.nodes[h].b {
			if holds(&r.nodes[h], size, align) {
				return h, b.place(&r.nodes[h], size, align)
			}
		}
	}
	return 0, 0
}

// place is the address in hole n, which holds the chunk.
func (b *bins) place(n *node, size, align uint64) uint64 {
	if size >= b.large {
		return (n.end() - size) &^ (align - 1)
	}
	return n.addr + -n.addr&(align-1)
}
