package pool

import (
	"fmt"
	"math/bits"

	"godwit/mem"
)

// Bins chooses the sizes that requests are rounded up to.
type Bins uint8

// PowerOfTwo is the classic: at most half of a buffer is waste. LeadingBits
// keeps the three bits behind the leading one, eight sizes an octave: at most
// an eighth of the request is waste. Sizes up to 256 bytes round up to 256 in
// both.
const (
	PowerOfTwo Bins = iota
	LeadingBits
)

// String names the choice.
func (b Bins) String() string {
	switch b {
	case PowerOfTwo:
		return "power-of-two"
	case LeadingBits:
		return "leading-bits"
	}
	return fmt.Sprintf("Bins(%d)", uint8(b))
}

func (b Bins) check() error {
	if b > LeadingBits {
		return fmt.Errorf("pool with %v: want power-of-two or leading-bits: %w", b, mem.ErrInvalidValue)
	}
	return nil
}

const (
	minShift  = 8                        // the smallest bin is 1<<minShift bytes
	octave    = 8                        // bins in an octave under LeadingBits
	maxSize   = 1 << 62                  // the largest bin
	binsCount = (63 - minShift) * octave // both choices fit
)

// bin returns the index of the bin for size, and the bin's size. Indices rise
// with sizes. Size is 1 to maxSize.
func (b Bins) bin(size uint64) (index int, binSize uint64) {
	if size <= 1<<minShift {
		return 0, 1 << minShift
	}
	if b == PowerOfTwo {
		shift := bits.Len64(size - 1)
		return (shift - minShift) * octave, 1 << shift
	}
	shift := bits.Len64(size-1) - 1 // of the octave that size-1 lies in
	step := uint64(1) << shift / octave
	n := (size - 1 - 1<<shift) / step // full steps below size
	return (shift-minShift)*octave + int(n) + 1, 1<<shift + (n+1)*step
}

func checkSize(size uint64) error {
	if size == 0 || size > maxSize {
		return fmt.Errorf("pool request of %d bytes: want 1 to 2^62: %w", size, mem.ErrInvalidSize)
	}
	return nil
}
