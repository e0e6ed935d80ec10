package mem

import (
	"fmt"
	"math"
)

// Range is the half-open byte interval [Start, End). The zero Range is empty.
// A Range is a plain value; its methods may be called from anywhere.
type Range struct {
	Start, End uint64 // bytes
}

// Span returns the range of size bytes at offset off. It fails with
// ErrInvalidValue where size is zero or off+size overflows.
func Span(off, size uint64) (Range, error) {
	if size == 0 {
		return Range{}, fmt.Errorf("size 0 at offset %d: a range holds at least one byte: %w", off, ErrInvalidValue)
	}
	if size > math.MaxUint64-off {
		return Range{}, fmt.Errorf("offset %d + size %d overflows 64 bits: %w", off, size, ErrInvalidValue)
	}
	return Range{off, off + size}, nil
}

// SpanIn is Span with the further rule that the range must lie in [0, total).
func SpanIn(off, size, total uint64) (Range, error) {
	r, err := Span(off, size)
	if err != nil {
		return Range{}, err
	}
	if r.End > total {
		return Range{}, fmt.Errorf("range %v reaches past the end of its %d bytes: %w", r, total, ErrInvalidValue)
	}
	return r, nil
}

// Size is the number of bytes in r; an inverted range counts as empty.
func (r Range) Size() uint64 {
	if r.End <= r.Start {
		return 0
	}
	return r.End - r.Start
}

// Empty reports whether r holds no byte.
func (r Range) Empty() bool { return r.End <= r.Start }

// Contains reports whether every byte of s lies in r. An empty s always does.
func (r Range) Contains(s Range) bool {
	return s.Empty() || (s.Start >= r.Start && s.End <= r.End)
}

// Overlaps reports whether r and s share a byte.
func (r Range) Overlaps(s Range) bool {
	return r.Start < s.End && s.Start < r.End && !r.Empty() && !s.Empty()
}

// Intersect returns the bytes that r and s share, or an empty range.
func (r Range) Intersect(s Range) Range {
	out := Range{max(r.Start, s.Start), min(r.End, s.End)}
	if out.Empty() {
		return Range{}
	}
	return out
}

// Shift moves r up by off bytes.
func (r Range) Shift(off uint64) Range { return Range{r.Start + off, r.End + off} }

// String is the half-open notation used in plans, tests and errors.
func (r Range) String() string { return fmt.Sprintf("[%d,%d)", r.Start, r.End) }

// AlignUp rounds v up to a multiple of align, a power of two. ok is false
// where align is not a power of two or the result does not fit 64 bits.
func AlignUp(v, align uint64) (up uint64, ok bool) {
	if !IsPow2(align) {
		return 0, false
	}
	up = (v + align - 1) &^ (align - 1)
	return up, up >= v
}

// IsPow2 reports whether v is a power of two; 0 is not.
func IsPow2(v uint64) bool { return v != 0 && v&(v-1) == 0 }
