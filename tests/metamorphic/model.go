package metamorphic

import "slices"

// model is one flat memory: each root's bytes, which of them are defined, and
// which were last written by a command that failed.
type model struct {
	h     *History
	bytes [][]byte
	known [][]bool
	lost  [][]bool
}

func newModel(h *History) *model {
	m := &model{h: h}
	for i, size := range h.Roots {
		m.bytes = append(m.bytes, make([]byte, size))
		m.known = append(m.known, make([]bool, size))
		m.lost = append(m.lost, make([]bool, size))
		if h.Init[i] {
			copy(m.bytes[i], pattern(size, uint32(i)))
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

// row is a run of bytes of the destination view, and of the source view where
// there is one.
type row struct{ dst, src, size int }

// rows are the runs that an operation works on: one but for rectangles.
func (m *model) rows(op *Op) []row {
	if op.Kind == Migrate {
		return []row{{0, 0, m.h.Views[op.Dst].Size}}
	}
	out := []row{{op.DstOff, op.SrcOff, op.Size}}
	for i := 1; i < op.Rows; i++ {
		out = append(out, row{op.DstOff + i*op.DstRow, op.SrcOff + i*op.SrcRow, op.Size})
	}
	return out
}

// bytes is how many bytes of its destination an operation works on.
func (op *Op) bytes() int { return op.Size * max(op.Rows, 1) }

// reads reports whether an operation gives bytes to the host.
func (op *Op) reads() bool { return op.Kind == Read || op.Kind == ReadRect || op.Kind == MapRead }

// writes reports whether an operation writes its destination.
func (op *Op) writes() bool {
	switch op.Kind {
	case Write, Fill, Produce, Copy, Mix, Reverse, WriteRect, CopyRect, MapWrite, MapInvalidate:
		return true
	case Migrate:
		return op.Undefined
	}
	return false
}

// readsLost reports whether an operation reads bytes that are lost.
func (m *model) readsLost(op *Op) bool {
	for _, w := range m.rows(op) {
		var dst, src []bool
		if op.reads() || op.Kind == Mix || op.Kind == MapWrite || (op.Kind == Migrate && !op.Undefined) {
			_, _, dst = m.at(op.Dst, w.dst, w.size)
		}
		if op.Kind == Copy || op.Kind == Mix || op.Kind == Reverse || op.Kind == CopyRect {
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
	if !op.writes() {
		return
	}
	for _, w := range m.rows(op) {
		_, known, lost := m.at(op.Dst, w.dst, w.size)
		set(known, false)
		set(lost, true)
	}
}

// apply does what an accepted operation does.
func (m *model) apply(op *Op) {
	if op.writes() {
		for _, w := range m.rows(op) {
			_, _, lost := m.at(op.Dst, w.dst, w.size)
			set(lost, false)
		}
	}
	switch op.Kind {
	case Write, WriteRect, MapWrite, MapInvalidate:
		data := pattern(op.bytes(), op.Salt)
		for i, w := range m.rows(op) {
			b, known, _ := m.at(op.Dst, w.dst, w.size)
			copy(b, data[i*w.size:])
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
	}
}

// applyRows copies all rows, of which none is source and destination.
func (m *model) applyRows(op *Op) {
	for _, w := range m.rows(op) {
		dst, dk, _ := m.at(op.Dst, w.dst, w.size)
		src, sk, _ := m.at(op.Src, w.src, w.size)
		copy(dst, src)
		copy(dk, sk)
	}
}

// read is what an operation gives to the host, and which bytes of it are known.
func (m *model) read(op *Op) (bytes []byte, known []bool) {
	for _, w := range m.rows(op) {
		b, k, _ := m.at(op.Dst, w.dst, w.size)
		bytes, known = append(bytes, b...), append(known, k...)
	}
	return bytes, known
}

func (m *model) applyPair(op *Op) {
	dst, dk, _ := m.at(op.Dst, op.DstOff, op.Size)
	src, sk, _ := m.at(op.Src, op.SrcOff, op.Size)
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
