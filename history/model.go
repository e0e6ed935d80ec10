package history

import "slices"

// model is one flat memory: each root's bytes, which of them are defined, and
// which were last written by a command that failed.
type model struct {
	h     *History
	bytes [][]byte
	known [][]bool
	lost  [][]bool
	counts
}

func newModel(h *History) *model {
	m := &model{h: h, counts: newCounts(h)}
	for i, r := range h.Roots {
		m.bytes = append(m.bytes, make([]byte, r.Size))
		m.known = append(m.known, make([]bool, r.Size))
		m.lost = append(m.lost, make([]bool, r.Size))
		if r.content() {
			copy(m.bytes[i], pattern(r.Size, uint32(i)))
			set(m.known[i], true)
		}
	}
	return m
}

// pattern is content that tells offsets and salts apart.
func pattern(size int, salt uint32) []byte {
	b := make([]byte, size)
	for i := range b {
		salt = salt*1664525 + 1013904223
		b[i] = byte(salt >> 24)
	}
	return b
}

func set(known []bool, v bool) {
	for i := range known {
		known[i] = v
	}
}

// at is size bytes at off of a view.
func (m *model) at(view, off, size int) (bytes []byte, known, lost []bool) {
	v := m.h.Views[view]
	from := v.Origin + off
	return m.bytes[v.Root][from : from+size], m.known[v.Root][from : from+size], m.lost[v.Root][from : from+size]
}

// readsLost reports whether an operation reads bytes that are lost.
func (m *model) readsLost(op *Op) bool {
	for _, w := range m.h.rows(op) {
		var dst, src []bool
		if op.old() {
			_, _, dst = m.at(op.Dst, w.dst, w.size)
		}
		if op.paired() {
			_, _, src = m.at(op.Src, w.src, w.size)
		}
		if slices.Contains(dst, true) || slices.Contains(src, true) {
			return true
		}
	}
	return false
}

// lose does what an operation that failed does to the bytes it was to write.
func (m *model) lose(op *Op) {
	m.applyCount(m.h, op, true)
	if !op.writes() {
		return
	}
	for _, w := range m.h.rows(op) {
		_, known, lost := m.at(op.Dst, w.dst, w.size)
		set(known, false)
		set(lost, true)
	}
}

// apply does what an accepted operation does.
func (m *model) apply(op *Op) {
	m.applyCount(m.h, op, false)
	if op.writes() {
		for _, w := range m.h.rows(op) {
			_, _, lost := m.at(op.Dst, w.dst, w.size)
			set(lost, false)
		}
	}
	switch op.Kind {
	case Write, WriteRect:
		m.applyData(op)
	case Unmap:
		if op.mapWrites() {
			m.brought(op.Dst, op.DstOff, op.Size)
			from, to := op.hostWrites()
			b, known, _ := m.at(op.Dst, op.DstOff+from, to-from)
			copy(b, pattern(op.Size, op.Salt)[from:to])
			set(known, true)
		}
	case CopyRect:
		m.applyRows(op)
	case Fill:
		b, known, _ := m.at(op.Dst, op.DstOff, op.Size)
		for i := range b {
			b[i] = byte(op.Salt)
		}
		set(known, true)
	case Produce:
		b, known, _ := m.at(op.Dst, op.DstOff, op.Size)
		for i := range b {
			b[i] = produced(i, op.Salt)
		}
		set(known, true)
	case Copy, Mix, Reverse:
		m.applyPair(op)
	case Migrate:
		if op.Undefined {
			_, known, _ := m.at(op.Dst, 0, m.h.Views[op.Dst].Size)
			set(known, false)
		}
	case Renew:
		set(m.known[op.Dst], false)
		set(m.lost[op.Dst], false)
		m.by[op.Dst] = 0
	}
}

// applyData writes the host's memory.
func (m *model) applyData(op *Op) {
	data := pattern(op.bytes(), op.Salt)
	for _, w := range m.h.rows(op) {
		b, known, _ := m.at(op.Dst, w.dst, w.size)
		copy(b, data[w.src:])
		set(known, true)
	}
}

// applyRows copies all rows, of which none is source and destination.
func (m *model) applyRows(op *Op) {
	for _, w := range m.h.rows(op) {
		dst, dk, _ := m.at(op.Dst, w.dst, w.size)
		src, _, _ := m.at(op.Src, w.src, w.size)
		copy(dst, src)
		copy(dk, m.seen(op.Src, w.src, w.size))
	}
}

// untouched is what memory for a read holds before it.
const untouched = 0xEE

// read is what an operation gives to the host, and which bytes of it are known:
// those between rows, and where they are not the buffer's, stay as they were.
func (m *model) read(op *Op) (bytes []byte, known []bool) {
	bytes, known = make([]byte, op.bytes()), make([]bool, op.bytes())
	set(known, true)
	for i := range bytes {
		bytes[i] = untouched
	}
	for _, w := range m.h.rows(op) {
		b, _, _ := m.at(op.Dst, w.dst, w.size)
		copy(bytes[w.src:], b)
		copy(known[w.src:], m.seen(op.Dst, w.dst, w.size))
	}
	return bytes, known
}

func (m *model) applyPair(op *Op) {
	dst, dk, _ := m.at(op.Dst, op.DstOff, op.Size)
	src, _, _ := m.at(op.Src, op.SrcOff, op.Size)
	sk := m.seen(op.Src, op.SrcOff, op.Size)
	if op.Kind == Mix {
		m.brought(op.Dst, op.DstOff, op.Size)
	}
	for i := range dst {
		switch op.Kind {
		case Copy:
			dst[i], dk[i] = src[i], sk[i]
		case Reverse:
			dst[i], dk[i] = src[op.Size-1-i], sk[op.Size-1-i]
		default:
			dst[i], dk[i] = mixed(dst[i], src[i], op.Salt), dk[i] && sk[i]
		}
	}
}

func produced(i int, salt uint32) byte { return byte(7*uint32(i) + salt) }

func mixed(dst, src byte, salt uint32) byte { return byte(31*uint32(dst) + uint32(src) + salt) }
