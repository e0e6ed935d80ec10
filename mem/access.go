package mem

import (
	"fmt"
	"strconv"
)

// BufferID names a root buffer of one context. IDs carry a generation: that of
// a released buffer is never valid again.
type BufferID uint64

// String is the number of the buffer, and its generation from the second on.
func (id BufferID) String() string {
	if g := id >> 32; g > 1 {
		return fmt.Sprintf("%d.%d", uint32(id), uint64(g))
	}
	return strconv.FormatUint(uint64(uint32(id)), 10)
}

// Mode says what a command does to a range of a buffer.
type Mode uint8

// Read keeps content as it is. ReadWrite needs the old content and changes it.
// Write is a promise that every byte of the range is written, so that the old
// content need not be there.
const (
	Read Mode = iota
	ReadWrite
	Write
)

// Reads reports whether the old content is needed.
func (m Mode) Reads() bool { return m != Write }

// Writes reports whether the content changes.
func (m Mode) Writes() bool { return m != Read }

// String is "read", "read-write" or "write".
func (m Mode) String() string {
	switch m {
	case Read:
		return "read"
	case ReadWrite:
		return "read-write"
	case Write:
		return "write"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Access is one command's use of a range of a root buffer on a memory.
// Sub-buffers and SVM pointers are resolved to roots before there is one.
type Access struct {
	Buffer BufferID
	Range  Range // bytes of the root buffer
	Mode   Mode
	Memory MemoryID
}

// Version numbers the content of a byte range. Versions are unique in a
// context and never fall; 0 is content never written.
type Version uint64
