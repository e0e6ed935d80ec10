// Package rangemap is a total, ordered map from the byte offsets [0, size) to
// values, held as few segments of equal value as there can be.
//
// Assumptions. Most maps have one segment for all of their life: a buffer is
// mostly used whole. So that case is inlined: one value, no tree, nothing
// allocated. The rest is for the few buffers that are cut up, sometimes into
// very many pieces, where each use touches few of them: any one place is found
// in O(log segments), and its neighbours are a link away.
//
// What there is. Segments are half-open, tile [0, size) and differ from their
// neighbours. An edit names a range; segments are cut at its ends only where
// the values on the two sides come to differ, and equal neighbours become one
// again. A cut-up map keeps its segments in slots of a slice, linked in address
// order, under a B-tree from start offset to slot (google/btree; the shape
// follows gVisor's pkg/segment and Celerity's region_map). Slots and tree nodes
// are reused, so that steady state allocates nothing.
//
// A Map is not safe for concurrent use. A function given to one of its methods
// must not call the same map's Update or Set.
package rangemap

import (
	"fmt"
	"iter"

	"godwit/mem"
)

// Map is a total map from the offsets [0, size) to values. Values are compared
// with == to find equal neighbours. The zero Map has size 0 and no segments;
// use Make. A Map must not be copied once it is in use.
type Map[V comparable] struct {
	size uint64
	one  V      // the value of every offset while !cut
	cut  bool   // there is more than one segment; they are in p
	p    *parts // nil until the map is first cut
	vals []V    // by slot of p
}

// Make returns a map in which every offset of [0, size) has the value v.
func Make[V comparable](size uint64, v V) Map[V] { return Map[V]{size: size, one: v} }

// Size is the number of offsets in the map, in bytes.
func (m *Map[V]) Size() uint64 { return m.size }

// Len is the number of segments.
func (m *Map[V]) Len() int {
	switch {
	case m.size == 0:
		return 0
	case !m.cut:
		return 1
	}
	return m.p.tree.Len()
}

// Get returns the segment that holds off, whole, and its value; an empty range
// and the zero value where off is not in [0, size).
func (m *Map[V]) Get(off uint64) (mem.Range, V) {
	if off >= m.size {
		var none V
		return mem.Range{}, none
	}
	if !m.cut {
		return mem.Range{End: m.size}, m.one
	}
	i := m.p.floor(off)
	return m.p.at[i].r, m.vals[i]
}

// Overlap calls f for each segment that shares offsets with r, in ascending
// order and clamped to r, until f returns false.
func (m *Map[V]) Overlap(r mem.Range, f func(mem.Range, V) bool) {
	r = r.Intersect(mem.Range{End: m.size})
	if r.Empty() {
		return
	}
	if !m.cut {
		f(r, m.one)
		return
	}
	for i := m.p.floor(r.Start); i != none && m.p.at[i].r.Start < r.End; i = m.p.at[i].next {
		if !f(m.p.at[i].r.Intersect(r), m.vals[i]) {
			return
		}
	}
}

// All yields every segment in ascending order.
func (m *Map[V]) All() iter.Seq2[mem.Range, V] {
	return func(yield func(mem.Range, V) bool) { m.Overlap(mem.Range{End: m.size}, yield) }
}

// Whole returns the value of the map's only segment, to be read and written in
// place, where r covers it; nil where r does not, or the map is cut up. It is
// the quick form of Update for maps that are used whole.
func (m *Map[V]) Whole(r mem.Range) *V {
	if m.cut || r.Start > 0 || r.End < m.size || m.size == 0 {
		return nil
	}
	return &m.one
}

// Only returns the value of the map's only segment, to be read in place; nil where the map
// is cut up. It is the quick form of Seek(off).Ref() for maps that are used whole.
func (m *Map[V]) Only() *V {
	if m.cut {
		return nil
	}
	return &m.one
}

// Set gives every offset of r the value v. Offsets outside the map are ignored.
func (m *Map[V]) Set(r mem.Range, v V) {
	if r.Start == 0 && r.End >= m.size && m.size > 0 {
		if m.cut {
			m.join()
		}
		m.one = v
		return
	}
	if !m.cut || r.Start >= m.size || !m.replace(r, v) {
		m.Update(r, func(mem.Range, V) V { return v })
	}
}

// replace is Set where r is a segment and no neighbour has the value v.
func (m *Map[V]) replace(r mem.Range, v V) bool {
	i := m.p.floor(r.Start)
	s := &m.p.at[i]
	if s.r != r || (s.prev != none && m.vals[s.prev] == v) || (s.next != none && m.vals[s.next] == v) {
		return false
	}
	m.vals[i] = v
	return true
}

// Update replaces the value of every offset of r by what f makes of it. f is
// called once for each segment that shares offsets with r, in ascending order,
// with the shared part and the value; it must be a function of these two.
// Offsets outside the map are ignored.
func (m *Map[V]) Update(r mem.Range, f func(mem.Range, V) V) {
	r = r.Intersect(mem.Range{End: m.size})
	if r.Empty() {
		return
	}
	if !m.cut {
		v := f(r, m.one)
		switch {
		case v == m.one:
			return
		case r.Size() == m.size:
			m.one = v
			return
		}
		m.part()
		m.put(0, r, v)
		return
	}
	last := none
	for i := m.p.floor(r.Start); i != none && m.p.at[i].r.Start < r.End; i = m.p.at[last].next {
		piece := m.p.at[i].r.Intersect(r)
		last = m.put(i, piece, f(piece, m.vals[i]))
	}
	if next := m.p.at[last].next; next != none && m.vals[next] == m.vals[last] {
		m.merge(last, next)
	}
	if m.p.tree.Len() == 1 {
		v := m.vals[m.p.floor(0)]
		m.join()
		m.one = v
	}
}

// put gives piece, which lies in segment i, the value v, and returns the
// segment that piece is now in. It joins piece to the segment before where that
// is equal, never to the one after: Update has not been there yet.
func (m *Map[V]) put(i int32, piece mem.Range, v V) int32 {
	seg, prev := m.p.at[i].r, m.p.at[i].prev
	if piece.Start == seg.Start && prev != none && m.vals[prev] == v {
		if v == m.vals[i] || piece.End == seg.End {
			m.merge(prev, i)
		} else { // the boundary moves up
			m.p.at[prev].r.End = piece.End
			m.p.restart(i, piece.End)
		}
		return prev
	}
	if v == m.vals[i] {
		return i
	}
	if piece.Start > seg.Start {
		i = m.split(i, piece.Start)
	}
	if piece.End < seg.End {
		m.split(i, piece.End)
	}
	m.vals[i] = v
	return i
}

// split cuts segment i at off, inside it, and returns the upper part.
func (m *Map[V]) split(i int32, off uint64) int32 {
	j := m.p.split(i, off)
	if int(j) == len(m.vals) {
		m.vals = append(m.vals, m.vals[i])
	} else {
		m.vals[j] = m.vals[i]
	}
	return j
}

// merge gives the offsets of segment next to i, the one before it.
func (m *Map[V]) merge(i, next int32) {
	m.p.at[i].r.End = m.p.at[next].r.End
	var zero V
	m.vals[next] = zero // let go of what it points to
	m.p.drop(next)
}

// part goes from the inlined segment to one in slot 0.
func (m *Map[V]) part() {
	if m.p == nil {
		m.p = newParts()
	}
	m.p.first(m.size)
	m.vals = append(m.vals[:0], m.one)
	m.cut = true
}

// join forgets all slots; the caller sets the inlined value.
func (m *Map[V]) join() {
	m.p.reset()
	clear(m.vals)
	m.vals = m.vals[:0]
	m.cut = false
}

// Check tests that the segments tile [0, size) in order, that neighbours
// differ, that a map of one segment is inlined, and that tree, links and slots
// agree.
func (m *Map[V]) Check() error {
	if !m.cut {
		if len(m.vals) != 0 {
			return fmt.Errorf("rangemap: %d values in slots while one segment is inlined", len(m.vals))
		}
		return nil
	}
	if n := m.p.tree.Len(); n < 2 {
		return fmt.Errorf("rangemap: cut into %d segments, should be inlined", n)
	}
	if len(m.vals) != len(m.p.at) {
		return fmt.Errorf("rangemap: %d values for %d slots", len(m.vals), len(m.p.at))
	}
	if err := m.p.check(m.size); err != nil {
		return err
	}
	for i := m.p.floor(0); i != none; i = m.p.at[i].next {
		if next := m.p.at[i].next; next != none && m.vals[i] == m.vals[next] {
			return fmt.Errorf("rangemap: neighbours %v and %v have the same value %v", m.p.at[i].r, m.p.at[next].r, m.vals[i])
		}
	}
	return nil
}
