package metamorphic

// model is one flat memory: each root's bytes and which of them are defined.
type model struct {
	h     *History
	bytes [][]byte
	known [][]bool
}

func newModel(h *History) *model {
	m := &model{h: h}
	for i, size := range h.Roots {
		m.bytes = append(m.bytes, make([]byte, size))
		m.known = append(m.known, make([]bool, size))
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
func (m *model) at(view, off, size int) ([]byte, []bool) {
	v := m.h.Views[view]
	from := v.Origin + off
	return m.bytes[v.Root][from : from+size], m.known[v.Root][from : from+size]
}

// apply does what an accepted operation does.
func (m *model) apply(op *Op) {
	switch op.Kind {
	case Write:
		b, known := m.at(op.Dst, op.DstOff, op.Size)
		copy(b, pattern(op.Size, op.Salt))
		set(known, true)
	case Fill:
		b, known := m.at(op.Dst, op.DstOff, op.Size)
		for i := range b {
			b[i] = byte(op.Salt)
		}
		set(known, true)
	case Produce:
		b, known := m.at(op.Dst, op.DstOff, op.Size)
		for i := range b {
			b[i] = produced(i, op.Salt)
		}
		set(known, true)
	case Copy, Mix, Reverse:
		m.applyPair(op)
	case Migrate:
		if op.Undefined {
			_, known := m.at(op.Dst, 0, m.h.Views[op.Dst].Size)
			set(known, false)
		}
	case Renew:
		set(m.known[op.Dst], false)
	}
}

func (m *model) applyPair(op *Op) {
	dst, dk := m.at(op.Dst, op.DstOff, op.Size)
	src, sk := m.at(op.Src, op.SrcOff, op.Size)
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
