package scenario

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

func (l *loader) readExpect(m *mapping) {
	nodes := l.list(m.get("expect"))
	if len(l.errs) > 0 {
		return
	}
	for _, n := range nodes {
		s := l.mapping(n, "expect", "expect")
		e := expectation{Line: s.Node.GetToken().Position.Line}
		found := s.among(expectations)
		for i := 1; i < len(found); i++ {
			l.misshapen(s.Node, "expect: %s beside %s: one expectation says one thing", found[i], found[i-1])
		}
		if len(found) > 1 {
			continue
		}
		switch kind := strings.Join(found, ""); kind { // of one, or none
		case "buffer":
			l.expectContent(s, &e)
		case "moved":
			if s.text("moved") == "lower-bound" {
				e.Minimal = true
			} else {
				v := l.natural(s, "moved", 0, 0)
				e.Moved = &v
			}
		case "capacity-percent":
			v := l.natural(s, kind, 0, 0)
			e.Percent = &v
		case "copies":
			v := l.natural(s, "copies", 0, 0)
			e.Copies = &v
		case "only":
			for _, n := range l.list(s.get("only")) {
				e.Only = append(e.Only, l.somewhere(n, "expect: only"))
			}
		case "fails":
			l.expectFailures(s, &e)
		default:
			l.misshapen(s.Node, "expect: want one of %s", strings.Join(expectations, ", "))
			continue
		}
		if len(l.errs) == 0 {
			e.Text = l.out.expectText(&e)
		}
		l.out.Expect = append(l.out.Expect, e)
	}
}

// expectFailures reads which commands must fail.
func (l *loader) expectFailures(s *mapping, e *expectation) {
	for _, n := range l.list(s.get("fails")) {
		if i := l.failer(n, "expect: fails", l.expanded(n, "expect: fails")); i >= 0 {
			e.Fails = append(e.Fails, i)
		}
	}
	if len(e.Fails) == 0 && len(l.list(s.get("fails"))) == 0 {
		l.errorf(s.Node, "expect: fails: no command is named")
	}
}

// expectContent reads what a buffer must hold.
func (l *loader) expectContent(s *mapping, e *expectation) {
	p := l.place(s, "buffer", "offset")
	e.Place = &p
	s.What = fmt.Sprintf("expect: buffer %s", p.Name)
	e.Data = l.data(s)
	e.SHA256 = strings.ToLower(s.text("sha256"))
	equals := s.text("equals")
	e.Reference = equals == "reference"
	given := 0
	for _, is := range []bool{e.Data != nil, e.SHA256 != "", equals != ""} {
		if is {
			given++
		}
	}
	switch sum, err := hex.DecodeString(e.SHA256); {
	case given != 1:
		l.errorf(s.Node, "%s: want one of equals: reference, sha256, %s", s.What, strings.Join(dataKeys, ", "))
	case equals != "" && !e.Reference:
		l.errorf(s.get("equals"), "%s: equals %q: want reference", s.What, equals)
	case e.SHA256 != "" && (err != nil || len(sum) != 32):
		l.errorf(s.get("sha256"), "%s: sha256: want 64 hex digits", s.What)
	case e.Data != nil && e.Data.size > p.Range.Size():
		l.errorf(s.Node, "%s: the content, %s, has %d bytes, the place only %d", s.What, e.Data, e.Data.size, p.Range.Size())
	case e.Data != nil:
		l.hold(s.Node, s.What, p.Range.Size())
	}
}

// somewhere reads a buffer's name, or {buffer, offset, size}.
func (l *loader) somewhere(n ast.Node, what string) place {
	if _, ok := l.plain(n).(*ast.MappingNode); !ok {
		return l.placeNamed(n, what)
	}
	m := l.mapping(n, what, "place")
	return l.place(m, "buffer", "offset")
}
