// Package flat is one flat memory: the bytes that the buffers of a context hold if
// its commands take effect one after the other, in enqueue order. Scenarios and
// random histories compare what they read with it. No device, planner or copy has a
// part in it; kernels are the caller's to run.
//
// Bytes that nobody has written, and what is computed from them, are not known, and
// whoever reads them may see anything. So it is with bytes beyond a content size: a
// buffer may have a size buffer, whose first 8 bytes say how many of its bytes matter.
package flat

import (
	"encoding/binary"
	"iter"
	"maps"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// Memory is the bytes of some roots, which are numbered from 0. Not safe for
// concurrent use. Ranges must lie within the roots.
type Memory struct{ roots []root }

type root struct {
	bytes []byte
	known rangemap.Map[bool]
	by    int  // its size buffer, or -1
	said  bool // of a size buffer: a count was written
}

// Row is a run of bytes of a destination and of a source, by their offsets.
type Row struct{ Dst, Src, Size uint64 }

// Whole yields one row.
func Whole(dst, src, size uint64) iter.Seq[Row] {
	return func(yield func(Row) bool) { yield(Row{dst, src, size}) }
}

// Add adds a root over memory of the caller's, and returns its number. known says that
// the bytes are its content; else it was never written.
func (m *Memory) Add(bytes []byte, known bool) int {
	m.roots = append(m.roots, root{bytes: bytes, known: rangemap.Make(uint64(len(bytes)), known), by: -1, said: known})
	return len(m.roots) - 1
}

// countSize is how many bytes of a size buffer hold the count.
const countSize = 8

// CountBy makes size the size buffer of a root; -1 takes it away.
func (m *Memory) CountBy(root, size int) { m.roots[root].by = size }

// Uncount makes a size buffer one whose count was never written: all bytes count.
func (m *Memory) Uncount(size int) { m.roots[size].said = false }

// Limit is how many bytes of a root those who read it now may rely on.
func (m *Memory) Limit(root int) uint64 {
	r := &m.roots[root]
	all := uint64(len(r.bytes))
	if r.by < 0 || !m.roots[r.by].said {
		return all
	}
	count := &m.roots[r.by]
	for _, known := range m.Known(r.by, mem.Range{End: countSize}, countSize) {
		if !known {
			return 0
		}
	}
	return min(binary.NativeEndian.Uint64(count.bytes), all)
}

// Bytes are a root's, known or not.
func (m *Memory) Bytes(root int, r mem.Range) []byte { return m.roots[root].bytes[r.Start:r.End] }

// Known yields the runs of bytes of r that are known, and those that are not; none is
// from limit on.
func (m *Memory) Known(root int, r mem.Range, limit uint64) iter.Seq2[mem.Range, bool] {
	return func(yield func(mem.Range, bool) bool) {
		below := r.Intersect(mem.Range{End: limit})
		for at, known := range m.roots[root].known.In(below) {
			if !yield(at, *known) {
				return
			}
		}
		if rest := (mem.Range{Start: max(r.Start, limit), End: r.End}); !rest.Empty() {
			yield(rest, false)
		}
	}
}

// allKnown reports whether Known yields nothing that is not.
func (m *Memory) allKnown(root int, r mem.Range, limit uint64) bool {
	for _, known := range m.Known(root, r, limit) {
		if !known {
			return false
		}
	}
	return true
}

// Set makes r known, and returns its bytes, for the caller to write all of them.
func (m *Memory) Set(root int, r mem.Range) []byte {
	m.roots[root].known.Set(r, true)
	m.say(root, r)
	return m.Bytes(root, r)
}

// say notes that r was written, which may be a count.
func (m *Memory) say(root int, r mem.Range) {
	if r.Overlaps(mem.Range{End: countSize}) {
		m.roots[root].said = true
	}
}

// Undefine makes r a part that nobody knows.
func (m *Memory) Undefine(root int, r mem.Range) { m.roots[root].known.Set(r, false) }

// Keep makes unknown what is beyond the count: an operation that keeps some of r's
// content was not given more.
func (m *Memory) Keep(root int, r mem.Range) {
	if beyond := (mem.Range{Start: max(r.Start, m.Limit(root)), End: r.End}); !beyond.Empty() {
		m.Undefine(root, beyond)
	}
}

// Write writes rows of the host's memory.
func (m *Memory) Write(dst int, rows iter.Seq[Row], src []byte) {
	for w := range rows {
		copy(m.Set(dst, mem.Range{Start: w.Dst, End: w.Dst + w.Size}), src[w.Src:])
	}
}

// Fill repeats a pattern over r.
func (m *Memory) Fill(dst int, r mem.Range, pattern []byte) { Repeat(m.Set(dst, r), pattern) }

// Repeat fills dst with repetitions of a pattern, the last of which may be cut short.
func Repeat(dst, pattern []byte) {
	for n := copy(dst, pattern); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// Copy copies rows, of which no byte is source and destination.
func (m *Memory) Copy(dst, src int, rows iter.Seq[Row]) {
	limit := m.Limit(src)
	for w := range rows {
		copy(m.Bytes(dst, mem.Range{Start: w.Dst, End: w.Dst + w.Size}), m.roots[src].bytes[w.Src:])
		m.say(dst, mem.Range{Start: w.Dst, End: w.Dst + w.Size})
		from := mem.Range{Start: w.Src, End: w.Src + w.Size}
		runs := maps.Collect(m.Known(src, from, limit)) // of one root, perhaps
		for at, known := range runs {
			m.roots[dst].known.Set(at.Shift(w.Dst-w.Src), known)
		}
	}
}
