package oracle

import "godwit/mem"

// WrittenBack replays that a copy brought all that its source held of r of a buffer, for
// no command's sake. It returns a handle for FailCopy.
func (o *Oracle) WrittenBack(id mem.BufferID, r mem.Range, from, to mem.MemoryID) (command int) {
	res, _ := o.Prefetch(nil) // nothing that could be refused
	o.Along(res.Command, id, r, from, to)
	return res.Command
}

// Evicted replays that a memory gave its block of some bytes up. It returns how many bytes
// of the content nobody holds any more: none, where they were written back that had to
// be.
func (o *Oracle) Evicted(id mem.BufferID, m mem.MemoryID, r mem.Range) (lost uint64) {
	b := o.buffers[id]
	only := mem.SetOf(o.topo.Store(m))
	for i := r.Start; i < r.End; i++ {
		if b.holders(i) == only {
			lost++
		}
	}
	o.unstored(id, m, r)
	return lost
}
