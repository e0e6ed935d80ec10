package fuzz

import (
	"errors"
	"math/bits"
	"slices"

	"godwit/study/alloc/replay"
)

// A gene is four bytes: kind, two operands and a count.
//
//   - kind < freeKinds: free up to 1+(count&31) chunks: those at index first,
//     first+1+stride, ... of the list of live chunks by age. first is the first
//     operand and count's high three bits; stride is the second operand mod 8.
//     Nothing happens where nothing is live.
//   - else: allocate 1+(count&31) chunks of one size, which the operands give
//     as a small floating-point number of units: five bits of exponent (mod
//     sizeExponents) and eleven of mantissa.
//
// Freeing every other chunk and allocating twice the size, the step that
// Robson's programs are made of, is thus two genes.
const (
	geneBytes     = 4
	freeKinds     = 112
	countMask     = 31
	indexBits     = 11
	mantissaBits  = 11
	sizeExponents = 17 // sizes below 2^17 units
)

// unit is the alignment of all chunks, and what sizes are multiples of, in
// bytes.
const unit = 256

// express turns a genome into at most limit operations, each chunk in a slot of its
// own.
func express(genome []byte, limit int) []replay.Op {
	var g growth
	for ; len(genome) >= geneBytes && len(g.ops) < limit; genome = genome[geneBytes:] {
		g.add(genome[:geneBytes], limit)
	}
	return g.ops
}

// encode is a genome, of one gene an operation, that expresses ops. It fails
// where a size or a place in the list of live chunks cannot be expressed.
func encode(ops []replay.Op) ([]byte, error) {
	genome := make([]byte, 0, geneBytes*len(ops))
	var live []uint32
	for _, op := range ops {
		if op.Size > 0 {
			hi, lo := encodeSize(op.Size / unit)
			if decodeSize(hi, lo)*unit != op.Size {
				return nil, errors.New("fuzz: a size that genes cannot express")
			}
			genome = append(genome, 255, hi, lo, 0)
			live = append(live, op.Slot)
			continue
		}
		at := slices.Index(live, op.Slot)
		if at < 0 || at >= 1<<indexBits {
			return nil, errors.New("fuzz: a free that genes cannot express")
		}
		genome = append(genome, 0, byte(at), 0, byte(at>>8)<<5)
		live = slices.Delete(live, at, at+1)
	}
	return genome, nil
}

// decodeSize reads a size in units: (1 + mantissa/2^11) * 2^exponent, rounded
// down.
func decodeSize(hi, lo byte) uint64 {
	e := uint(hi>>3) % sizeExponents
	m := uint64(hi&7)<<8 | uint64(lo)
	return (1<<mantissaBits | m) << e >> mantissaBits
}

// encodeSize is decodeSize's inverse for the sizes that have one.
func encodeSize(units uint64) (hi, lo byte) {
	e := uint(bits.Len64(units) - 1)
	m := (units << mantissaBits >> e) & (1<<mantissaBits - 1)
	return byte(e<<3) | byte(m>>8), byte(m)
}

// stream makes ops a stream.
func stream(ops []replay.Op) (*replay.Stream, error) { return replay.NewStream("fuzz", unit, ops) }
