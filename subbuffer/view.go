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

// Flags say how kernels may use a buffer. The bits are OpenCL's cl_mem_flags.
type Flags uint32

// Access flags; zero is ReadWrite for a root and the parent's for a sub-buffer.
// They bind kernels, not the host's reads and writes. At most one may be given.
const (
	ReadWrite Flags = 1 << 0 // CL_MEM_READ_WRITE
	WriteOnly Flags = 1 << 1 // CL_MEM_WRITE_ONLY: kernels do not read it (but may leave bytes as they are)
	ReadOnly  Flags = 1 << 2 // CL_MEM_READ_ONLY: kernels do not write it
)

// ReadOnly reports whether kernels only read the buffer.
func (f Flags) ReadOnly() bool { return f&ReadOnly != 0 }

const accessFlags = ReadWrite | WriteOnly | ReadOnly

// View is a range of a root buffer: the whole of it, or a sub-buffer.
type View struct {
	Root  mem.BufferID
	Range mem.Range // bytes of the root
	Flags Flags     // exactly one access flag
	Sub   bool      // a sub-buffer, even where it spans the whole root
}

// checkFlags wants at most one access flag and nothing else.
func checkFlags(f Flags) error {
	if f&^accessFlags != 0 {
		return fmt.Errorf("buffer flags %#x: bits %#x are not known: %w", uint32(f), uint32(f&^accessFlags), mem.ErrInvalidValue)
	}
	if a := f & accessFlags; a&(a-1) != 0 {
		return fmt.Errorf("buffer flags %#x: read-write, write-only and read-only exclude each other: %w", uint32(f), mem.ErrInvalidValue)
	}
	return nil
}

// Whole is the view of all size bytes of a root. It fails with ErrInvalidSize
// where size is zero and with ErrInvalidValue where flags contradict.
func Whole(root mem.BufferID, size uint64, flags Flags) (View, error) {
	if err := checkFlags(flags); err != nil {
		return View{}, err
	}
	if size == 0 {
		return View{}, fmt.Errorf("buffer of 0 bytes: a buffer holds at least one: %w", mem.ErrInvalidSize)
	}
	if flags == 0 {
		flags = ReadWrite
	}
	return View{Root: root, Range: mem.Range{End: size}, Flags: flags}, nil
}

// Of makes the sub-buffer of size bytes at origin, both in bytes of v, which
// must be a whole buffer. Zero flags are v's. It fails with ErrInvalidBuffer
// where v is itself a sub-buffer, ErrInvalidSize where size is zero, and
// ErrInvalidValue where the range leaves v or flags permit what v forbids.
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
	if err := checkFlags(flags); err != nil {
		return View{}, err
	}
	switch {
	case flags == 0:
		flags = v.Flags
	case v.Flags != ReadWrite && flags != v.Flags:
		return View{}, fmt.Errorf("sub-buffer flags %#x: the buffer's are %#x and permit less: %w", uint32(flags), uint32(v.Flags), mem.ErrInvalidValue)
	}
	return View{Root: v.Root, Range: r.Shift(v.Range.Start), Flags: flags, Sub: true}, nil
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

// Overlap returns the bytes of the root that both views show; ok is false where
// there is none.
func (v View) Overlap(w View) (shared mem.Range, ok bool) {
	if v.Root != w.Root {
		return mem.Range{}, false
	}
	shared = v.Range.Intersect(w.Range)
	return shared, !shared.Empty()
}
