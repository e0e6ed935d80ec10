package bufalloc

import (
	"fmt"

	"godwit/mem"
)

// ErrInUse: a range that was to be reserved is not all free.
var ErrInUse = mem.Sentinel("range in use", mem.MemObjectAllocationFailure)

// whole refuses what a strategy that cannot cut holes anywhere does not offer.
func (r *Region) whole(verb string) error {
	if !r.grid {
		return nil
	}
	return fmt.Errorf("%s under %v: it places chunks on a grid of its own: %w", verb, r.strategy, mem.ErrInvalidOperation)
}

// Reserve takes the size bytes at addr, which must all be free, as a chunk that
// is never proposed for a move: for what is there already, such as a frame
// buffer. Free gives it back. It fails with mem.ErrInvalidValue where the bytes
// are not all the region's, with ErrInUse where one is not free, and with
// mem.ErrInvalidOperation under strategies that do not cut holes anywhere
// (Buddy, PowerOfTwo and PoCL's). O(n).
func (r *Region) Reserve(addr, size uint64) (Chunk, error) {
	if err := r.whole("reserve"); err != nil {
		return Chunk{}, err
	}
	s, err := mem.Span(addr, size)
	if err == nil && !r.Bounds().Contains(s) {
		err = fmt.Errorf("outside the region, %v: %w", r.Bounds(), mem.ErrInvalidValue)
	}
	if err != nil {
		return Chunk{}, fmt.Errorf("reserve %d bytes at %#x: %w", size, addr, err)
	}
	if r.chunks() >= r.maxChunks {
		return Chunk{}, &NoRoomError{Size: size, Align: 1, Free: r.s.free(r.size), Chunks: r.chunks(), Limit: r.maxChunks}
	}
	i := r.nodes[anchor].next
	for r.nodes[i].end() <= addr {
		i = r.nodes[i].next
	}
	if n := &r.nodes[i]; n.live() || n.end() < s.End {
		at := i
		if !n.live() {
			at = n.next
		}
		return Chunk{}, fmt.Errorf("reserve %v: %v holds %v: %w", s, Chunk{at, r.nodes[at].a}, r.span(at).Range, ErrInUse)
	}
	i = r.carve(i, addr, size)
	r.enlive(i, size, 1)
	r.nodes[i].b |= reserved
	return Chunk{i, r.nodes[i].a}, nil
}
