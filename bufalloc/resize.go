package bufalloc

import (
	"fmt"
	"math"

	"godwit/mem"
)

// ErrInUse: a range that was to be reserved or given up is not all free.
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

// Grow adds by bytes at the region's end. It fails with mem.ErrInvalidSize
// where by is 0 or the region would be larger than 2^63, with
// mem.ErrInvalidValue where its end would overflow, and with
// mem.ErrInvalidOperation as Reserve does; then nothing has changed.
func (r *Region) Grow(by uint64) error {
	if err := r.whole("grow"); err != nil {
		return err
	}
	if by == 0 || by > 1<<63-r.size {
		return fmt.Errorf("grow %d bytes by %d: want 1 to 2^63 in all: %w", r.size, by, mem.ErrInvalidSize)
	}
	if by > math.MaxUint64-r.base-r.size {
		return fmt.Errorf("grow by %d: the end of %v would overflow 64 bits: %w", by, r.Bounds(), mem.ErrInvalidValue)
	}
	i := r.newNode()
	r.nodes[i] = node{addr: r.base + r.size, size: by}
	r.linkAfter(i, r.nodes[anchor].prev)
	r.size += by
	r.resized() // first: no hole may start above nodes[0]
	r.settle(i)
	return nil
}

// Tail is the number of free bytes at the region's end: what Shrink can take.
func (r *Region) Tail() uint64 {
	if n := &r.nodes[r.nodes[anchor].prev]; !n.live() {
		return n.size
	}
	return 0
}

// Shrink takes by bytes off the region's end, which must be free; at least one
// byte stays. Its errors are Grow's, and ErrInUse where the tail is shorter.
func (r *Region) Shrink(by uint64) error {
	if err := r.whole("shrink"); err != nil {
		return err
	}
	if by == 0 || by >= r.size {
		return fmt.Errorf("shrink %d bytes by %d: want at least 1 less and 1 left: %w", r.size, by, mem.ErrInvalidSize)
	}
	if tail := r.Tail(); by > tail {
		return fmt.Errorf("shrink %v by %d: only the last %d bytes are free: %w", r.Bounds(), by, tail, ErrInUse)
	}
	i := r.nodes[anchor].prev
	r.remove(i)
	r.size -= by
	if r.nodes[i].size -= by; r.nodes[i].size == 0 {
		r.unlink(i)
	} else {
		r.insert(i)
	}
	r.s.HighWater = min(r.s.HighWater, r.size)
	r.resized()
	return nil
}

// resized tells the rules that depend on the region's size.
func (r *Region) resized() {
	r.nodes[0].addr = r.base + r.size - 1
	if r.bins != nil {
		r.bins.resize(r.size)
		r.setQuick()
	}
}
