package scenario

import (
	"github.com/goccy/go-yaml/ast"
)

// Where writes, reads and copies are: bytes, or the rows and slices of a rectangle.

// readPlace reads where a write or a read of a buffer is.
func (l *loader) readPlace(m *mapping, c *command) {
	if m.hasRows() {
		c.Rect, c.Place, c.To = l.rect(m, string(c.Kind), "host-")
	} else {
		c.Place = l.place(m, string(c.Kind), "offset")
	}
}

// maxRows bounds the rows and the slices of a rectangle, and maxPitch the bytes
// between two of them: no product of them overflows.
const (
	maxRows  = 1 << 20
	maxPitch = 1 << 40
)

// rect reads a rectangle at the place under key, and its other end, whose keys
// begin with other: "to-" is a place, "host-" is memory of the host.
func (l *loader) rect(m *mapping, key, other string) (r *rectangle, at, to place) {
	before := l.faults
	at = l.placeNamed(m.get(key), key)
	if other == "to-" {
		to = l.placeNamed(m.get("to"), key+": to")
	}
	r = &rectangle{}
	r.Region = [3]uint64{l.natural(m, "size", 1, 0), l.natural(m, "rows", 1, 1), l.natural(m, "slices", 1, 1)}
	for i, name := range []string{"rows", "slices"} {
		if n := r.Region[i+1]; n > maxRows {
			l.errorf(m.get(name), "%s: %s is %d: want at most %d", key, name, n, maxRows)
		}
	}
	if l.faults > before || r.Region[0] == 0 { // its size is missing
		return nil, at, to
	}
	var offset, offset2 uint64
	offset, r.Row, r.Slice = l.box(m, "", r.Region)
	offset2, r.Row2, r.Slice2 = l.box(m, other, r.Region)
	if l.faults > before {
		return nil, at, to
	}
	at.Range = l.within(m, at, offset, r.span(r.Row, r.Slice))
	if other == "to-" {
		to.Range = l.within(m, to, offset2, r.span(r.Row2, r.Slice2))
	} else {
		r.HostOffset, r.HostSize = offset2, offset2+r.span(r.Row2, r.Slice2)
	}
	for _, p := range []place{at, to} {
		if p.Name != "" && l.isSVM(p) {
			l.errorf(m.Node, "%s: rows of %s, shared virtual memory: OpenCL has rectangles of buffers only; make a buffer over it", key, p.Name)
		}
	}
	return r, at, to
}

// box reads where a region lies: an offset in bytes, or an origin in bytes, rows
// and slices; and the pitches.
func (l *loader) box(m *mapping, prefix string, region [3]uint64) (offset, row, slice uint64) {
	before := l.faults
	pitch := func(key string, n ast.Node, v, least uint64, what string) {
		if v < least || v > maxPitch {
			l.errorf(n, "%s: %s is %d: want from %d, %s, to %d", m.What, key, v, least, what, uint64(maxPitch))
		}
	}
	node := func(key string) ast.Node {
		if n := m.get(key); n != nil {
			return n
		}
		return m.Node
	}
	row = l.natural(m, prefix+"pitch", 0, region[0])
	pitch(prefix+"pitch", node(prefix+"pitch"), row, region[0], "the bytes of a row")
	row = min(row, maxPitch)
	slice = l.natural(m, prefix+"slice-pitch", 0, region[1]*row)
	pitch(prefix+"slice-pitch", node(prefix+"slice-pitch"), slice, region[1]*row, "the bytes of its rows")
	if slice = min(slice, maxPitch); l.faults == before && slice%row != 0 {
		l.errorf(node(prefix+"slice-pitch"), "%s: %sslice-pitch is %d: want a multiple of the pitch, %d", m.What, prefix, slice, row)
	}
	offset = l.natural(m, prefix+"offset", 0, 0)
	origin, dims := l.dims(m, prefix+"origin", 0)
	if dims == 0 {
		return offset, row, slice
	}
	if m.Has(prefix + "offset") {
		l.errorf(m.Node, "%s: %soffset beside %sorigin: both say where the first byte is", m.What, prefix, prefix)
	}
	if origin[0] > maxPitch || origin[1] > maxRows || origin[2] > maxRows {
		l.errorf(m.get(prefix+"origin"), "%s: %sorigin %v: want at most %d bytes, %d rows and %d slices", m.What, prefix, origin, uint64(maxPitch), maxRows, maxRows)
		return 0, row, slice
	}
	return origin[0] + origin[1]*row + origin[2]*slice, row, slice
}
