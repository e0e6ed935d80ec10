package mover

import "godwit/mem"

// How a chain's range is cut into chunks, and which route each takes.
//
// A link carries nothing while the first chunk is read into staging and the last one is written out of it, each of
// which takes some 12 us to be seen, and the host 5 to 20 more to go on. To a single destination the two ends of
// a range need neither: a chunk that is *pushed* is copied by the source's queue from its block straight into the
// destination's window, so that the link has work at once; one that is *pulled* is copied by the destination's queue
// out of the source's window straight into its block, and ends with that. What is before a pull and after a push goes on beside
// the rest.

// route is which legs a chunk takes.
type route uint8

const (
	straight route = iota // through all staging; every chain but by window to a single destination
	pushed                // into the destination's staging, and out of it
	pulled                // into the source's staging, and out of it
	routes
)

// cut is a chunk.
type cut struct {
	off, size uint64 // bytes
	route     route
	turn      int // it is the so manieth of its route
}

// leastMixed is the least ring, in bytes, that is more than one pull.
const leastMixed = 4 << 20

// mostMixedChunk is the largest chunk, in bytes, of a mixed ring.
const mostMixedChunk = 64 << 20

// mixedChunk is the best size of chunks of a mixed ring: each half is one, until that is large (docs/measured.md).
func mixedChunk(n uint64) uint64 {
	if n <= leastMixed {
		return n
	}
	return min(n/2, mostMixedChunk)
}

// planCuts lists the chunks in the order in which they are submitted.
func (x *ring) planCuts() {
	w := &x.chain
	w.cuts = w.cuts[:0]
	switch {
	case !x.mixed:
		for off, n := uint64(0), uint64(0); off < x.size; off += n {
			n = x.chunkAt(off)
			w.cuts = append(w.cuts, cut{off, n, straight, len(w.cuts)})
		}
	case x.size <= x.chunk:
		w.cuts = append(w.cuts, cut{0, x.size, pulled, 0})
	default:
		x.mixCuts()
	}
}

// mixCuts has half of the range pushed and half pulled, in turns, so that both devices have something to do all the
// time.
func (x *ring) mixCuts() {
	half := x.size / 2 &^ (pageSize - 1)
	parts := [2]cut{{0, half, pushed, 0}, {half, x.size - half, pulled, 0}}
	for parts[0].size > 0 || parts[1].size > 0 {
		for i := range parts {
			p := &parts[i] // what is left of it
			if p.size == 0 {
				continue
			}
			chunks := (p.size + x.chunk - 1) / x.chunk
			n := min(pages((p.size+chunks-1)/chunks), p.size)
			x.chain.cuts = append(x.chain.cuts, cut{p.off, n, p.route, p.turn})
			p.off, p.size, p.turn = p.off+n, p.size-n, p.turn+1
		}
	}
}

// wantsSlots is how many slots of staging a chain over links has use for, and in how many stagings.
func (x *ring) wantsSlots() (slots uint64, stages int) {
	cuts := x.chain.cuts
	stages = x.n + 1
	for _, c := range cuts {
		slots = max(slots, uint64(c.turn)+1)
	}
	if len(cuts) == 1 && cuts[0].route == pulled {
		stages = 1
	}
	return slots, stages
}

// chunkAt is how long the chunk of a chain that is not mixed is, at off. By windows the first and the last are short: no hop
// is under way during their first and last legs, which take a quarter of a hop's time and less for as
// many bytes.
func (x *ring) chunkAt(off uint64) uint64 {
	left := x.size - off
	if x.way != mem.Windows || x.size <= x.chunk {
		return min(x.chunk, left)
	}
	end := max(x.chunk/4&^(pageSize-1), pageSize)
	switch {
	case off == 0, left <= end:
		return min(end, left)
	}
	return min(x.chunk, left-end)
}
