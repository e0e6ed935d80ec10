package oracle

import "godwit/mem"

// WrittenBack replays that a copy brought all that its source held of r of a buffer, for
// no command's sake. It returns how many bytes it brought.
func (o *Oracle) WrittenBack(id mem.BufferID, r mem.Range, from, to mem.MemoryID) (bytes uint64) {
	o.Along(0, id, r, from, to)
	return r.Size()
}

// Evicted replays that a memory gave its block of a buffer up. It returns how many bytes
// of the content nobody holds any more: none, where they were written back that had to
// be.
func (o *Oracle) Evicted(id mem.BufferID, m mem.MemoryID) (lost uint64) {
	b := o.buffers[id]
	m = o.topo.Store(m)
	s := b.at(m)
	for i := range b.latest {
		had := s.has(b, uint64(i))
		if s.holds[i], s.by[i] = 0, 0; s.partOf != nil {
			s.partOf[i] = 0
		}
		if had && !b.anyHas(uint64(i)) {
			lost++
		}
	}
	return lost
}

// anyHas reports whether some memory holds offset i of the content.
func (b *buffer) anyHas(i uint64) bool {
	for _, s := range b.stores {
		if s != nil && s.has(b, i) {
			return true
		}
	}
	return false
}
