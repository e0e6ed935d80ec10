package oracle

import "godwit/mem"

// Along replays that a copy of r of a buffer brought all that its source held: what nobody
// needed came along, and is there from now on. It is to be called after the copies that the
// command needs (Prefetch), and before its own writes (Enqueue).
//
//go:norace
func (o *Oracle) Along(id mem.BufferID, r mem.Range, from, to mem.MemoryID) {
	b := o.buffers[id]
	src, dst := b.at(o.topo.Store(from)), b.at(o.topo.Store(to))
	for i := r.Start; i < r.End; i++ {
		if !src.has(b, i) {
			continue
		}
		dst.holds[i] = b.latest[i]
		if dst.partOf != nil {
			dst.partOf[i] = 0 // as a whole, whatever a count once left out
		}
	}
}
