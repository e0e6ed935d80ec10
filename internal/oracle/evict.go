package oracle

import "godwit/mem"

// Evicted replays that a memory gave its block of some bytes up. It returns how many bytes
// of the content nobody holds any more: none, where they were written back that had to
// be.
//
//go:norace
func (o *Oracle) Evicted(id mem.BufferID, m mem.MemoryID, r mem.Range) (lost uint64) {
	b := o.buffers[id]
	only := mem.SetOf(o.topo.Store(m))
	for i := r.Start; i < r.End; i++ {
		if b.holders(i) == only {
			lost++
		}
	}
	if s := b.stores[o.topo.Store(m)]; s != nil {
		for i := r.Start; i < r.End; i++ {
			s.drop(i)
		}
	}
	return lost
}
