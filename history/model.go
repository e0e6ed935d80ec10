package history

import (
	"slices"

	"godwit/mem"
	"godwit/runtime"
)

// model is one flat memory: each root's bytes, which of them are defined, and
// which were last written by a command that failed.
type model struct {
	h      *History
	bytes  [][]byte
	known  [][]bool
	lost   [][]bool
	wrote  [][]int        // the entry of the log that wrote last
	undone [][]int        // 1 + the epoch of an unmap that failed with its map since
	ids    []mem.BufferID // of the roots, now
	now    int            // the entry that is looked at
	counts
}

func newModel(h *History, ids []mem.BufferID) *model {
	m := &model{h: h, ids: ids, counts: newCounts(h)}
	for i, r := range h.Roots {
		m.bytes = append(m.bytes, make([]byte, r.Size))
		m.known = append(m.known, make([]bool, r.Size))
		m.lost = append(m.lost, make([]bool, r.Size))
		m.wrote = append(m.wrote, make([]int, r.Size))
		m.undone = append(m.undone, make([]int, r.Size))
		for k := range m.wrote[i] {
			m.wrote[i][k] = -1
		}
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
	return m.reads(op, func(root, at int) bool { return m.lost[root][at] })
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
		m.date(op, w)
	}
}

// date notes when bytes of a destination were written.
func (m *model) date(op *Op, w row) {
	v := m.h.Views[op.Dst]
	for i := range w.size {
		m.wrote[v.Root][v.Origin+w.dst+i], m.undone[v.Root][v.Origin+w.dst+i] = m.now, 0
	}
}

// undo notes that what an unmap was to write is what it was before, since its map
// failed: who came between, and read the bytes, may have failed with it.
func (m *model) undo(op *Op, epoch int) {
	v := m.h.Views[op.Dst]
	for i := range op.Size {
		m.undone[v.Root][v.Origin+op.DstOff+i] = epoch + 1
	}
}

// restsOnUndone reports whether an operation of that epoch reads such bytes.
func (m *model) restsOnUndone(op *Op, epoch int) bool {
	return m.reads(op, func(root, at int) bool { return m.undone[root][at] == epoch+1 })
}

// reads reports whether an operation reads a byte of which is is true.
func (m *model) reads(op *Op, is func(root, at int) bool) bool {
	some := func(view, off, size int) bool {
		v := m.h.Views[view]
		for i := range size {
			if is(v.Root, v.Origin+off+i) {
				return true
			}
		}
		return false
	}
	for _, w := range m.h.rows(op) {
		if op.old() && some(op.Dst, w.dst, w.size) || op.paired() && some(op.Src, w.src, w.size) {
			return true
		}
	}
	return false
}

// renew makes a root new.
func (m *model) renew(root int, id mem.BufferID) {
	m.ids[root] = id
	for i := range m.wrote[root] {
		m.wrote[root][i], m.undone[root][i] = m.now, 0
	}
}

// rests reports whether an operation reads bytes that a struck copy was to carry, or
// bytes that count by one of them.
func (m *model) rests(op *Op, h hit) bool {
	count := !slices.Contains(m.ids, h.buffer)
	return m.reads(op, func(root, at int) bool {
		if count {
			return m.by[root] > 0
		}
		return m.ids[root] == h.buffer && h.bytes.Contains(mem.Range{Start: uint64(at), End: uint64(at) + 1}) && m.wrote[root][at] < h.at
	})
}

// apply does what an accepted operation does.
func (m *model) apply(op *Op) {
	m.applyCount(m.h, op, false)
	if op.writes() {
		for _, w := range m.h.rows(op) {
			_, _, lost := m.at(op.Dst, w.dst, w.size)
			set(lost, false)
			m.date(op, w)
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

// free ends a map with its pointer: the host has written nothing, and what a map that
// invalidates left is undefined. Where the free's command failed, it is lost.
func (m *model) free(x *entry, failed bool) {
	switch {
	case x.mapped.Err() != nil || !x.op.mapWrites():
		return
	case failed:
		m.lose(x.op)
		return
	}
	w := m.h.rows(x.op)[0]
	_, known, lost := m.at(x.op.Dst, w.dst, w.size)
	set(lost, false)
	m.date(x.op, w)
	if x.op.Flags&runtime.MapInvalidate != 0 {
		set(known, false)
	}
}

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
