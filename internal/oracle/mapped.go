package oracle

import (
	"slices"

	"godwit/mem"
)

// Mapped replays that the host has mapped a range for writing: until Unmapped, no
// byte of it has to come to the host, nor is what the host holds of it the content
// because of a command that reads it there. Where the range has a byte of a count,
// all bytes count until then, and what an earlier count left out is not there any
// more.
func (o *Oracle) Mapped(id mem.BufferID, r mem.Range) {
	b := o.buffers[id]
	b.mapped = append(b.mapped, r)
	o.written(id, r)
}

// Unmapped replays the end of a map for writing of exactly that range.
func (o *Oracle) Unmapped(id mem.BufferID, r mem.Range) {
	b := o.buffers[id]
	if i := slices.Index(b.mapped, r); i >= 0 {
		b.mapped = slices.Delete(b.mapped, i, i+1)
	}
}

// hostWrites reports whether offset i on a memory is the host's to write.
//
//go:norace
func (o *Oracle) hostWrites(b *buffer, m mem.MemoryID, i uint64) bool {
	return o.topo.Store(m) == o.topo.Store(mem.Host) && slices.ContainsFunc(b.mapped, func(r mem.Range) bool {
		return r.Start <= i && i < r.End
	})
}
