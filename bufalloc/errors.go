package bufalloc

import (
	"fmt"

	"godwit/mem"
)

// Errors about chunks. Callers get them wrapped with the chunk they are about.
var (
	// ErrStaleChunk: the chunk was freed before.
	ErrStaleChunk = mem.Sentinel("chunk already freed", mem.InvalidMemObject)
	// ErrForeignChunk: the chunk was not given by this region.
	ErrForeignChunk = mem.Sentinel("chunk of another region", mem.InvalidMemObject)
)

// NoRoomError says that a request did not fit. It wraps mem.ErrNoMemory.
type NoRoomError struct {
	Size, Align   uint64 // bytes asked for
	Free          uint64 // bytes free in all; they are in pieces
	Chunks, Limit int    // live chunks, and how many there may be
}

// Error names the request and what there is.
func (e *NoRoomError) Error() string {
	if e.Chunks >= e.Limit {
		return fmt.Sprintf("%d bytes aligned to %d: all %d chunks are in use: %v", e.Size, e.Align, e.Limit, mem.ErrNoMemory)
	}
	return fmt.Sprintf("%d bytes aligned to %d: no hole is large enough, with %d bytes free: %v", e.Size, e.Align, e.Free, mem.ErrNoMemory)
}

// Unwrap is mem.ErrNoMemory.
func (e *NoRoomError) Unwrap() error { return mem.ErrNoMemory }

func badRequest(size, align uint64) error {
	if size == 0 {
		return fmt.Errorf("request of 0 bytes: a chunk holds at least one: %w", mem.ErrInvalidSize)
	}
	return fmt.Errorf("alignment %d: want a power of two: %w", align, mem.ErrInvalidValue)
}

// notLive says why c is no live chunk of r.
func (r *Region) notLive(c Chunk, verb string) error {
	age := (c.gen - r.salt - 1) & genMask // place among the chunks r gave
	switch {
	case c.IsZero():
		return fmt.Errorf("%s of the zero chunk: %w", verb, ErrForeignChunk)
	case c.gen&liveBit != 0 && age <= (r.gen-r.salt-1)&genMask && r.gen != r.salt&genMask:
		return fmt.Errorf("%s of %v: %w", verb, c, ErrStaleChunk)
	}
	return fmt.Errorf("%s of %v: %w", verb, c, ErrForeignChunk)
}
