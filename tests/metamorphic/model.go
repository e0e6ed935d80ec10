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

// extent is the range of its destination view that an operation works on.
func (m *model) extent(op *Op) (off, size int) {
	if op.Kind == Migrate {
		return 0, m.h.Views[op.Dst].Size
	}
	return op.DstOff, op.Size
}

// writes reports whether an operation writes its destination.
func (op *Op) writes() bool {
	switch op.Kind {
	case Write, Fill, Produce, Copy, Mix, Reverse:
		return true
	case Migrate:
		return op.Undefined
	}
	return false
}

// readsLost reports whether an operation reads bytes that are lost.
func (m *model) readsLost(op *Op) bool {
	var reads []bool
	off, size := m.extent(op)
	switch {
	case op.Kind == Read, op.Kind == Mix, op.Kind == Migrate && !op.Undefined:
		_, _, reads = m.at(op.Dst, off, size)
	}
	if slices.Contains(reads, true) {
		return true
	}
	if op.Kind == Copy || op.Kind == Mix || op.Kind == Reverse {
		_, _, reads = m.at(op.Src, op.SrcOff, op.Size)
		return slices.Contains(reads, true)
	}
	return false
}

// lose does what an operation that failed does to the bytes it was to write.
func (m *model) lose(op *Op) {
	if !op.writes() {
		return
	}
	off, size := m.extent(op)
	_, known, lost := m.at(op.Dst, off, size)
	set(known, false)
	set(lost, true)
}

// apply does what an accepted operation does.
func (m *model) apply(op *Op) {
	if op.writes() {
		off, size := m.extent(op)
		_, _, lost := m.at(op.Dst, off, size)
		set(lost, false)
	}
	switch op.Kind {
	case Write:
		b, known, _ := m.at(op.Dst, op.DstOff, op.Size)
		copy(b, pattern(op.Size, op.Salt))
		set(known, true)
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
