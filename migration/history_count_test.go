package migration_test

import (
	"slices"

	"godwit/mem"
	"godwit/migration"
)

// What histories do with size buffers, and what they tell the oracle of bytes
// that come along.

// countBy gives a buffer a size buffer, or takes it away.
func (h *history) countBy() {
	b, s := h.buffers[h.n(len(h.buffers))], h.buffers[h.n(len(h.buffers))]
	size := s.id
	if h.n(4) == 0 {
		s, size = nil, 0
	}
	serves := slices.ContainsFunc(h.buffers, func(o *buffer) bool { return o.count == b })
	wrong := s != nil && (s.size < migration.CountSize || s == b || s.count != nil || serves)
	if err := h.p.SetContentSize(b.id, size); (err != nil) != wrong {
		h.fail("size buffer %d of %d: %v", size, b.id, err)
	}
	if wrong {
		return
	}
	b.count = s
	h.note("size buffer of %d: %d", b.id, size)
	if err := h.o.SetContentSize(b.id, size); err != nil {
		h.fail("size buffer: %v", err)
	}
	h.recount()
}

// recount tells the oracle what the counts are.
func (h *history) recount() {
	for _, b := range h.buffers {
		if b.count != nil {
			h.o.SetCount(b.count.id, countIn(h.counts(b.count)))
		}
	}
}

// counts are the latest bytes of a size buffer.
func (h *history) counts(s *buffer) (out []mem.Version) {
	for off := range uint64(migration.CountSize) {
		v, _, _ := h.o.Byte(s.id, off)
		out = append(out, v)
	}
	return out
}

// limit is how many bytes of a buffer a reader may rely on.
func (h *history) limit(b *buffer) uint64 {
	if b.count == nil || slices.Contains(h.counts(b.count), 0) || h.mapped(b.count.id, mem.Range{End: migration.CountSize}) {
		return b.size
	}
	return countIn(h.counts(b.count))
}

// along tells the oracle what came along with a step.
func (h *history) along(st *migration.Step, command int) {
	if st.RideAlong == 0 {
		return
	}
	if n := h.o.Along(command, st.Buffer, st.Range, st.From, st.To); n > st.Range.Size() {
		h.fail("%d bytes came with a step of %v", n, st.Range)
	}
	h.rides += st.RideAlong
}
