package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/expr"
	"godwit/internal/yaml"
)

// The reading of YAML nodes (internal/yaml), with what the language adds to YAML: aliases
// within a budget, {expressions} in words, and shapes, which say what keys there are.

// source is the file being read and what was found wrong with it.
type source struct {
	file        string
	errs        Errors
	shapeFaults int // of faults: those that a schema shows, too
	faults      int // counts broken rules, also those that are not reported, or not again
	anchors     map[string]ast.Node
	work        work
	expand      func(string) (string, error) // computes the {expressions} in a word; nil takes them as they are
	end         error                        // why reading has ended early, where the scenario is not at fault
}

// errorf records a broken rule at n.
func (s *source) errorf(n ast.Node, format string, args ...any) {
	s.faults++
	e := yaml.NewError(s.file, n, format, args...)
	for _, seen := range s.errs { // a command in a repeat is read many times
		if *seen == *e {
			return
		}
	}
	s.errs = append(s.errs, e)
	if len(s.errs) >= maxErrors {
		s.errs = append(s.errs, &yaml.Error{File: s.file, Line: e.Line, Rule: "and perhaps more"})
		panic(bailout{})
	}
}

// err returns what was found wrong, ordered by line, or nil: that of the scenario's
// own file first.
func (s *source) err() error {
	if len(s.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(s.errs, func(a, b *yaml.Error) int {
		if a.File != b.File && (a.File == s.file) != (b.File == s.file) {
			return map[bool]int{true: -1, false: 1}[a.File == s.file]
		}
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return s.errs
}

// parse returns the file's one document; what says what is in one that is not empty.
func (s *source) parse(data []byte, what string) ast.Node {
	body, err := yaml.Parse(s.file, data, what)
	var bad *yaml.Error
	if errors.As(err, &bad) {
		s.errs = append(s.errs, bad)
		return nil
	}
	s.anchors = make(map[string]ast.Node)
	for _, a := range ast.Filter(ast.AnchorType, body) {
		if a, ok := a.(*ast.AnchorNode); ok {
			s.anchors[a.Name.String()] = a.Value
		}
	}
	return body
}

// plain looks through anchors and aliases. The depth limit ends an alias that
// contains itself.
func (s *source) plain(n ast.Node) ast.Node {
	for range 100 {
		s.spend(1)
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			target, ok := s.anchors[v.Value.String()]
			if !ok {
				s.errorf(n, "alias *%s: no anchor has this name", v.Value)
				return nil
			}
			n = target
		default:
			return n
		}
	}
	s.errorf(n, "an alias that leads to itself")
	return nil
}

// Plain implements yaml.Source.
func (s *source) Plain(n ast.Node) ast.Node { return s.plain(n) }

// Wrong implements yaml.Source.
func (s *source) Wrong(n ast.Node, form bool, format string, args ...any) {
	if form {
		s.shapeFaults++
	}
	s.errorf(n, format, args...)
}

// Reported implements expr.Source.
func (s *source) Reported() { s.faults++ }

// Faults implements expr.Source.
func (s *source) Faults() int { return s.faults }

// Text implements expr.Source.
func (s *source) Text(n ast.Node, what string) string { return s.text(n, what) }

// list returns the elements of a sequence; a lone element counts as one.
func (s *source) list(n ast.Node) []ast.Node {
	out := yaml.List(s, n)
	s.spend(len(out))
	return out
}

// text returns a scalar, with the {expressions} in it computed.
func (s *source) text(n ast.Node, what string) string {
	out := s.written(n, what)
	if s.expand == nil || !strings.Contains(out, "{") {
		return out
	}
	out, err := s.expand(out)
	switch {
	case errors.Is(err, expr.ErrReported):
		s.faults++
	case err != nil:
		s.errorf(n, "%s: %v", what, err)
	}
	return out // "" where there is an error
}

// written returns a scalar as it is written.
func (s *source) written(n ast.Node, what string) string {
	out := yaml.Word(s, n, what)
	s.spend(len(out) / 16) // it is looked through
	return out
}

// mapping is a YAML mapping of a shape.
type mapping struct {
	yaml.Mapping
	src   *source
	shape *shape // nil where it is of no variant of what it is to be
}

// mapping reads n, which must be a mapping of the named shape. what names it in errors.
func (s *source) mapping(n ast.Node, what, shape string) *mapping {
	m := s.unchecked(n, what, shape)
	if m.shape != nil {
		m.check()
	}
	return m
}

// unchecked is mapping for one that is to be checked later, if at all.
func (s *source) unchecked(n ast.Node, what, shape string) *mapping {
	m := &mapping{Mapping: yaml.MappingOf(s, n, what), src: s}
	s.spend(len(m.Keys))
	if m.shape = shapeOf(shape, m); m.shape == nil {
		return m
	}
	if shape == "command" {
		m.What = m.shape.what
	}
	if name, ok := m.Get("name").(*ast.StringNode); ok && m.shape.needs("name") {
		m.What = fmt.Sprintf("%s %q", what, yaml.Short(name.Value))
	}
	return m
}

// check reports keys that the shape does not have, and those that are missing.
func (m *mapping) check() {
	if m.shape.rest == nil {
		m.OnlyKnown(m.src, m.shape.known())
		if n := m.Get("route"); n != nil && m.shape.find("way") != nil {
			m.src.misshapen(n, "%s: route is called way", m.What)
		}
	}
	if m.shape.one && len(m.Keys) != 1 {
		m.src.misshapen(m.Node, "%s: want one of %s", m.What, strings.Join(m.shape.known(), ", "))
	}
	for i := range m.shape.keys {
		if k := &m.shape.keys[i]; k.need && !m.Has(k.name) {
			m.src.misshapen(m.Node, "%s: %s", m.What, k.missing())
		}
	}
}

// get returns the value of a key of the shape, or nil: what is to be found by Get or Has
// alone may have any name.
func (m *mapping) get(key string) ast.Node {
	if m.shape != nil && m.shape.rest == nil && m.shape.find(key) == nil {
		return nil // it is unknown here: done says so
	}
	m.src.spend(len(m.Keys) / 16)
	return m.Get(key)
}

// text returns the scalar under key, or "".
func (m *mapping) text(key string) string {
	n := m.get(key)
	if n == nil {
		return ""
	}
	return m.src.text(n, m.What+": "+key)
}

// among are those of some keys that are there, in their order.
func (m *mapping) among(keys []string) (out []string) {
	for _, k := range keys {
		if m.Has(k) {
			out = append(out, k)
		}
	}
	return out
}

// isTrue reports whether a key is there and true.
func (m *mapping) isTrue(key string) bool {
	n := m.Get(key)
	return n != nil && m.src.text(n, key) == "true"
}

// oneOf is text that must be one of the words that the shape has for the key; missing
// is def.
func (m *mapping) oneOf(key, def string) string {
	n := m.get(key)
	if n == nil {
		return def
	}
	t, before := m.text(key), m.src.faults
	if m.src.oneOfWords(n, &m.shape.find(key).form, m.What+": "+key, t); m.src.faults > before || t == "" {
		return def
	}
	return t
}

// misshapen records a broken rule at n that is one of form: a JSON Schema has it, too.
func (s *source) misshapen(n ast.Node, format string, args ...any) {
	s.Wrong(n, true, format, args...)
}
