package machine

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"godwit/suggest"
)

// The reading of YAML nodes: from the syntax tree, so that every rule can be reported
// with its line. Getters note what is wrong and return a default, so that one pass
// finds many faults.

// fields is the file being read and what was found wrong with it.
type fields struct {
	file string
	errs []error
}

// wrong notes a broken rule, up to a bound.
func (f *fields) wrong(line int, format string, args ...any) {
	if len(f.errs) < maxErrors {
		f.errs = append(f.errs, &Error{f.file, line, fmt.Sprintf(format, args...)})
	}
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

// short is a word of the file, as an error shows it.
func short(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "…"
	}
	return s
}

// word is a scalar as it is written.
func (f *fields) word(n ast.Node, what string) (out string) {
	switch v := n.(type) {
	case nil:
		return ""
	case *ast.StringNode:
		out = v.Value
	case *ast.LiteralNode:
		out = v.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		out = v.GetToken().Value
	case *ast.AliasNode, *ast.AnchorNode:
		f.wrong(lineOf(n), "%s: an anchor or an alias: write it out", what)
		return ""
	default:
		f.wrong(lineOf(n), "%s: want a word", what)
		return ""
	}
	if strings.ContainsFunc(out, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		f.wrong(lineOf(n), "%s: it goes to terminals: want no control characters", what)
		return ""
	}
	return out
}

// fieldsOf is a mapping.
type fieldsOf struct {
	*fields
	what string // what it is, for errors
	line int
	keys []*ast.MappingValueNode
}

// mapping reads n, with no other keys than those known; none known is any. It is nil
// where n is no mapping.
func (f *fields) mapping(n ast.Node, what string, known ...string) *fieldsOf {
	m := &fieldsOf{fields: f, what: what, line: lineOf(n)}
	switch v := n.(type) {
	case *ast.MappingNode:
		m.keys = v.Values
	case *ast.MappingValueNode:
		m.keys = []*ast.MappingValueNode{v}
	case *ast.AliasNode, *ast.AnchorNode:
		f.wrong(m.line, "%s: an anchor or an alias: write it out", what)
		return nil
	default:
		f.wrong(m.line, "%s: want a mapping", what)
		return nil
	}
	if len(m.keys) > 0 {
		m.line = lineOf(m.keys[0].Key)
	}
	seen := make(map[string]bool)
	for _, kv := range m.keys {
		key := kv.Key.GetToken().Value
		switch {
		case kv.Key.IsMergeKey():
			f.wrong(lineOf(kv.Key), "%s: merge keys (<<) are not part of the language", what)
		case seen[key]:
			f.wrong(lineOf(kv.Key), "%s: %s is there twice", what, short(key))
		case len(known) > 0 && !slices.Contains(known, key):
			f.wrong(lineOf(kv.Key), "%s: unknown key %q; known here: %s%s", what, short(key), strings.Join(known, ", "), suggest.For(key, known))
		}
		seen[key] = true
	}
	return m
}

// node is the value of a key, or nil.
func (m *fieldsOf) node(key string) ast.Node {
	for _, kv := range m.keys {
		if kv.Key.GetToken().Value == key {
			return kv.Value
		}
	}
	return nil
}

func (m *fieldsOf) has(key string) bool { return m.node(key) != nil }

func (m *fieldsOf) lineOf(key string) int {
	if n := m.node(key); n != nil {
		return lineOf(n)
	}
	return m.line
}

func (m *fieldsOf) text(key string) string { return m.word(m.node(key), m.what+": "+key) }

// list is the elements under a key; a lone one counts as one.
func (m *fieldsOf) list(key string) []ast.Node {
	switch v := m.node(key).(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		return v.Values
	default:
		return []ast.Node{v}
	}
}

// flag is true or false.
func (m *fieldsOf) flag(key string, otherwise bool) bool {
	n := m.node(key)
	if n == nil {
		return otherwise
	}
	b, ok := n.(*ast.BoolNode)
	if !ok {
		m.wrong(lineOf(n), "%s: %s: want true or false", m.what, key)
		return otherwise
	}
	return b.Value
}

// oneOf is a word out of several; the first is the default.
func (m *fieldsOf) oneOf(key string, words ...string) string {
	if !m.has(key) {
		return words[0]
	}
	w := m.text(key)
	if !slices.Contains(words, w) {
		m.wrong(m.lineOf(key), "%s: %s %q: want one of %s%s", m.what, key, short(w), strings.Join(words, ", "), suggest.For(w, words))
		return words[0]
	}
	return w
}

// number is a quantity under a key, between least and most.
func (m *fieldsOf) number(key string, k *quantity, least, most, otherwise uint64) uint64 {
	n := m.node(key)
	if n == nil {
		return otherwise
	}
	return m.scalar(n, m.what+": "+key, k, least, most)
}

func (f *fields) scalar(n ast.Node, what string, k *quantity, least, most uint64) uint64 {
	before := len(f.errs)
	text := f.word(n, what)
	if len(f.errs) > before {
		return least
	}
	v, ok := k.parse(text)
	switch {
	case !ok:
		f.wrong(lineOf(n), "%s %q: want %s", what, short(text), k.such)
		return least
	case !v.IsUint64() || v.Uint64() < least || v.Uint64() > most:
		f.wrong(lineOf(n), "%s %q: want from %s to %s", what, short(text), k.text(least), k.text(most))
		return least
	}
	return v.Uint64()
}

// quantity is a kind of number: which units it may have, and how many of the smallest
// part each is.
type quantity struct {
	such  string
	units map[string]uint64
	text  func(uint64) string
}

func sized(suffix string) map[string]uint64 {
	out := make(map[string]uint64)
	for i, p := range []string{"", "k", "M", "G", "T", "P", "E"} {
		ten, two := uint64(1), uint64(1)<<(10*i)
		for range i {
			ten *= 1000
		}
		out[p+suffix] = ten
		if i > 0 && strings.HasPrefix(suffix, "B") {
			out[strings.ToUpper(p)+"i"+suffix] = two
		}
	}
	if k, ok := out["k"+suffix]; ok {
		out["K"+suffix] = k
	}
	return out
}

var (
	plain         = &quantity{"a whole number", map[string]uint64{"": 1}, func(n uint64) string { return fmt.Sprint(n) }}
	bytes         = &quantity{"bytes such as 64 MiB", with(sized("B"), "", 1), func(n uint64) string { return fmt.Sprintf("%d B", n) }}
	bandwidth     = &quantity{"bytes a second such as 55.3 GB/s", sized("B/s"), func(n uint64) string { return fmt.Sprintf("%d B/s", n) }}
	operationRate = &quantity{"operations a second such as 60 Top/s", sized("op/s"), func(n uint64) string { return fmt.Sprintf("%d op/s", n) }}
	thousandths   = &quantity{"a number such as 2 or 0.125", map[string]uint64{"": 1000}, func(n uint64) string { return fmt.Sprint(n / 1000) }}
	times         = &quantity{"a time such as 4.7 us", map[string]uint64{"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}, func(n uint64) string { return fmt.Sprintf("%d ns", n) }}
)

func with(units map[string]uint64, unit string, n uint64) map[string]uint64 {
	units[unit] = n
	return units
}

var numberRule = regexp.MustCompile(`^([0-9]{1,20}(?:\.[0-9]{1,20})?)[ \t]*([A-Za-zµ/]{0,8})$`)

// parse reads a number with its unit, exactly; what is less than the smallest part
// rounds to the nearest.
func (k *quantity) parse(text string) (*big.Int, bool) {
	parts := numberRule.FindStringSubmatch(text)
	if parts == nil {
		return nil, false
	}
	unit, ok := k.units[parts[2]]
	v, valid := new(big.Rat).SetString(parts[1])
	if !ok || !valid || k == plain && !v.IsInt() {
		return nil, false
	}
	v.Mul(v, new(big.Rat).SetUint64(unit))
	v.Add(v, big.NewRat(1, 2))
	return new(big.Int).Quo(v.Num(), v.Denom()), true
}
