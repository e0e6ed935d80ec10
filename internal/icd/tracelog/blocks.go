package tracelog

import (
	"godwit/internal/rangemap"
	"godwit/mem"
	"godwit/mem/trace"
)

// blocks are a buffer's on one memory.
type blocks struct {
	at rangemap.Map[uint32] // which block has a byte; 0 is none
	n  int
	id uint32 // the last given out
}

// blocks notes new storage. c.log.mu is held.
func (c *sink) blocks(stored []trace.BlockRecord) {
	for _, b := range stored {
		a := c.buffers[b.Buffer]
		if a == nil {
			continue
		}
		if b.Range.Empty() {
			b.Range.End = a.size
		}
		c.stored(a, b.Memory, b.Range)
		if b.Bytes < a.size {
			c.account.Parts(b.Buffer)
		}
	}
}

// stored notes that a buffer has a new block, for a moment beside those whose place it
// takes. c.log.mu is held.
func (c *sink) stored(a *account, m mem.MemoryID, r mem.Range) {
	held := a.blocks[m]
	if held == nil {
		held = &blocks{at: rangemap.Make[uint32](a.size, 0)}
		if a.blocks == nil {
			a.blocks = make(map[mem.MemoryID]*blocks)
		}
		a.blocks[m] = held
	}
	whole := int64(0)
	if held.n == 0 {
		whole = int64(a.size)
	}
	c.log.sum.stored(c.names[m], int64(r.Size()), whole)
	old, n := held.take(r)
	c.log.sum.stored(c.names[m], -old, 0)
	held.id++
	held.n += 1 - n
	held.at.Set(r, held.id)
}

// unstored notes that a buffer's blocks of a range are gone. c.log.mu is held.
func (c *sink) unstored(a *account, m mem.MemoryID, r mem.Range) {
	held := a.blocks[m]
	if held == nil || held.n == 0 {
		return
	}
	size, n := held.take(r)
	whole := int64(0)
	if held.n -= n; held.n == 0 {
		whole = -int64(a.size)
	}
	c.log.sum.stored(c.names[m], -size, whole)
}

// take takes the blocks out that overlap a range: so many bytes in so many.
func (b *blocks) take(r mem.Range) (bytes int64, n int) {
	for off := r.Start; off < r.End; {
		s := *b.at.Get(off)
		at := s.Range
		if off = at.End; s.Value != 0 {
			bytes, n = bytes+int64(at.Size()), n+1
			b.at.Set(at, 0)
		}
	}
	return bytes, n
}
