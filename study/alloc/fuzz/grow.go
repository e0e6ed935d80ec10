package fuzz

import (
	"slices"

	"godwit/study/alloc/replay"
)

// growth is a genome in the making, and what it has done so far: what is live, as
// far as a sequence that looks at no address can know it.
type growth struct {
	genome    []byte
	ops       []replay.Op // sizes in bytes, each chunk in a slot of its own
	live      []replay.Op // allocations by age
	slots     uint32
	sum, peak uint64 // of live, now and at most, in units
	largest   uint64 // asked for so far, in units
}

// add appends a gene and does what it says, up to limit operations.
func (g *growth) add(gene []byte, limit int) {
	g.genome = append(g.genome, gene...)
	count := 1 + int(gene[3]&countMask)
	if gene[0] >= freeKinds {
		size := decodeSize(gene[1], gene[2])
		g.largest = max(g.largest, size)
		for ; count > 0 && len(g.ops) < limit; count-- {
			op := replay.Op{Size: size * unit, Slot: g.slots}
			g.live, g.ops = append(g.live, op), append(g.ops, op)
			g.slots++
			g.sum += size
			g.peak = max(g.peak, g.sum)
		}
		return
	}
	if len(g.live) == 0 {
		return
	}
	at := (int(gene[1]) | int(gene[3]>>5)<<8) % len(g.live)
	for ; count > 0 && at < len(g.live) && len(g.ops) < limit; count-- {
		g.sum -= g.live[at].Size / unit
		g.ops = append(g.ops, replay.Op{Slot: g.live[at].Slot})
		g.live = slices.Delete(g.live, at, at+1) // the next one moves up to at
		at += int(gene[2] % 8)
	}
}

// grow keeps the beginning of a genome and goes on from there as Robson's program
// does, but without a look at addresses: it frees chunks at even distances, asks for
// as many larger ones as the peak of live bytes allows, and does so again.
func (s *searcher) grow(parent []byte) []byte {
	g := &growth{}
	genes := len(parent) / geneBytes
	keep := 1 + s.rng.IntN(genes)
	for i := 0; i < keep && len(g.ops) < s.o.Ops*7/8; i++ {
		g.add(parent[i*geneBytes:(i+1)*geneBytes], s.o.Ops)
	}
	for len(g.ops) < s.o.Ops && s.rng.IntN(4) > 0 {
		s.thin(g)
		if !s.fill(g) {
			break
		}
	}
	return g.genome
}

// thin frees live chunks at an even distance, all along or from some age on.
func (s *searcher) thin(g *growth) {
	stride := 1 + s.rng.IntN(3)
	at := s.rng.IntN(stride + 1)
	if s.rng.IntN(4) == 0 {
		at = s.rng.IntN(len(g.live) + 1)
	}
	for at < len(g.live) && at < 1<<indexBits && len(g.ops) < s.o.Ops {
		count := min((len(g.live)-at+stride)/(stride+1), countMask+1)
		g.add([]byte{0, byte(at), byte(stride), byte(at>>8)<<5 | byte(count-1)}, s.o.Ops)
		at += count * stride
	}
}

// fill asks for chunks of one size, mostly twice the largest so far, up to the peak;
// false where there is no room for one.
func (s *searcher) fill(g *growth) bool {
	size := 2 * g.largest
	switch s.rng.IntN(6) {
	case 0:
		size = g.largest
	case 1:
		size = g.largest + 1 + s.rng.Uint64N(2*g.largest+1)
	}
	hi, lo := encodeSize(min(max(size, 1), 1<<sizeExponents-1))
	size = decodeSize(hi, lo)
	count := int(min((g.peak-g.sum)/size, uint64(s.o.Ops)))
	if count == 0 {
		return false
	}
	for ; count > 0 && len(g.ops) < s.o.Ops; count -= countMask + 1 {
		g.add([]byte{255, hi, lo, byte(min(count, countMask+1) - 1)}, s.o.Ops)
	}
	return true
}
