package history

import (
	"encoding/binary"
	"iter"
	"slices"

	"godwit/internal/flat"
	"godwit/mem"
	"godwit/runtime"
)

// model is one flat memory, and what the verdict has to know of its bytes besides:
// which were last written by a command that failed, and when.
type model struct {
	h      *History
	memory flat.Memory // the roots
	lost   [][]bool
	doubt  [][]bool       // may be lost: a write-back of them failed, and who else had them nobody asks
	wrote  [][]int        // the entry of the log that wrote last
	undone [][]int        // 1 + the epoch of an unmap that failed with its map since
	ids    []mem.BufferID // of the roots, now
	by     []int          // by root: that of its size buffer; -1 is none
	now    int            // the entry that is looked at
}

func newModel(h *History, ids []mem.BufferID) *model {
	m := &model{h: h, ids: ids, by: slices.Repeat([]int{-1}, len(h.Roots))}
	for i, r := range h.Roots {
		bytes := make([]byte, r.Size)
		if r.content() {
			copy(bytes, pattern(r.Size, uint32(i)))
		}
		m.memory.Add(bytes, r.content())
		m.lost = append(m.lost, make([]bool, r.Size))
		m.doubt = append(m.doubt, make([]bool, r.Size))
		m.wrote = append(m.wrote, make([]int, r.Size))
		m.undone = append(m.undone, make([]int, r.Size))
		fill(m.wrote[i], -1)
	}
	return m
}

// pattern is content that tells offsets and salts apart. A program may lend it to commands: so the
// race detector has to see it written, which it does as a whole.
func pattern(size int, salt uint32) []byte {
	b := make([]byte, size)
	copy(b, drawn(size, salt))
	return b
}

// drawn makes a pattern; the race detector need not watch each byte.
//
//go:norace
func drawn(size int, salt uint32) []byte {
	b := make([]byte, size)
	for i := range b {
		salt = salt*1664525 + 1013904223
		b[i] = byte(salt >> 24)
	}
	return b
}

// content is what an operation writes from the host's memory.
func (op *operation) content() []byte {
	if op.Kind == opCount {
		return binary.NativeEndian.AppendUint64(nil, op.counted())
	}
	return pattern(op.bytes(), op.Salt)
}

// fill is the pattern of a fill: as long as its offset and its size allow, or shorter.
func (op *operation) fill() []byte {
	n := 1 << (op.Salt >> 8 % 8)
	for (op.DstOff|op.Size)%n > 0 {
		n /= 2
	}
	return pattern(n, op.Salt)
}

// place is the root and the bytes of a part of a view.
func (m *model) place(view, off, size int) (root int, r mem.Range) {
	v := m.h.Views[view]
	start := uint64(v.Origin + off)
	return v.Root, mem.Range{Start: start, End: start + uint64(size)}
}

// setLost notes whether bytes are lost.
func (m *model) setLost(view, off, size int, lost bool) {
	root, r := m.place(view, off, size)
	clear(m.doubt[root][r.Start:r.End])
	fill(m.lost[root][r.Start:r.End], lost)
}

// fill and run go from byte to byte of what the model alone has: the race detector, which
// would take most of the time, need not watch each.
//
//go:norace
func fill[T bool | byte | int](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}

// run is how many of the first values are equal.
//
//go:norace
func run(s []bool) (n int) {
	for n < len(s) && s[n] == s[0] {
		n++
	}
	return n
}

// rows are the runs that an operation works on, in the roots.
func (m *model) rows(op *operation) iter.Seq[flat.Row] {
	dst, src := m.h.Views[op.Dst].Origin, 0
	if op.paired() {
		src = m.h.Views[op.Src].Origin
	}
	return func(yield func(flat.Row) bool) {
		for _, w := range m.h.rows(op) {
			if !yield(flat.Row{Dst: uint64(dst + w.dst), Src: uint64(src + w.src), Size: uint64(w.size)}) {
				return
			}
		}
	}
}

// readsLost reports whether an operation reads bytes that are lost.
func (m *model) readsLost(op *operation) bool {
	return m.readsFlagged(op, m.lost)
}

// readsDoubt reports whether an operation reads bytes that may be lost.
func (m *model) readsDoubt(op *operation) bool {
	return m.readsFlagged(op, m.doubt)
}

// readsFlagged reports whether an operation reads a byte whose flag is set.
func (m *model) readsFlagged(op *operation, flags [][]bool) bool {
	return slices.ContainsFunc(m.h.touches(op), func(t touch) bool {
		v := m.h.Views[t.view]
		s := flags[v.Root][v.Origin+t.off:][:t.size]
		return t.mode.Reads() && t.size > 0 && (s[0] || run(s) < t.size)
	})
}

// doubtful notes that a buffer's bytes may be lost.
func (m *model) doubtful(id mem.BufferID, r mem.Range) {
	root := slices.Index(m.ids, id)
	if root < 0 {
		return
	}
	for i := r.Start; i < r.End; i++ {
		m.doubt[root][i] = !m.lost[root][i]
	}
}

// lose does what an operation that failed does to the bytes it was to write.
func (m *model) lose(op *operation) {
	if !op.writes() {
		return
	}
	if op.Kind == opCount { // who succeeds all the same needed no copy: to them all bytes count
		m.memory.Uncount(m.h.Views[op.Dst].Root)
	}
	for _, w := range m.h.rows(op) {
		m.memory.Undefine(m.place(op.Dst, w.dst, w.size))
		m.setLost(op.Dst, w.dst, w.size, true)
		m.date(op, w)
	}
}

// date notes when bytes of a destination were written.
func (m *model) date(op *operation, w row) {
	root, r := m.place(op.Dst, w.dst, w.size)
	clear(m.undone[root][r.Start:r.End])
	fill(m.wrote[root][r.Start:r.End], m.now)
}

// undo notes that what an unmap was to write is what it was before, since its map
// failed: who came between, and read the bytes, may have failed with it.
func (m *model) undo(op *operation, epoch int) {
	v := m.h.Views[op.Dst]
	for i := range op.Size {
		m.undone[v.Root][v.Origin+op.DstOff+i] = epoch + 1
	}
}

// restsOnUndone reports whether an operation of that epoch reads such bytes.
func (m *model) restsOnUndone(op *operation, epoch int) bool {
	return m.reads(op, func(root, at int) bool { return m.undone[root][at] == epoch+1 })
}

// reads reports whether an operation reads a byte of which is is true.
func (m *model) reads(op *operation, is func(root, at int) bool) bool {
	return slices.ContainsFunc(m.h.touches(op), func(t touch) bool {
		v := m.h.Views[t.view]
		for i := range t.size {
			if t.mode.Reads() && is(v.Root, v.Origin+t.off+i) {
				return true
			}
		}
		return false
	})
}

// renew makes a root new.
func (m *model) renew(root int, id mem.BufferID) {
	m.ids[root] = id
	clear(m.doubt[root])
	fill(m.wrote[root], m.now)
	clear(m.undone[root])
}

// rests reports whether an operation reads bytes that a struck copy was to carry, or
// bytes that count by one of them.
func (m *model) rests(op *operation, h hit) bool {
	hit := slices.Index(m.ids, h.buffer)
	return m.reads(op, func(root, at int) bool {
		return hit >= 0 && m.by[root] == hit || m.ids[root] == h.buffer && h.bytes.Contains(mem.Range{Start: uint64(at), End: uint64(at) + 1}) && m.wrote[root][at] < h.at
	})
}

// apply does what an accepted operation does.
func (m *model) apply(op *operation) {
	if op.writes() {
		for _, w := range m.h.rows(op) {
			m.setLost(op.Dst, w.dst, w.size, false)
			m.date(op, w)
		}
	}
	root, r := m.place(op.Dst, op.DstOff, op.Size)
	switch op.Kind {
	case opWrite, opWriteRect, opCount:
		m.memory.Write(root, m.rows(op), op.content())
	case opCountBy:
		m.countBy(root, op.Ref)
	case opUnmap:
		if op.mapWrites() {
			m.memory.Keep(root, r)
			from, to := op.hostWrites()
			_, part := m.place(op.Dst, op.DstOff+from, to-from)
			copy(m.memory.Set(root, part), pattern(op.Size, op.Salt)[from:to])
		}
	case opCopy, opCopyRect:
		m.memory.Copy(root, m.h.Views[op.Src].Root, m.rows(op))
	case opFill:
		m.memory.Fill(root, r, op.fill())
	case opProduce, opMix, opReverse:
		m.launch(op)
	case opMigrate:
		if op.Undefined {
			m.memory.Undefine(m.place(op.Dst, 0, m.h.Views[op.Dst].Size))
		}
	case opRenew: // of a root, not of a view
		m.memory.Undefine(op.Dst, mem.Range{End: uint64(m.h.Roots[op.Dst].Size)})
		clear(m.lost[op.Dst])
		clear(m.doubt[op.Dst])
		m.countBy(op.Dst, -1)
		if r := m.h.Roots[op.Dst]; r.Kind == lentRoot {
			copy(m.memory.Set(op.Dst, mem.Range{End: uint64(r.Size)}), pattern(r.Size, uint32(op.Dst)))
		}
	}
}

// launch does what a kernel does.
func (m *model) launch(op *operation) {
	root, r := m.place(op.Dst, op.DstOff, op.Size)
	uses := []flat.Use{{Root: root, Given: r, Used: r, Reads: op.Kind == opMix, Writes: true}}
	dst := m.memory.Bytes(root, r)
	var src []byte
	if op.paired() {
		from, part := m.place(op.Src, op.SrcOff, op.Size)
		uses = append(uses, flat.Use{Root: from, Given: part, Used: part, Reads: true})
		src = m.memory.Bytes(from, part)
	}
	_ = m.memory.Launch(uses, func() error { // never fails
		for i := range dst {
			switch op.Kind {
			case opProduce:
				dst[i] = produced(i, op.Salt)
			case opReverse:
				dst[i] = src[op.Size-1-i]
			default:
				dst[i] = mixed(dst[i], src[i], op.Salt)
			}
		}
		return nil
	})
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
	m.setLost(x.op.Dst, w.dst, w.size, false)
	m.date(x.op, w)
	if x.op.Flags&runtime.MapInvalidate != 0 {
		m.memory.Undefine(m.place(x.op.Dst, w.dst, w.size))
	}
}

// read is what an operation gives to the host, and which bytes of it are known:
// those between rows, and where they are not the buffer's, stay as they were.
func (m *model) read(op *operation) (bytes []byte, known []bool) {
	bytes, known = make([]byte, op.bytes()), make([]bool, op.bytes())
	fill(bytes, untouched)
	fill(known, true)
	for _, w := range m.h.rows(op) {
		root, r := m.place(op.Dst, w.dst, w.size)
		copy(bytes[w.src:], m.memory.Bytes(root, r))
		for at, is := range m.memory.Known(root, r, m.memory.Limit(root)) {
			fill(known[w.src:][at.Start-r.Start:at.End-r.Start], is)
		}
	}
	return bytes, known
}

func produced(i int, salt uint32) byte { return byte(7*uint32(i) + salt) }

func mixed(dst, src byte, salt uint32) byte { return byte(31*uint32(dst) + uint32(src) + salt) }
