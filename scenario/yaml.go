package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// mostWord is how many bytes of a word of the file kindOf shows.
const mostWord = 64

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
	word := strings.TrimSpace(n.String()) // of a file that is no scenario perhaps all of it
	if len(word) > mostWord {
		word = strings.ToValidUTF8(word[:mostWord], "") + "…"
	}
	return strconv.Quote(word)
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
		s.misshapen(n, "%s: want a word, not %s", what, kindOf(v))
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

// mapping is a YAML mapping of a shape.
type mapping struct {
	src   *source
	node  ast.Node
	what  string // what it is, for errors
	shape *shape // nil where it is of no variant of what it is to be
	keys  []*ast.MappingValueNode
}

// mapping reads n, which must be a mapping of the named shape. what names it in errors.
func (s *source) mapping(n ast.Node, what, shape string) *mapping {
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
		s.misshapen(n, "%s: want a mapping, not %s", what, kindOf(v))
	}
	m.shape = shapeOf(shape, m)
	s.spend(len(m.keys))
	for _, kv := range m.keys {
		if kv.Key.IsMergeKey() {
			s.misshapen(kv, "%s: merge keys (<<) are not part of the language", what)
		}
	}
	return m
}

func keyName(kv *ast.MappingValueNode) string { return kv.Key.GetToken().Value }

// get returns the value of key, or nil.
func (m *mapping) get(key string) ast.Node {
	if m.shape != nil && m.shape.rest == nil && m.shape.find(key) == nil {
		return nil // it is unknown here: done says so
	}
	m.src.spend(len(m.keys) / 16)
	for _, kv := range m.keys {
		if keyName(kv) == key {
			return kv.Value
		}
	}
	return nil
}

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

// isTrue reports whether a key is there and true.
func (m *mapping) isTrue(key string) bool {
	for _, kv := range m.keys {
		if keyName(kv) == key {
			return m.src.text(kv.Value, key) == "true"
		}
	}
	return false
}

// require reports a key that is missing.
func (m *mapping) require(key string) bool {
	if m.get(key) == nil {
		m.src.misshapen(m.node, "%s: %s is missing", m.what, key)
		return false
	}
	return true
}

// need is text that must be there.
func (m *mapping) need(key string) string {
	if !m.require(key) {
		return ""
	}
	return m.text(key)
}

// oneOf is text that must be one of the words that the shape has for the key; missing
// is def.
func (m *mapping) oneOf(key, def string) string {
	n := m.get(key)
	if n == nil {
		return def
	}
	t, before := m.text(key), m.src.faults
	if m.src.oneOfWords(n, &m.shape.find(key).form, m.what+": "+key, t); m.src.faults > before || t == "" {
		return def
	}
	return t
}

// single reports whether there is exactly one key, and that it is not so where it is
// not.
func (m *mapping) single() bool {
	if len(m.keys) != 1 {
		m.src.misshapen(m.node, "%s: want one of %s", m.what, strings.Join(m.shape.known(), ", "))
	}
	return len(m.keys) == 1
}

// done reports keys that the shape does not have.
func (m *mapping) done() {
	if m.shape == nil || m.shape.rest != nil {
		return
	}
	for _, kv := range m.keys {
		if k := keyName(kv); m.shape.find(k) == nil && !kv.Key.IsMergeKey() {
			known := m.shape.known()
			m.src.misshapen(kv.Key, "%s: unknown key %q; known here: %s%s", m.what, k, strings.Join(known, ", "), suggest.For(k, known))
		}
	}
}

// misshapen records a broken rule at n that is one of form: a JSON Schema has it, too.
func (s *source) misshapen(n ast.Node, format string, args ...any) {
	s.shapeFaults++
	s.errorf(n, format, args...)
}
