package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"godwit/internal/expr"
	"godwit/internal/suggest"
	"godwit/mem"
)

// Place finds the bytes that text names: a buffer or a sub-buffer, by itself or with a
// range of its bytes. a[0,4096) and a[0, 4 KiB), as reports write ranges, a[0:4 KiB],
// a[512:] and a[512], a single byte, are understood. Ends may be expressions of numbers,
// units and size(BUFFER). It fails where there is no such buffer or no such range.
func (s *Scenario) Place(text string) (place, error) {
	name, inner, ranged := strings.Cut(strings.TrimSpace(text), "[")
	p, err := s.whole(strings.TrimSpace(name))
	if err != nil || !ranged {
		return p, err
	}
	r, err := s.rangeOf(inner, p.Range.Size())
	if err != nil {
		return p, fmt.Errorf("%s: %w", text, err)
	}
	p.Range = mem.Range{Start: p.Range.Start + r.Start, End: p.Range.Start + r.End}
	return p, nil
}

// whole is all of a buffer or sub-buffer.
func (s *Scenario) whole(name string) (place, error) {
	p, ok := s.lookup(name)
	if ok {
		return p, nil
	}
	var names []string
	for i := range s.Buffers {
		names = append(names, s.Buffers[i].Name)
	}
	for i := range s.Views {
		names = append(names, s.Views[i].Name)
	}
	return p, fmt.Errorf("no buffer or sub-buffer is named %q%s", name, suggest.For(name, names))
}

// lookup is whole without an error.
func (s *Scenario) lookup(name string) (place, bool) {
	for i := range slices.Backward(s.Buffers) {
		if s.Buffers[i].Name == name {
			return s.buffer(i), true
		}
	}
	for i := range s.Views {
		if s.Views[i].Name == name {
			return s.view(i), true
		}
	}
	return place{View: -1}, false
}

// buffer is all of a root.
func (s *Scenario) buffer(i int) place {
	b := &s.Buffers[i]
	return place{Buffer: i, View: -1, Range: mem.Range{End: b.Size}, Name: b.Name}
}

// view is all of a sub-buffer.
func (s *Scenario) view(i int) place {
	v := &s.Views[i]
	return place{Buffer: v.Buffer, View: i, Range: v.Range, Name: v.Name}
}

// rangeOf reads what is between a range's brackets, of something of size bytes.
func (s *Scenario) rangeOf(inner string, size uint64) (r mem.Range, err error) {
	body := strings.TrimSpace(inner)
	if !strings.HasSuffix(body, ")") && !strings.HasSuffix(body, "]") {
		return r, errors.New("want a range such as [0,4096) or [0:4 KiB]")
	}
	body = body[:len(body)-1]
	sc := &expr.Scope{Of: map[string]func(string) (uint64, error){"size": func(name string) (uint64, error) {
		p, err := s.whole(name)
		return p.Range.Size(), err
	}}}
	end := func(text string, missing uint64) uint64 {
		if text = strings.TrimSpace(text); text == "" || err != nil {
			return missing
		}
		v, eerr := sc.Number(text)
		if eerr != nil {
			err = eerr
		} else if v < 0 {
			err = fmt.Errorf("%d: want at least 0", v)
		}
		return uint64(max(v, 0))
	}
	from, to, both := strings.Cut(body, ":")
	if !both {
		from, to, both = cutLast(body)
	}
	r.Start = end(from, 0)
	if r.End = r.Start + 1; both {
		r.End = end(to, size)
	}
	if err == nil && (r.Start >= r.End || r.End > size) {
		err = fmt.Errorf("%v: want some of its %s", r, sizeText(size))
	}
	return r, err
}

// cutLast cuts at the last comma that stands in no parentheses: min(a, b) has one, too.
func cutLast(text string) (before, after string, found bool) {
	depth := 0
	for i := len(text) - 1; i >= 0; i-- {
		switch text[i] {
		case ')':
			depth++
		case '(':
			depth--
		case ',':
			if depth == 0 {
				return text[:i], text[i+1:], true
			}
		}
	}
	return text, "", false
}
