package bufalloc

// rules are what distinguishes Fit from a bare good fit. They were found by
// search over several hundred policies on traces of PyTorch, compilers and
// synthetic loads, and each is here because it paid on nearly all of them:
//
//  1. Before it rounds the request up to the next bin, Fit looks at the head of
//     the request's own: rounding up is the great loss of a plain good fit.
//  2. The hole at the lower address is kept at a bin's head.
//  3. A request of a 128th of the region or more can afford a search, because no
//     more than that many holes can be that large: among holes that exceed it by
//     three eighths at most, the one at the lowest address; else the smallest.
//  4. Chunks of a 15th of the region or more are cut from the high end of their
//     hole, all others from the low end, so that they gather at opposite ends.
//  5. But where exactly one of the two neighbours of the hole of rule 3 is a
//     chunk of the request's size, the new chunk goes next to it: chunks of one
//     size side by side leave holes that are multiples of it. Not in holes of
//     a quarter of the region or more, which are not worth cutting so.
//  6. Before failing, Fit searches in full.
type rules struct {
	few   uint64 // requests from this size on are searched for (rule 3)
	large uint64 // chunks from this size on go to the high end (rule 4)
	wide  uint64 // holes from this size on are exempt from rule 5
}

const (
	fewFraction   = 128
	largeFraction = 15
	wideFraction  = 4
)

// resize tells the rules the size of the region.
func (p *rules) resize(size uint64) {
	p.few = max(size/fewFraction, 1)
	p.large = max(size/largeFraction, 1)
	p.wide = max(size/wideFraction, 1)
}

// search is rule 3. It finds a hole wherever there is one.
func (b *bins) search(ns []node, size, align uint64) uint32 {
	lim := size + size/8*3
	near, far := uint32(0), uint32(0) // nodes[0] is above all others
	last := binOf(lim)
	for k, ok := b.from(binOf(size)); ok; k, ok = b.from(k + 1) {
		if k > last && near|far != 0 {
			break
		}
		for h := b.head[k]; h != 0; h = ns[h].b {
			n := &ns[h]
			switch {
			case !holds(n, size, align):
			case n.size <= lim:
				if n.addr < ns[near].addr {
					near = h
				}
			case far == 0 || n.size < ns[far].size || n.size == ns[far].size && n.addr < ns[far].addr:
				far = h
			}
		}
	}
	if near != 0 {
		return near
	}
	return far
}

// place is the address in hole i, which holds the chunk, by rules 4 and 5.
func (b *bins) place(ns []node, i uint32, size, align uint64) uint64 {
	n := &ns[i]
	high := size >= b.large
	if size >= b.few && n.size < b.wide {
		if before, behind := ns[n.prev].size == size, ns[n.next].size == size; before != behind {
			high = behind
		}
	}
	if high && b.fit {
		return (n.end() - size) &^ (align - 1)
	}
	return n.addr + -n.addr&(align-1)
}
