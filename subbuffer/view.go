// Package subbuffer is the value a buffer or sub-buffer is: a range of a root
// buffer, with access flags. It holds the rules for making one from another
// (origin, size, alignment, flags) and for resolving offsets to the root.
//
// A view has no content, no versions and no storage of its own; overlapping
// views agree by construction, because they are ranges of one root.
package subbuffer

import (
	"fmt"

	"godwit/mem"
)

// View is a range of a root buffer: the whole of it, or a sub-buffer.
type View struct {
	Range mem.Range // bytes of the root
	Flags Flags     // with exactly one access flag
	Sub   bool      // a sub-buffer, even where it spans the whole root
}

// Whole is the view of all size bytes of a root buffer. It fails with ErrInvalidSize
// where size is zero and with ErrInvalidValue where flags contradict.
func Whole(size uint64, flags Flags) (View, error) {
	if err := checkFlags(flags); err != nil {
		return View{}, err
	}
	if size == 0 {
		return View{}, fmt.Errorf("buffer of 0 bytes: a buffer holds at least one: %w", mem.ErrInvalidSize)
	}
	return View{Range: mem.Range{End: size}, Flags: flags.withAccess(ReadWrite)}, nil
}

// Of makes the sub-buffer of size bytes at origin, both in bytes of v, which
// must be a whole buffer. Flags not given are v's: see Flags.inherit. It fails
// with ErrInvalidBuffer where v is itself a sub-buffer, ErrInvalidSize where
// size is zero, and ErrInvalidValue where the range leaves v or flags permit
// what v forbids.
func (v View) Of(origin, size uint64, flags Flags) (View, error) {
	if v.Sub {
		return View{}, fmt.Errorf("sub-buffer of sub-buffer %v: only a whole buffer has sub-buffers: %w", v.Range, mem.ErrInvalidBuffer)
	}
	if size == 0 {
		return View{}, fmt.Errorf("sub-buffer of 0 bytes at %d: a sub-buffer holds at least one: %w", origin, mem.ErrInvalidSize)
	}
	r, err := mem.SpanIn(origin, size, v.Range.Size())
	if err != nil {
		return View{}, fmt.Errorf("sub-buffer: %w", err)
	}
	if flags, err = flags.Inherit(v.Flags); err != nil {
		return View{}, err
	}
	return View{Range: r.Shift(v.Range.Start), Flags: flags, Sub: true}, nil
}

// Part is the view of the first size bytes of v, sub-buffer or not, for what looks at them otherwise than v does. Flags and errors are those of Of.
func (v View) Part(size uint64, flags Flags) (View, error) {
	v.Sub = false
	return v.Of(0, size, flags)
}

// Size is the number of bytes in the view.
func (v View) Size() uint64 { return v.Range.Size() }

// Resolve turns size bytes at off of the view into a range of its root. It
// fails with ErrInvalidValue where they are none or leave the view.
func (v View) Resolve(off, size uint64) (mem.Range, error) {
	r, err := mem.SpanIn(off, size, v.Range.Size())
	if err != nil {
		return mem.Range{}, err
	}
	return r.Shift(v.Range.Start), nil
}

// CheckAlign fails with ErrMisaligned where the view starts at a byte of its
// root that is no multiple of align, a device's base address alignment in
// bytes; 0 and 1 are no rule.
func (v View) CheckAlign(align uint64) error {
	if align > 1 && v.Range.Start%align != 0 {
		return fmt.Errorf("sub-buffer origin %d: the device's base address alignment is %d bytes: %w", v.Range.Start, align, mem.ErrMisaligned)
	}
	return nil
}
