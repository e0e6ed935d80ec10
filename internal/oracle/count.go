package oracle

import (
	"fmt"

	"godwit/mem"
)

// Content size. Of a buffer with a size buffer only the bytes below the count
// have to be where they are read; those beyond are as good as there, until the
// count gets another version. The caller says what the count is, as it will be
// when the copies run.

// countSize is how many bytes of a size buffer hold the count.
const countSize = 8

// SetContentSize makes size the size buffer of a buffer; 0 takes it away. Until
// the first SetCount, and while a byte of the count was never written, all bytes
// of the buffer count.
func (o *Oracle) SetContentSize(id, size mem.BufferID) error {
	b := o.buffers[id]
	if b == nil || size != 0 && o.buffers[size] == nil {
		return fmt.Errorf("oracle: size buffer %d of %d: %w", size, id, mem.ErrInvalidBuffer)
	}
	b.size = size
	o.recount(b)
	return nil
}

// SetCount says what the size buffer's first bytes are from here on, as a
// number. It changes nothing by itself: a write that is replayed does.
func (o *Oracle) SetCount(size mem.BufferID, count uint64) {
	if b := o.buffers[size]; b != nil {
		b.count = count
	}
}

// recount makes the count of b's bytes another one: what was as good as there is
// not any more.
//
//go:norace
func (o *Oracle) recount(b *buffer) {
	o.counts++
	b.under = o.counts
	for i := range b.latest {
		if b.latest[i] != 0 && !b.lost[i] && b.holders(uint64(i)).Empty() {
			b.lose(i)
		}
	}
}

// written replays what a write of r of a size buffer means for those it counts.
func (o *Oracle) written(id mem.BufferID, r mem.Range) {
	if r.Start >= countSize {
		return
	}
	for _, b := range o.buffers {
		if b.size == id {
			o.recount(b)
		}
	}
}

// has reports whether a store holds byte i, or is as good as if it did.
func (s *store) has(b *buffer, i uint64) bool {
	if s.partOf != nil && s.partOf[i] != 0 && s.partOf[i] == b.latest[i] {
		return s.part[i] == b.under
	}
	return s.holds[i] != 0 && s.holds[i] == b.latest[i]
}

// counting finds the size buffer that decides what an access brings: nil where
// there is none, or it was never written or is mapped, or nothing is missing.
//
//go:norace
func (o *Oracle) counting(a mem.Access) *buffer {
	b := o.buffers[a.Buffer]
	if b.size == 0 || !a.Mode.Reads() {
		return nil
	}
	n := o.buffers[b.size]
	for i := range uint64(countSize) {
		if n.latest[i] == 0 || o.hostWrites(n, mem.Host, i) {
			return nil
		}
	}
	s := b.at(o.topo.Store(a.Memory))
	for i := a.Range.Start; i < a.Range.End; i++ {
		if b.latest[i] != 0 && !s.has(b, i) && !o.hostWrites(b, a.Memory, i) {
			return n
		}
	}
	return nil
}

// counts lists the accesses of the size buffers that decide what a command
// brings.
func (o *Oracle) countsOf(accs []mem.Access) (out []mem.Access) {
	for _, a := range accs {
		if o.counting(a) != nil {
			out = append(out, mem.Access{Buffer: o.buffers[a.Buffer].size, Range: mem.Range{End: countSize}, Memory: mem.Host})
		}
	}
	return out
}

// arriveCounted is arrive for what counting found a count for.
//
//go:norace
func (o *Oracle) arriveCounted(a mem.Access, count uint64) (moved uint64) {
	b := o.buffers[a.Buffer]
	s := b.at(o.topo.Store(a.Memory))
	if s.partOf == nil {
		s.part, s.partOf = make([]uint32, len(b.latest)), make([]uint32, len(b.latest))
	}
	for i := a.Range.Start; i < a.Range.End; i++ {
		if b.latest[i] == 0 || s.has(b, i) || o.hostWrites(b, a.Memory, i) {
			continue
		}
		if i < count && s.holds[i] != b.latest[i] {
			s.holds[i] = b.latest[i]
			moved++
		}
		s.part[i], s.partOf[i] = b.under, b.latest[i]
	}
	return moved
}
