// Package rangemap is a total, ordered map from the byte offsets [0, size) to
// values, held as few segments of equal value as there can be.
//
// Assumptions. Most maps have one segment for all of their life: a buffer is
// mostly used whole. So that case is inlined: one value, nothing allocated. The
// rest is for the few buffers that are cut up, sometimes into very many pieces,
// where each use touches few of them.
//
// What there is. Segments are half-open, tile [0, size) and differ from their
// neighbours. An edit names a range; segments are cut at its ends only where
// the values on the two sides come to differ, and equal neighbours become one
// again. A cut-up map keeps its segments in order in chunks of a bounded length:
// a place is found by two binary searches, and an edit moves a part of one chunk.
// Chunks are reused, so that steady state allocates nothing.
//
// A Map is not safe for concurrent use. While one of its methods calls a function,
// or In yields, the same map must not be edited.
package rangemap

import (
	"fmt"
	"iter"
	"slices"
	"sort"

	"godwit/mem"
)

// Map is a total map from the offsets [0, size) to values. Values are compared
// with == to find equal neighbours. The zero Map has size 0 and no segments;
// use Make. A Map may be moved; of copies of one that is in use only one may be used on.
type Map[V comparable] struct {
	one segment[V] // of every offset; its value counts while !cut
	cut bool       // there is more than one segment; they are in p
	p   *pieces[V] // nil until the map is first cut
}

// pieces are the segments of a cut-up map.
type pieces[V comparable] struct {
	starts []uint64       // by chunk: where its first segment starts
	chunks [][]segment[V] // in ascending order; none is empty
	n      int            // segments in all
	last   [2]int         // the chunk and the place there that were found last
	spare  [][]segment[V] // empty chunks, to be used again
}

// segment is a range of offsets with one value. Who is given one reads it in place, until the
// map is edited.
type segment[V comparable] struct {
	Range mem.Range
	Value V
}

// most is how many segments a chunk has at most. Short chunks move less, long ones
// make the search of starts shorter.
const most = 32

// Make returns a map in which every offset of [0, size) has the value v.
func Make[V comparable](size uint64, v V) Map[V] {
	return Map[V]{one: segment[V]{mem.Range{End: size}, v}}
}

// Size is the number of offsets in the map, in bytes.
func (m *Map[V]) Size() uint64 { return m.one.Range.End }

// Len is the number of segments.
func (m *Map[V]) Len() int {
	switch {
	case m.one.Range.End == 0:
		return 0
	case !m.cut:
		return 1
	}
	return m.p.n
}

// Get returns the segment that holds off; where off is not in [0, size), the last.
func (m *Map[V]) Get(off uint64) *segment[V] {
	if !m.cut {
		return &m.one
	}
	return m.p.get(off)
}

// In yields each segment that shares offsets with r, in ascending order and clamped to r,
// and its value, to be read in place.
func (m *Map[V]) In(r mem.Range) iter.Seq2[mem.Range, *V] {
	return func(yield func(mem.Range, *V) bool) {
		r.End = min(r.End, m.one.Range.End)
		if m.cut {
			m.p.in(r, yield)
		} else if r.Start < r.End {
			yield(r, &m.one.Value)
		}
	}
}

// All yields every segment in ascending order.
func (m *Map[V]) All() iter.Seq2[mem.Range, *V] { return m.In(m.one.Range) }

// Whole returns the value of the map's only segment, to be read and written in
// place, where r covers it; nil where r does not, or the map is cut up. It is
// the quick form of Update for maps that are used whole.
func (m *Map[V]) Whole(r mem.Range) *V {
	if m.cut || r.Start > 0 || r.End < m.one.Range.End || r.End == 0 {
		return nil
	}
	return &m.one.Value
}

// Set gives every offset of r the value v. Offsets outside the map are ignored.
func (m *Map[V]) Set(r mem.Range, v V) {
	if r.Start == 0 && r.End >= m.one.Range.End && m.one.Range.End > 0 {
		m.join(v)
		return
	}
	m.Update(r, func(mem.Range, V) V { return v })
}

// Update replaces the value of every offset of r by what f makes of it. f is
// called once for each segment that shares offsets with r, in ascending order,
// with the shared part and the value; it must be a function of these two.
// Offsets outside the map are ignored.
func (m *Map[V]) Update(r mem.Range, f func(mem.Range, V) V) {
	r.End = min(r.End, m.one.Range.End)
	if r.Empty() {
		return
	}
	if !m.cut {
		v := f(r, m.one.Value)
		switch {
		case v == m.one.Value:
			return
		case r == m.one.Range:
			m.one.Value = v
			return
		}
		if m.p == nil {
			m.p = new(pieces[V])
		}
		m.cut = true
		m.p.first(m.one)
		m.p.put(0, 0, r, v)
		return
	}
	for at := r; at.Start < r.End; at.Start = at.End {
		c, k := m.p.find(at.Start)
		s := &m.p.chunks[c][k]
		at.End = min(s.Range.End, r.End)
		if v := f(at, s.Value); v != s.Value {
			m.p.put(c, k, at, v)
		}
	}
	if m.p.n == 1 {
		m.join(m.p.chunks[0][0].Value)
	}
}

// join makes the map one segment.
func (m *Map[V]) join(v V) {
	if m.cut {
		for len(m.p.chunks) > 0 {
			m.p.drop(len(m.p.chunks) - 1)
		}
		m.cut = false
	}
	m.one.Value = v
}

// first makes s the only segment.
func (p *pieces[V]) first(s segment[V]) {
	p.starts, p.chunks = append(p.starts, s.Range.Start), append(p.chunks, append(p.chunk(), s))
	p.n = 1
}

// find returns the chunk of the segment that holds off, and its place there. Uses go upwards:
// that found last and the two behind it, of which one may be a gap between rows, are looked at first.
func (p *pieces[V]) find(off uint64) (c, k int) {
	c, k = p.last[0], p.last[1]
	if c < len(p.chunks) && off >= p.starts[c] && (c+1 == len(p.starts) || off < p.starts[c+1]) {
		for near := k; near < len(p.chunks[c]) && near < k+3; near++ {
			if r := &p.chunks[c][near].Range; off >= r.Start && off < r.End {
				p.last[1] = near
				return c, near
			}
		}
	} else {
		c = sort.Search(len(p.starts), func(i int) bool { return p.starts[i] > off }) - 1
	}
	chunk := p.chunks[c]
	k = 0
	for n := len(chunk); k < n-1; {
		if mid := int(uint(k+n) / 2); chunk[mid].Range.Start <= off {
			k = mid
		} else {
			n = mid
		}
	}
	p.last = [2]int{c, k}
	return c, k
}

// get is apart from Get so that the compiler inlines that.
//
//go:noinline
func (p *pieces[V]) get(off uint64) *segment[V] {
	c, k := p.find(off)
	return &p.chunks[c][k]
}

func (p *pieces[V]) in(r mem.Range, yield func(mem.Range, *V) bool) {
	if r.Empty() {
		return
	}
	for c, k := p.find(r.Start); c < len(p.chunks); c, k = c+1, 0 {
		for chunk := p.chunks[c]; k < len(chunk); k++ {
			s := &chunk[k]
			if s.Range.Start >= r.End || !yield(s.Range.Intersect(r), &s.Value) {
				return
			}
		}
	}
}

// put gives part of the segment at place k of chunk c another value, which may be that of
// a neighbour.
func (p *pieces[V]) put(c, k int, part mem.Range, v V) {
	seg, old := p.chunks[c][k].Range, p.chunks[c][k].Value
	if nc, nk, next := p.at(c, k+1); part.End == seg.End && next != nil && next.Value == v {
		part.End = next.Range.End
		seg.End = part.End
		p.remove(nc, nk)
		c, k = p.find(seg.Start)
	}
	high := segment[V]{mem.Range{Start: part.End, End: seg.End}, old}
	if _, _, prev := p.at(c, k-1); part.Start == seg.Start && prev != nil && prev.Value == v {
		prev.Range.End = part.End
		if high.Range.Empty() {
			p.remove(c, k)
			return
		}
		p.chunks[c][k] = high
		if k == 0 {
			p.starts[c] = high.Range.Start
		}
		return
	}
	if part.Start == seg.Start {
		p.chunks[c][k] = segment[V]{part, v}
	} else {
		p.chunks[c][k].Range.End = part.Start
		p.insert(c, k+1, segment[V]{part, v})
		c, k = p.find(part.Start)
	}
	if !high.Range.Empty() {
		p.insert(c, k+1, high)
	}
}

// at is the segment at place k of chunk c, which may be one before its first or one behind its
// last; nil where there is none.
func (p *pieces[V]) at(c, k int) (int, int, *segment[V]) {
	switch {
	case k < 0 && c > 0:
		c, k = c-1, len(p.chunks[c-1])-1
	case k == len(p.chunks[c]) && c+1 < len(p.chunks):
		c, k = c+1, 0
	}
	if k < 0 || k == len(p.chunks[c]) {
		return c, k, nil
	}
	return c, k, &p.chunks[c][k]
}

// insert puts s at place k of chunk c, which is not the first; a full chunk is cut in two.
func (p *pieces[V]) insert(c, k int, s segment[V]) {
	if chunk := p.chunks[c]; len(chunk) == most {
		upper := append(p.chunk(), chunk[most/2:]...)
		clear(chunk[most/2:])
		p.chunks[c] = chunk[:most/2]
		p.chunks = slices.Insert(p.chunks, c+1, upper)
		p.starts = slices.Insert(p.starts, c+1, upper[0].Range.Start)
		if k > most/2 {
			c, k = c+1, k-most/2
		}
	}
	p.chunks[c] = slices.Insert(p.chunks[c], k, s)
	p.n++
}

// chunk is an empty chunk.
func (p *pieces[V]) chunk() []segment[V] {
	n := len(p.spare)
	if n == 0 {
		return nil
	}
	c := p.spare[n-1]
	p.spare = p.spare[:n-1]
	return c
}

// remove takes the segment at place k of chunk c out; small neighbours become one chunk.
func (p *pieces[V]) remove(c, k int) {
	p.chunks[c] = slices.Delete(p.chunks[c], k, k+1)
	p.n--
	if len(p.chunks[c]) == 0 {
		p.drop(c)
		return
	}
	p.starts[c] = p.chunks[c][0].Range.Start
	for i := c; i >= max(c-1, 0); i-- {
		if i+1 < len(p.chunks) && len(p.chunks[i])+len(p.chunks[i+1]) <= most/2 {
			p.chunks[i] = append(p.chunks[i], p.chunks[i+1]...)
			p.drop(i + 1)
		}
	}
}

// drop takes a chunk out, to be used again.
func (p *pieces[V]) drop(c int) {
	clear(p.chunks[c]) // let go of what values point to
	p.spare = append(p.spare, p.chunks[c][:0])
	p.chunks, p.starts = slices.Delete(p.chunks, c, c+1), slices.Delete(p.starts, c, c+1)
}

// Check tests that the segments tile [0, size) in order, that neighbours differ, that a map
// of one segment is inlined, and that chunks, their starts and the count agree.
func (m *Map[V]) Check() error {
	if !m.cut {
		if m.p != nil && len(m.p.chunks) != 0 {
			return fmt.Errorf("rangemap: %d chunks while one segment is inlined", len(m.p.chunks))
		}
		return nil
	}
	n, end := 0, uint64(0)
	var before *segment[V]
	for c, chunk := range m.p.chunks {
		if len(chunk) == 0 || len(chunk) > most || m.p.starts[c] != chunk[0].Range.Start {
			return fmt.Errorf("rangemap: chunk %d of %d segments begins at %d", c, len(chunk), m.p.starts[c])
		}
		for k := range chunk {
			s := &chunk[k]
			if s.Range.Start != end || s.Range.Empty() {
				return fmt.Errorf("rangemap: segment %v after offset %d", s.Range, end)
			}
			if before != nil && before.Value == s.Value {
				return fmt.Errorf("rangemap: neighbours %v and %v have the same value %v", before.Range, s.Range, s.Value)
			}
			before, end, n = s, s.Range.End, n+1
		}
	}
	if end != m.one.Range.End || n != m.p.n || n < 2 || len(m.p.starts) != len(m.p.chunks) {
		return fmt.Errorf("rangemap: %d segments to offset %d of %d, counted %d", n, end, m.one.Range.End, m.p.n)
	}
	return nil
}
