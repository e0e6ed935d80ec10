package subbuffer

import (
	"fmt"

	"godwit/mem"
)

// Flags are OpenCL's cl_mem_flags, bit for bit. They say how kernels may use a
// buffer, how the host may, and what memory the host has of it.
type Flags uint64

// Access flags bind kernels, not the host's reads and writes. At most one may be
// given; none is ReadWrite for a root and the parent's for a sub-buffer.
const (
	ReadWrite Flags = 1 << 0 // CL_MEM_READ_WRITE
	WriteOnly Flags = 1 << 1 // CL_MEM_WRITE_ONLY: kernels do not read it (but may leave bytes as they are)
	ReadOnly  Flags = 1 << 2 // CL_MEM_READ_ONLY: kernels do not write it
)

// Host memory flags are for roots; sub-buffers inherit them. UseHostPtr excludes
// the other two.
const (
	UseHostPtr   Flags = 1 << 3 // CL_MEM_USE_HOST_PTR: the caller's bytes are the host's memory of the buffer
	AllocHostPtr Flags = 1 << 4 // CL_MEM_ALLOC_HOST_PTR: host memory, from the start
	CopyHostPtr  Flags = 1 << 5 // CL_MEM_COPY_HOST_PTR: the first content is a copy of the caller's bytes
)

// Host access flags bind reads, writes and maps of the host. At most one may be
// given; none permits all for a root and is the parent's for a sub-buffer.
const (
	HostWriteOnly Flags = 1 << 7 // CL_MEM_HOST_WRITE_ONLY
	HostReadOnly  Flags = 1 << 8 // CL_MEM_HOST_READ_ONLY
	HostNoAccess  Flags = 1 << 9 // CL_MEM_HOST_NO_ACCESS
)

const (
	accessFlags     = ReadWrite | WriteOnly | ReadOnly
	hostMemoryFlags = UseHostPtr | AllocHostPtr | CopyHostPtr
	hostAccessFlags = HostWriteOnly | HostReadOnly | HostNoAccess
)

// ReadOnly reports whether kernels only read the buffer.
func (f Flags) ReadOnly() bool { return f&ReadOnly != 0 }

// HostReads fails with ErrInvalidOperation where the host may not read the
// buffer.
func (f Flags) HostReads() error {
	if f&(HostWriteOnly|HostNoAccess) != 0 {
		return fmt.Errorf("buffer flags %#x: the host does not read it: %w", uint64(f), mem.ErrInvalidOperation)
	}
	return nil
}

// HostWrites fails with ErrInvalidOperation where the host may not write the
// buffer.
func (f Flags) HostWrites() error {
	if f&(HostReadOnly|HostNoAccess) != 0 {
		return fmt.Errorf("buffer flags %#x: the host does not write it: %w", uint64(f), mem.ErrInvalidOperation)
	}
	return nil
}

// checkFlags fails with ErrInvalidValue on unknown bits, and where flags exclude
// each other.
func checkFlags(f Flags) error {
	if unknown := f &^ (accessFlags | hostMemoryFlags | hostAccessFlags); unknown != 0 {
		return fmt.Errorf("buffer flags %#x: bits %#x are not known: %w", uint64(f), uint64(unknown), mem.ErrInvalidValue)
	}
	if several(f & accessFlags) {
		return fmt.Errorf("buffer flags %#x: read-write, write-only and read-only exclude each other: %w", uint64(f), mem.ErrInvalidValue)
	}
	if several(f & hostAccessFlags) {
		return fmt.Errorf("buffer flags %#x: host write-only, host read-only and no host access exclude each other: %w", uint64(f), mem.ErrInvalidValue)
	}
	if f&UseHostPtr != 0 && f&(AllocHostPtr|CopyHostPtr) != 0 {
		return fmt.Errorf("buffer flags %#x: memory of the caller's is neither allocated nor copied: %w", uint64(f), mem.ErrInvalidValue)
	}
	return nil
}

func several(f Flags) bool { return f&(f-1) != 0 }

// withAccess adds an access flag where there is none.
func (f Flags) withAccess(a Flags) Flags {
	if f&accessFlags == 0 {
		f |= a & accessFlags
	}
	return f
}

// Inherit gives a sub-buffer's flags what they leave to the parent's. It fails
// with ErrInvalidValue where they contradict each other, permit what the
// parent's forbid, or say anything of host memory, which is the root's.
func (f Flags) Inherit(parent Flags) (Flags, error) {
	if err := checkFlags(f); err != nil {
		return 0, err
	}
	if f&hostMemoryFlags != 0 {
		return 0, fmt.Errorf("sub-buffer flags %#x: host memory is the root's, and inherited: %w", uint64(f), mem.ErrInvalidValue)
	}
	a, pa := f&accessFlags, parent.withAccess(ReadWrite)&accessFlags
	h, ph := f&hostAccessFlags, parent&hostAccessFlags
	if (a != 0 && pa != ReadWrite && a != pa) || (h != 0 && ph != 0 && h != ph && h != HostNoAccess) {
		return 0, fmt.Errorf("sub-buffer flags %#x: the buffer's are %#x and permit less: %w", uint64(f), uint64(parent), mem.ErrInvalidValue)
	}
	if h == 0 {
		f |= ph
	}
	return f.withAccess(parent) | parent&hostMemoryFlags, nil
}
