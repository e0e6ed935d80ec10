package machine

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/yaml/fields"
)

// reader is the file being read and what was found wrong with it: a fields.Source. The
// language has no aliases.
type reader struct {
	file string
	errs []error
}

// Plain implements fields.Source.
func (f *reader) Plain(n ast.Node) ast.Node { return n }

// Wrong implements fields.Source.
func (f *reader) Wrong(n ast.Node, _ bool, format string, args ...any) {
	f.wrong(fields.Line(n), format, args...)
}

// wrong notes a broken rule, up to a bound.
func (f *reader) wrong(line int, format string, args ...any) {
	if len(f.errs) < maxErrors {
		e := fields.NewError(f.file, nil, format, args...)
		e.Line = line
		f.errs = append(f.errs, e)
	}
}

// fieldsOf is a mapping.
type fieldsOf struct {
	fields.Mapping
	*reader
	line int
}

// mapping reads n, with no other keys than those known; none known is any. It is nil
// where n is no mapping.
func (f *reader) mapping(n ast.Node, what string, known ...string) *fieldsOf {
	before := len(f.errs)
	m := &fieldsOf{Mapping: fields.MappingOf(f, n, what), reader: f}
	if len(f.errs) > before && len(m.Keys) == 0 {
		return nil
	}
	if m.line = fields.Line(m.Node); len(known) > 0 {
		m.OnlyKnown(f, known)
	}
	return m
}

func (m *fieldsOf) lineOf(key string) int {
	if n := m.Get(key); n != nil {
		return fields.Line(n)
	}
	return m.line
}

// text is the word under a key, "" where there is none.
func (m *fieldsOf) text(key string) string {
	if !m.Has(key) {
		return ""
	}
	return fields.Word(m, m.Get(key), m.What+": "+key)
}

// list is the elements under a key; a lone one counts as one.
func (m *fieldsOf) list(key string) []ast.Node { return fields.List(m, m.Get(key)) }

// flag is true or false.
func (m *fieldsOf) flag(key string, otherwise bool) bool {
	n := m.Get(key)
	if n == nil {
		return otherwise
	}
	b, ok := n.(*ast.BoolNode)
	if !ok {
		m.wrong(fields.Line(n), "%s: %s: want true or false", m.What, key)
		return otherwise
	}
	return b.Value
}

// oneOf is a word out of several; the first is the default.
func (m *fieldsOf) oneOf(key string, words ...string) string {
	if !m.Has(key) {
		return words[0]
	}
	w := m.text(key)
	if !slices.Contains(words, w) {
		m.wrong(m.lineOf(key), "%s: %s %q: %s", m.What, key, fields.Short(w), fields.WantOneOf(w, words))
		return words[0]
	}
	return w
}

// number is a quantity under a key, between least and most.
func (m *fieldsOf) number(key string, k *quantity, least, most, otherwise uint64) uint64 {
	n := m.Get(key)
	if n == nil {
		return otherwise
	}
	return m.scalar(n, m.What+": "+key, k, least, most)
}

func (f *reader) scalar(n ast.Node, what string, k *quantity, least, most uint64) uint64 {
	before := len(f.errs)
	text := fields.Word(f, n, what)
	if len(f.errs) > before {
		return least
	}
	v, ok := k.parse(text)
	switch {
	case !ok:
		f.wrong(fields.Line(n), "%s %q: want %s", what, fields.Short(text), k.such)
		return least
	case !v.IsUint64() || v.Uint64() < least || v.Uint64() > most:
		f.wrong(fields.Line(n), "%s %q: want from %s to %s", what, fields.Short(text), k.text(least), k.text(most))
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
