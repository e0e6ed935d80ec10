package tracelog

import (
	"slices"

	"godwit/mem"
	"godwit/mem/trace"
)

// blocks notes new storage. c.log.mu is held.
func (c *sink) blocks(stored []trace.BlockRecord) {
	for _, b := range stored {
		a := c.buffers[b.Buffer]
		if a == nil {
			continue
		}
		if b.Range.Empty() {
			b.Range.End = a.Size
		}
		c.stored(a, b.Memory, b.Range)
		if b.Bytes < a.Size {
			c.account.Parts(b.Buffer)
		}
	}
}

// stored notes that a buffer has a new block, for a moment beside those whose place it
// takes. c.log.mu is held.
func (c *sink) stored(a *account, m mem.MemoryID, r mem.Range) {
	whole := int64(0)
	if len(a.blocks[m]) == 0 {
		whole = int64(a.Size)
	}
	c.log.sum.stored(c.names[m], int64(r.Size()), whole)
	c.log.sum.stored(c.names[m], -a.take(m, r), 0)
	if a.blocks == nil {
		a.blocks = make(map[mem.MemoryID][]mem.Range)
	}
	a.blocks[m] = append(a.blocks[m], r)
}

// unstored notes that a buffer's blocks of a range are gone. c.log.mu is held.
func (c *sink) unstored(a *account, m mem.MemoryID, r mem.Range) {
	if len(a.blocks[m]) == 0 {
		return
	}
	bytes, whole := a.take(m, r), int64(0)
	if len(a.blocks[m]) == 0 {
		whole = -int64(a.Size)
	}
	c.log.sum.stored(c.names[m], -bytes, whole)
}

// take takes the blocks out that overlap a range: so many bytes.
func (a *account) take(m mem.MemoryID, r mem.Range) (bytes int64) {
	if len(a.blocks[m]) == 0 {
		return 0
	}
	a.blocks[m] = slices.DeleteFunc(a.blocks[m], func(b mem.Range) bool {
		if !b.Overlaps(r) {
			return false
		}
		bytes += int64(b.Size())
		return true
	})
	return bytes
}
