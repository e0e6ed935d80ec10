package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"godwit/internal/expr"
	"godwit/mem"
	"godwit/runtime"
)

// partAlign is the alignment, in bytes, of the parts into which a buffer is
// cut: OpenCL wants sub-buffer origins aligned to the device's base address
// alignment, which is 128 bytes on most.
const partAlign = 128

// maxParts bounds the parts of one buffer.
const maxParts = 4096

func (l *loader) readViews(m *mapping) {
	for _, n := range l.list(m.get("sub-buffers")) {
		s := l.mapping(n, "sub-buffer", "sub-buffer")
		v := viewDecl{Name: l.declare(s, "buffer"), Line: n.GetToken().Position.Line}
		of, ok := l.whole(s, &v)
		if !ok {
			l.lost[v.Name] = true
			continue
		}
		before := l.faults
		v.Flags = runtime.Flags(l.flags(s, bufferFlags))
		if l.faults == before {
			l.checkInherited(s, &v)
		}
		parts, align := l.partsOf(s)
		part := s.get("part")
		offset, size := l.natural(s, "offset", 0, 0), l.natural(s, "size", 1, 0)
		switch {
		case (parts != 0 || part != nil) && (s.Has("offset") || s.Has("size")), parts != 0 && part != nil:
			l.errorf(s.Node, "%s: give offset and size, or part, or parts", s.What)
		case parts != 0:
			name := v.Name
			for i := range parts {
				v.Name = name + strconv.FormatUint(i, 10)
				l.addPart(s, v, i, parts, of, align)
			}
		case part != nil:
			i, count, ok := l.fraction(s)
			if ok {
				l.addPart(s, v, i-1, count, of, align)
			}
		default:
			v.Range = l.within(s, of, offset, size)
			l.addView(s, v)
		}
	}
}

// partsOf reads into how many parts something is to be cut, 0 where it is not, and at
// multiples of what.
func (l *loader) partsOf(s *mapping) (parts, align uint64) {
	align = l.natural(s, "align", 1, partAlign)
	parts = l.natural(s, "parts", 1, 0)
	if parts > maxParts {
		l.errorf(s.Node, "%s: %d parts: want at most %d", s.What, parts, maxParts)
		parts = 0
	}
	return parts, align
}

// fraction reads part: i/n, with 1 <= i <= n.
func (l *loader) fraction(s *mapping) (i, count uint64, ok bool) {
	text := s.text("part")
	a, b, found := strings.Cut(text, "/")
	i, err1 := strconv.ParseUint(strings.TrimSpace(a), 10, 16)
	count, err2 := strconv.ParseUint(strings.TrimSpace(b), 10, 16)
	if !found || err1 != nil || err2 != nil || i == 0 || i > count {
		l.errorf(s.get("part"), "%s: part %q: want i/n with i from 1 to n", s.What, text)
		return 0, 0, false
	}
	return i, count, true
}

// addPart adds the i-th of count parts, as equal as cuts at multiples of align
// let them be.
func (l *loader) addPart(s *mapping, v viewDecl, i, count uint64, of place, align uint64) {
	total := of.Range.Size()
	cut := func(i uint64) uint64 {
		if i == count {
			return total
		}
		at := total/count*i + total%count*i/count
		return at - at%align
	}
	v.Range = mem.Range{Start: cut(i), End: cut(i + 1)}.Shift(of.Range.Start)
	if v.Range.Empty() {
		l.lost[v.Name] = true
		if total > 0 { // else the buffer's size was at fault, and said to be
			l.errorf(s.Node, "%s: the %d bytes of %s, cut into %d parts at multiples of %d, leave nothing for part %d", s.What, total, of.Name, count, align, i+1)
		}
		return
	}
	if taken, dup := l.named["buffer "+v.Name]; dup && s.Has("parts") {
		l.errorf(s.Node, "%s: the name %q is taken by the %s", s.What, v.Name, taken)
		return
	}
	l.addView(s, v)
}

func (l *loader) addView(s *mapping, v viewDecl) {
	l.limited(s.Node, "sub-buffers", len(l.out.Views)+1, "objects")
	l.take("buffer", v.Name, s.Node)
	l.out.Views = append(l.out.Views, v)
}

// whole finds what a sub-buffer is a part of: a buffer, or one over shared
// virtual memory.
func (l *loader) whole(s *mapping, v *viewDecl) (of place, ok bool) {
	name := s.text("of")
	if name == "" || l.lost[name] {
		return of, false
	}
	of, ok = l.lookup(name)
	switch {
	case ok && of.View < 0 && l.out.Buffers[of.Buffer].SVM != nil:
		l.errorf(s.get("of"), "%s: %q is shared virtual memory: make a buffer over it first, and a sub-buffer of that", s.What, name)
		return of, false
	case !ok || (of.View >= 0 && !l.out.Views[of.View].Over):
		l.errorf(s.get("of"), "%s: no buffer is named %q (a sub-buffer has none of its own)", s.What, name)
		return of, false
	}
	v.Buffer, v.Parent = of.Buffer, of.View
	return of, true
}

// within returns the range at offset of size bytes (0: the rest) inside a place,
// which is empty where it was at fault itself.
func (l *loader) within(s *mapping, of place, offset, size uint64) mem.Range {
	total := of.Range.Size()
	if total == 0 {
		l.faults++
		return of.Range
	}
	if size == 0 && offset < total {
		size = total - offset
	}
	r, err := mem.SpanIn(offset, size, total)
	if err != nil {
		want := fmt.Sprintf("%d bytes at offset %d", size, offset)
		if size == 0 {
			want = fmt.Sprintf("offset %d", offset)
		}
		l.errorf(s.Node, "%s: %s of %s: it has only %d bytes", s.What, want, of.Name, total)
		return of.Range
	}
	return r.Shift(of.Range.Start)
}

// lookup returns the whole of a buffer or sub-buffer.
func (l *loader) lookup(name string) (place, bool) {
	l.spend(1)
	out := l.out
	if i := l.buffer(name); i >= 0 {
		return out.buffer(i), true
	}
	if i := l.views.find(name, len(out.Views), func(i int) string { return out.Views[i].Name }); i >= 0 {
		return out.view(i), true
	}
	return place{View: -1}, false
}

// buffer is the index of a buffer, or -1. Of blocks of shared virtual memory
// that had the name one after the other it is the last.
func (l *loader) buffer(name string) int {
	return l.buffers.find(name, len(l.out.Buffers), func(i int) string { return l.out.Buffers[i].Name })
}

// index finds what has a name, of things that only become more: of several the last.
type index struct {
	of   map[string]int
	seen int
}

// find is where a name is among n things that name names, or -1.
func (x *index) find(want string, n int, name func(int) string) int {
	if x.of == nil {
		x.of = make(map[string]int)
	}
	for ; x.seen < n; x.seen++ {
		x.of[name(x.seen)] = x.seen
	}
	if i, ok := x.of[want]; ok {
		return i
	}
	return -1
}

// startOf is where a sub-buffer begins in its buffer, and sizeOf how many bytes it has.
func (l *loader) startOf(name string) (uint64, error) {
	p, err := l.known(name)
	return p.Range.Start, err
}

func (l *loader) sizeOf(name string) (uint64, error) {
	p, err := l.known(name)
	if err == nil && p.Range.Empty() {
		err = expr.ErrReported
	}
	return p.Range.Size(), err
}

// known is lookup for expressions. What was declared and is at fault is known, and empty.
func (l *loader) known(name string) (place, error) {
	p, ok := l.lookup(name)
	if !ok && !l.lost[name] {
		return p, errors.New("no buffer or sub-buffer above has this name")
	}
	return p, nil
}
