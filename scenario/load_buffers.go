package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"godwit/mem"
)

// partAlign is the alignment, in bytes, of the parts into which a buffer is
// cut: OpenCL wants sub-buffer origins aligned to the device's base address
// alignment, which is 128 bytes on most.
const partAlign = 128

// readLet computes named numbers, each of which may use those before it.
func (l *loader) readLet(m *mapping) {
	n := m.get("let")
	if n == nil {
		return
	}
	let := l.mapping(n, "let")
	for _, kv := range let.keys {
		name := keyName(kv)
		if !nameRule.MatchString(name) {
			l.errorf(kv.Key, "let %q: a name is letters, digits and _, and begins with no digit", name)
		}
		l.scope.vars[name] = l.number(let.get(name), "let "+name, l.scope)
	}
}

func (l *loader) readBuffers(m *mapping) {
	n := m.get("buffers")
	if n == nil {
		l.errorf(m.node, "scenario: buffers are missing")
		return
	}
	for _, n := range l.list(n) {
		s := l.mapping(n, "buffer")
		b := Buffer{Name: l.declare(s, "buffer"), Line: n.GetToken().Position.Line}
		before := len(l.errs)
		b.Data = l.data(s, l.scope)
		var def uint64
		if b.Data != nil {
			def = b.Data.size
		}
		b.Size = l.natural(s, "size", l.scope, 1, def)
		switch {
		case len(l.errs) > before:
		case b.Size == 0:
			l.errorf(s.node, "%s: size is missing", s.what)
		case b.Data != nil && b.Data.size > b.Size:
			l.errorf(s.node, "%s: %s has %d bytes, the buffer only %d", s.what, b.Data, b.Data.size, b.Size)
		}
		s.done()
		l.take("buffer", b.Name, n)
		l.out.Buffers = append(l.out.Buffers, b)
	}
}

func (l *loader) readViews(m *mapping) {
	for _, n := range l.list(m.get("sub-buffers")) {
		s := l.mapping(n, "sub-buffer")
		v := View{Name: l.declare(s, "buffer"), Line: n.GetToken().Position.Line}
		s.what = "sub-" + s.what
		of := s.need("of")
		v.Buffer = l.buffer(of)
		if v.Buffer < 0 {
			if of != "" {
				l.errorf(s.get("of"), "%s: no buffer is named %q (a sub-buffer has none of its own)", s.what, of)
			}
			continue
		}
		total := l.out.Buffers[v.Buffer].Size
		align := l.natural(s, "align", l.scope, 1, partAlign)
		parts := l.natural(s, "parts", l.scope, 1, 0)
		part := s.get("part")
		offset, size := l.natural(s, "offset", l.scope, 0, 0), l.natural(s, "size", l.scope, 1, 0)
		switch {
		case (parts != 0 || part != nil) && (s.has("offset") || s.has("size")), parts != 0 && part != nil:
			l.errorf(s.node, "%s: give offset and size, or part, or parts", s.what)
		case parts > 4096:
			l.errorf(s.node, "%s: %d parts: want at most 4096", s.what, parts)
		case parts != 0:
			name := v.Name
			for i := range parts {
				v.Name = name + strconv.FormatUint(i, 10)
				l.addPart(s, v, i, parts, total, align)
			}
		case part != nil:
			i, count, ok := l.fraction(s)
			if ok {
				l.addPart(s, v, i-1, count, total, align)
			}
		default:
			v.Range = l.within(s, mem.Range{End: total}, offset, size)
			l.addView(s, v)
		}
		s.done()
	}
}

// fraction reads part: i/n, with 1 <= i <= n.
func (l *loader) fraction(s *mapping) (i, count uint64, ok bool) {
	text := s.text("part")
	a, b, found := strings.Cut(text, "/")
	i, err1 := strconv.ParseUint(strings.TrimSpace(a), 10, 16)
	count, err2 := strconv.ParseUint(strings.TrimSpace(b), 10, 16)
	if !found || err1 != nil || err2 != nil || i == 0 || i > count {
		l.errorf(s.get("part"), "%s: part %q: want i/n with i from 1 to n", s.what, text)
		return 0, 0, false
	}
	return i, count, true
}

// addPart adds the i-th of count parts, as equal as cuts at multiples of align
// let them be.
func (l *loader) addPart(s *mapping, v View, i, count, total, align uint64) {
	cut := func(i uint64) uint64 {
		if i == count {
			return total
		}
		at := total/count*i + total%count*i/count
		return at - at%align
	}
	v.Range = mem.Range{Start: cut(i), End: cut(i + 1)}
	if v.Range.Empty() {
		if total == 0 { // the buffer's size was at fault, and said to be
			return
		}
		l.errorf(s.node, "%s: %d bytes cut into %d parts at multiples of %d leave nothing for part %d", s.what, total, count, align, i+1)
		return
	}
	if taken, dup := l.named["buffer "+v.Name]; dup && s.has("parts") {
		l.errorf(s.node, "%s: the name %q is taken by the %s", s.what, v.Name, taken)
		return
	}
	l.addView(s, v)
}

func (l *loader) addView(s *mapping, v View) {
	l.take("buffer", v.Name, s.node)
	l.out.Views = append(l.out.Views, v)
}

// within returns the range at offset of size bytes (0: the rest) inside outer.
func (l *loader) within(s *mapping, outer mem.Range, offset, size uint64) mem.Range {
	total := outer.Size()
	if size == 0 && offset < total {
		size = total - offset
	}
	r, err := mem.SpanIn(offset, size, total)
	if err != nil {
		want := fmt.Sprintf("%d bytes at offset %d", size, offset)
		if size == 0 {
			want = fmt.Sprintf("what is at offset %d", offset)
		}
		l.errorf(s.node, "%s: %s: only %d bytes are there", s.what, want, total)
		return outer
	}
	return r.Shift(outer.Start)
}

// buffer returns the index of a root buffer, or -1.
func (l *loader) buffer(name string) int {
	for i := range l.out.Buffers {
		if l.out.Buffers[i].Name == name {
			return i
		}
	}
	return -1
}

// lookup returns the whole of a buffer or sub-buffer.
func (l *loader) lookup(name string) (Place, bool) {
	if i := l.buffer(name); i >= 0 {
		return Place{Buffer: i, View: -1, Range: mem.Range{End: l.out.Buffers[i].Size}, Name: name}, true
	}
	for i, v := range l.out.Views {
		if v.Name == name {
			return Place{Buffer: v.Buffer, View: i, Range: v.Range, Name: name}, true
		}
	}
	return Place{View: -1}, false
}

// startOf is where a sub-buffer begins in its buffer.
func (l *loader) startOf(name string) (uint64, bool) {
	p, ok := l.lookup(name)
	return p.Range.Start, ok
}

func (l *loader) sizeOf(name string) (uint64, bool) {
	p, ok := l.lookup(name)
	return p.Range.Size(), ok
}

func (l *loader) readQueues(m *mapping) {
	for _, n := range l.list(m.get("queues")) {
		s := l.mapping(n, "queue")
		q := Queue{Name: l.declare(s, "queue"), Line: n.GetToken().Position.Line}
		q.Device = l.memory(s.get("device"), s.what+": device")
		q.OutOfOrder = s.oneOf("order", "in", "out") == "out"
		s.done()
		l.take("queue", q.Name, n)
		l.out.Queues = append(l.out.Queues, q)
	}
	own := append([]Device{}, l.out.Devices...)
	for _, d := range append(own, Device{Name: "host"}) { // every device has one of its own name
		if _, dup := l.named["queue "+d.Name]; !dup {
			l.named["queue "+d.Name] = "device's own queue"
			l.out.Queues = append(l.out.Queues, Queue{Name: d.Name, Device: d.Name, Line: d.Line})
		}
	}
}
