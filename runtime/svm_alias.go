package runtime

import (
	"fmt"

	"godwit/mem"
	"godwit/subbuffer"
)

// Buffers over shared virtual memory. Such a buffer, and a sub-buffer of it, is a
// view of the allocation's root, so content and hazards are one by construction.
// A map of it gives the host rights in the user's view, at the address the buffer was
// made of. Once the pointer is freed the buffer stays good, but cannot be mapped.

// aliasSVM is a buffer over shared virtual memory: a view of that root. ok is
// false where the bytes are other memory. c.mu is held.
func (c *Context) aliasSVM(view subbuffer.View, host []byte) (b *Buffer, ok bool, err error) {
	if c.arena == nil {
		return nil, false, nil
	}
	p, ok := c.arena.PointerTo(host)
	if !ok {
		return nil, false, nil
	}
	r, off, err := c.svmAt(p)
	if err != nil {
		return nil, true, fmt.Errorf("buffer over shared virtual memory: %w: %w", err, mem.ErrInvalidHostPtr)
	}
	if view.Size() > r.size-off {
		return nil, true, fmt.Errorf("buffer of %d bytes over shared virtual memory at %v, which ends after %d: %w", view.Size(), p, r.size-off, mem.ErrInvalidSize)
	}
	view.Range = mem.Range{Start: off, End: off + view.Size()}
	r.views++
	return &Buffer{c: c, root: r, view: view, refs: 1}, true, nil
}
