package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"godwit/input/yamldoc"
	"godwit/suggest"
)

// The reading of YAML nodes. It works on the syntax tree and not on decoded
// values, so that every rule, not only those of YAML itself, can be reported
// with its line. Getters record what is wrong and return a zero value, so that
// one pass finds many faults.

// source is the file being read and what was found wrong with it.
type source struct {
	file    string
	errs    Errors
	faults  int // counts broken rules, also those that are not reported, or not again
	anchors map[string]ast.Node
	work    work
	expand  func(string) (string, error) // computes the {expressions} in a word; nil takes them as they are
	end     error                        // why reading has ended early, where the scenario is not at fault
}

// errorf records a broken rule at n.
func (s *source) errorf(n ast.Node, format string, args ...any) {
	s.faults++
	line := 0
	if n != nil && n.GetToken() != nil {
		line = n.GetToken().Position.Line
	}
	e := &Error{s.file, line, shortened(fmt.Sprintf(format, args...))}
	for _, seen := range s.errs { // a command in a repeat is read many times
		if *seen == *e {
			return
		}
	}
	s.errs = append(s.errs, e)
	if len(s.errs) >= maxErrors {
		s.errs = append(s.errs, &Error{s.file, line, "and perhaps more"})
		panic(bailout{})
	}
}

// shortened is a rule without its middle where it names a word that is very long,
// perhaps as long as the file.
func shortened(rule string) string {
	const most = 1000 // bytes
	if len(rule) <= most {
		return rule
	}
	return strings.ToValidUTF8(rule[:most/2]+" … "+rule[len(rule)-most/2:], "")
}

// err returns what was found wrong, ordered by line, or nil: that of the scenario's
// own file first.
func (s *source) err() error {
	if len(s.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(s.errs, func(a, b *Error) int {
		if a.File != b.File && (a.File == s.file) != (b.File == s.file) {
			return map[bool]int{true: -1, false: 1}[a.File == s.file]
		}
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return s.errs
}

// parse returns the file's one document; what says what is in one that is not empty.
func (s *source) parse(data []byte, what string) ast.Node {
	body, err := yamldoc.Parse(data)
	var bad *yamldoc.Error
	switch {
	case errors.As(err, &bad):
		s.errs = append(s.errs, &Error{s.file, bad.Line, bad.Text})
		return nil
	case err != nil:
		s.errorf(nil, "empty: %s", what)
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

// kindOf names what a node is, for errors.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", strings.TrimSpace(n.String()))
}

// list returns the elements of a sequence; a lone element counts as one.
func (s *source) list(n ast.Node) []ast.Node {
	switch v := s.plain(n).(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		s.spend(len(v.Values))
		return v.Values
	default:
		return []ast.Node{v}
	}
}

// text returns a scalar, with the {expressions} in it computed.
func (s *source) text(n ast.Node, what string) string {
	out := s.written(n, what)
	if s.expand == nil || !strings.Contains(out, "{") {
		return out
	}
	out, err := s.expand(out)
	switch {
	case errors.Is(err, errReported):
		s.faults++
	case err != nil:
		s.errorf(n, "%s: %v", what, err)
	}
	return out // "" where there is an error
}

// written returns a scalar as it is written.
func (s *source) written(n ast.Node, what string) string {
	out := ""
	switch v := s.plain(n).(type) {
	case *ast.StringNode:
		out = v.Value
	case *ast.LiteralNode:
		out = strings.TrimSpace(v.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		out = v.GetToken().Value
	default:
		s.errorf(n, "%s: want a word, not %s", what, kindOf(v))
		return ""
	}
	s.spend(len(out) / 16) // it is looked through
	if bad := strings.IndexFunc(out, unprintable); bad >= 0 {
		s.errorf(n, "%s: %.40q: it goes to terminals: want no control characters", what, out)
		return ""
	}
	return out
}

// unprintable reports whether a terminal would take a character for a command.
func unprintable(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// mapping is a YAML mapping whose keys must all be asked for.
type mapping struct {
	src  *source
	node ast.Node
	what string // what it is, for errors
	keys []*ast.MappingValueNode
	used []string
}

// mapping reads n, which must be a mapping. what names it in errors.
func (s *source) mapping(n ast.Node, what string) *mapping {
	m := &mapping{src: s, node: n, what: what}
	switch v := s.plain(n).(type) {
	case *ast.MappingNode:
		m.keys = v.Values
		if len(v.Values) > 0 {
			m.node = v.Values[0].Key // the token of a block mapping is its first colon
		}
	case *ast.MappingValueNode:
		m.keys = []*ast.MappingValueNode{v}
		m.node = v.Key
	default:
		s.errorf(n, "%s: want a mapping, not %s", what, kindOf(v))
	}
	s.spend(len(m.keys))
	for _, kv := range m.keys {
		if kv.Key.IsMergeKey() {
			s.errorf(kv, "%s: merge keys (<<) are not part of the language", what)
		}
	}
	return m
}

func keyName(kv *ast.MappingValueNode) string { return kv.Key.GetToken().Value }

// get returns the value of key, or nil.
func (m *mapping) get(key string) ast.Node {
	if !slices.Contains(m.used, key) {
		m.used = append(m.used, key)
	}
	m.src.spend(len(m.keys) / 16)
	for _, kv := range m.keys {
		if keyName(kv) == key {
			return kv.Value
		}
	}
	return nil
}

// use marks keys as asked for: they are known, though a fault keeps them from
// being read.
func (m *mapping) use(keys ...string) { m.used = append(m.used, keys...) }

// has reports whether key is there, without asking for it.
func (m *mapping) has(key string) bool {
	return slices.ContainsFunc(m.keys, func(kv *ast.MappingValueNode) bool { return keyName(kv) == key })
}

// text returns the scalar under key, or "".
func (m *mapping) text(key string) string {
	n := m.get(key)
	if n == nil {
		return ""
	}
	return m.src.text(n, m.what+": "+key)
}

// need is text that must be there.
func (m *mapping) need(key string) string {
	if m.get(key) == nil {
		m.src.errorf(m.node, "%s: %s is missing", m.what, key)
		return ""
	}
	return m.text(key)
}

// oneOf is text that must be one of words; the first is the default.
func (m *mapping) oneOf(key string, words ...string) string {
	n := m.get(key)
	if n == nil {
		return words[0]
	}
	t := m.text(key)
	if !slices.Contains(words, t) {
		m.src.errorf(n, "%s: %s %q: want one of %s%s", m.what, key, t, strings.Join(words, ", "), suggest.For(t, words))
		return words[0]
	}
	return t
}

// done reports keys that nobody asked for.
func (m *mapping) done() {
	for _, kv := range m.keys {
		if k := keyName(kv); !slices.Contains(m.used, k) && !kv.Key.IsMergeKey() {
			known := slices.Clone(m.used)
			slices.Sort(known)
			known = slices.Compact(known)
			m.src.errorf(kv.Key, "%s: unknown key %q; known here: %s%s", m.what, k, strings.Join(known, ", "), suggest.For(k, known))
		}
	}
}
