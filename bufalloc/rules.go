package bufalloc

// rules are what distinguishes Fit from a bare good fit. They were found by
// search over several hundred policies on traces of PyTorch, compilers and
// synthetic loads, and each is here because it paid on nearly all of them:
//
//  1. Before it rounds the request up to the next bin, Fit looks at the head of
//     the request's own: rounding up is the great loss of a plain good fit.
//  2. The hole at the lower address is kept at a bin's head; and while holes are
//     few, the next two bins of an octave are treated as one, so that addresses
//     still have a say where most bins hold one hole or none.
//  3. A request of a 128th of the region or more can afford a search, because no
//     more than that many holes can be that large: among holes that exceed it by
//     three eighths at most (near), the one at the lowest address, where what is
//     left of the hole counts as so much height: a hole that exceeds the request
//     by an eighth or more of it may lie an eighth of the region lower than one
//     that fits. Else the smallest.
//  4. Chunks of a tenth of the region or more are cut from the high end of their
//     hole, all others from the low end, so that they gather at opposite ends.
//  5. But where exactly one of the two neighbours of the hole of rule 3 is a
//     chunk of the request's size, within a 40th, the new chunk goes next to it:
//     chunks of one size side by side leave holes that are multiples of it. Not
//     in holes of an eighth of the region or more, which are not worth cutting so.
//  6. Before failing, Fit searches in full.
//  7. A request that is not searched for goes above a roof, a quarter above the live
//     bytes, only where no hole below holds it: the smallest of the bins' heads below the
//     roof, else the lowest. This is first fit's half: small chunks come down when little is
//     live, and best fit's worst case, little holes at ever higher addresses that fit
//     best, is none.
type rules struct {
	size  uint64 // the region's
	few   uint64 // requests from this size on are searched for (rule 3)
	large uint64 // chunks from this size on go to the high end (rule 4)
	wide  uint64 // holes from this size on are exempt from rule 5
}

const (
	fewFraction   = 128
	largeFraction = 10
	wideFraction  = 8
	alikeFraction = 40
	sparse        = 4096 // holes are few up to here (rule 2)
	roofFraction  = 4    // the roof is this part of the live bytes above them (rule 7)
)

// resize tells the rules the size of the region.
func (p *rules) resize(size uint64) {
	p.size = size
	p.few = max(size/fewFraction, 1)
	p.large = max(size/largeFraction, 1)
	p.wide = max(size/wideFraction, 1)
}

// near is the size of the largest hole that is not much larger than the
// request.
func near(size uint64) uint64 { return size + size/8*3 }

// lower is the second half of rule 2: bin k, not empty, or the next of its
// octave, whichever head is at the lower address.
func (b *bins) lower(ns []node, k uint32, size uint64) uint32 {
	next, ok := b.from(k + 1)
	if !ok || next>>subBits != k>>subBits {
		return k
	}
	if h := b.head[next]; ns[h].addr < ns[b.head[k]].addr && ns[h].size <= near(size) {
		return next
	}
	return k
}

// roof is the address that rule 7 speaks of, from the region's base on: it may lie beyond the last address.
func (r *Region) roof() uint64 {
	live := r.s.Live + r.s.Slack
	return live + live/roofFraction
}

// under is rule 7: hole i, or a better one where it is above the roof.
func (b *bins) under(r *Region, i uint32, size, align uint64) uint32 {
	ns, roof := r.nodes, r.roof()
	for k, ok := b.from(binOf(size)); ok && ns[i].addr-r.base > roof; k, ok = b.from(k + 1) {
		r.s.ScanSteps++
		if h := b.head[k]; ns[h].addr < ns[i].addr && holds(&ns[h], size, align) {
			i = h
		}
	}
	return i
}

// search is rule 3. It finds a hole wherever there is one.
func (b *bins) search(ns []node, size, align uint64, s *Stats) uint32 {
	lim, end := near(size), ns[0].addr
	low, far, best := uint32(0), uint32(0), int64(0)
	heavy, scale := size/8, b.size/size // the product is an eighth of the region at most
	last := binOf(lim)
	for k, ok := b.from(binOf(size)); ok; k, ok = b.from(k + 1) {
		if k > last && low|far != 0 {
			break
		}
		for h := b.head[k]; h != 0; h = ns[h].b {
			s.ScanSteps++
			n := &ns[h]
			switch {
			case !holds(n, size, align):
			case n.size <= lim:
				// How far below the region's end, less what the rest counts.
				depth := int64(end-n.addr) - int64(min(n.size-size, heavy)*scale)
				if low == 0 || depth > best || depth == best && n.addr < ns[low].addr {
					low, best = h, depth
				}
			case far == 0 || n.size < ns[far].size || n.size == ns[far].size && n.addr < ns[far].addr:
				far = h
			}
		}
	}
	if low != 0 {
		return low
	}
	return far
}

// alike reports whether a chunk has nearly the request's size.
func alike(chunk, size uint64) bool {
	off := size / alikeFraction
	return chunk-size+off <= 2*off
}

// place is the address in hole i, which holds the chunk, by rules 4 and 5.
func (b *bins) place(ns []node, i uint32, size, align uint64) uint64 {
	n := &ns[i]
	high := size >= b.large
	if size >= b.few && n.size < b.wide {
		before, behind := alike(ns[n.prev].size, size), alike(ns[n.next].size, size)
		if before != behind && n.prev != anchor && n.next != anchor {
			high = behind
		}
	}
	if high && b.fit {
		return (n.end() - size) &^ (align - 1)
	}
	return n.addr + -n.addr&(align-1)
}
