package rangemap

import "godwit/mem"

// cursor stands on a segment of a map and moves up. It is a plain value; an
// edit of the map makes it meaningless. The zero Cursor stands nowhere.
type cursor[V comparable] struct {
	m *Map[V] // nil: stands nowhere
	i int32
}

// Seek returns a cursor on the segment that holds off, or one that stands
// nowhere where off is not in [0, size).
func (m *Map[V]) Seek(off uint64) cursor[V] {
	switch {
	case off >= m.size:
		return cursor[V]{}
	case !m.cut:
		return cursor[V]{m, none}
	}
	return cursor[V]{m, m.p.floor(off)}
}

// OK reports whether the cursor stands on a segment; the other methods may be
// called only then.
func (c cursor[V]) OK() bool { return c.m != nil }

// Range is the whole segment.
func (c cursor[V]) Range() mem.Range {
	if c.i == none {
		return mem.Range{End: c.m.size}
	}
	return c.m.p.at[c.i].r
}

// Value is the segment's value.
func (c cursor[V]) Value() V {
	if c.i == none {
		return c.m.one
	}
	return c.m.vals[c.i]
}

// Ref is Value without the copy: good until the map is edited, and not to be
// written through.
func (c cursor[V]) Ref() *V {
	if c.i == none {
		return &c.m.one
	}
	return &c.m.vals[c.i]
}

// Next moves to the segment above, or nowhere after the last.
func (c *cursor[V]) Next() {
	if c.i != none {
		if c.i = c.m.p.at[c.i].next; c.i != none {
			return
		}
	}
	*c = cursor[V]{}
}
