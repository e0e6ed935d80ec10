package yaml

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// File is a document of a language without aliases (where one is a copy, copies of copies have no
// bound), and what was found wrong with it.
type File struct {
	Name string
	Most int     // faults that are noted
	Errs []error // of type *Error
	// Expand computes the {expressions} in a word, and Compute a number of a unit that is no literal, in its
	// smallest part. nil: the language has no expressions.
	Expand  func(text string) (string, error)
	Compute func(text, unit string) (*big.Int, error)

	faults int
}

// Plain is n: there are no aliases.
func (f *File) Plain(n ast.Node) ast.Node { return n }

// Wrong notes a rule that is broken at n, once: what is repeated is read many times.
func (f *File) Wrong(n ast.Node, _ bool, format string, args ...any) {
	f.faults++
	e := NewError(f.Name, n, format, args...)
	if len(f.Errs) < f.Most && !slices.ContainsFunc(f.Errs, func(o error) bool { return o.Error() == e.Error() }) {
		f.Errs = append(f.Errs, e)
	}
}

// Reported notes that something is not known because of a fault that was noted where it is.
func (f *File) Reported() { f.faults++ }

// Faults is how often a rule was found broken.
func (f *File) Faults() int { return f.faults }

// Text is a word, with the {expressions} in it computed.
func (f *File) Text(n ast.Node, what string) string {
	text := Word(f, n, what)
	if f.Expand == nil || !strings.Contains(text, "{") {
		return text
	}
	text, err := f.Expand(text)
	if err != nil {
		f.Wrong(n, false, "%s: %v", what, err)
	}
	return text
}

// Parse is the body of the file's one document, or nil; what says what is in one.
func (f *File) Parse(data []byte, what string) ast.Node {
	body, err := Parse(f.Name, data, what)
	if err != nil {
		f.Errs = append(f.Errs, err)
		return nil
	}
	for _, kind := range []ast.NodeType{ast.AnchorType, ast.AliasType} {
		if found := ast.Filter(kind, body); len(found) > 0 {
			f.Wrong(found[0], true, "an anchor or an alias: write it out")
			return nil
		}
	}
	return body
}

// Decode reads the mapping n into the struct that to points to, and returns it; nil where n is no
// mapping. What is not there, or is wrong, leaves a field as it is. The tags of fields say:
//
//	yaml:"KEY"       under which key it stands; fields of embedded structs are the struct's own
//	need:"true"      that it must be there
//	oneof:"A B"      which words it may be
//	unit:"bytes"     which numbers: one of quantities; of none a whole one
//	from:"1" to:"9"  which are the least and the most
//	names:"true"     that it names the mapping, in errors
//
// A field is a string, a bool, a number, a struct, a list of words or of nodes, a node, or a function of one, which
// is called. They are read in their order.
func (f *File) Decode(n ast.Node, what string, to any) *Mapping {
	before := f.faults
	m := MappingOf(f, n, what)
	if f.faults > before && len(m.Keys) == 0 {
		return nil
	}
	fields := fieldsOf(reflect.ValueOf(to).Elem())
	var known []string
	for _, x := range fields {
		known = append(known, x.key)
	}
	m.OnlyKnown(f, known)
	for _, x := range fields {
		switch n := m.Get(x.key); {
		case n != nil:
			f.field(&m, &x, n)
		case x.tag.Get("need") != "":
			f.Wrong(m.Node, true, "%s: %s is missing", m.What, x.key)
		}
	}
	return &m
}

// field is one of a struct.
type field struct {
	key string
	tag reflect.StructTag
	to  reflect.Value
}

func fieldsOf(v reflect.Value) (out []field) {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		if key, ok := t.Tag.Lookup("yaml"); ok {
			out = append(out, field{key, t.Tag, v.Field(i)})
		} else if t.Anonymous {
			out = append(out, fieldsOf(v.Field(i))...)
		}
	}
	return out
}

// field reads what stands at n under a key of m.
func (f *File) field(m *Mapping, x *field, n ast.Node) {
	what := m.What + ": " + x.key
	switch to := x.to.Addr().Interface().(type) {
	case *ast.Node:
		*to = n
	case *func(ast.Node):
		(*to)(n)
	case *[]ast.Node:
		*to = List(f, n)
	case *[]string:
		for _, e := range List(f, n) {
			*to = append(*to, f.Text(e, what))
		}
	case *bool:
		if b, ok := n.(*ast.BoolNode); ok {
			*to = b.Value
		} else {
			f.Wrong(n, true, "%s: want true or false", what)
		}
	default:
		switch {
		case x.to.Kind() == reflect.Pointer: // nil is what is not said
			v := reflect.New(x.to.Type().Elem())
			f.field(m, &field{x.key, x.tag, v.Elem()}, n)
			x.to.Set(v)
		case x.to.Kind() == reflect.Struct:
			f.Decode(n, what, to)
		case x.to.CanUint():
			if v, ok := f.Number(n, what, x.tag); ok {
				x.to.SetUint(v)
			}
		case x.to.CanInt():
			if v, ok := f.Number(n, what, x.tag); ok {
				x.to.SetInt(int64(v))
			}
		default:
			f.word(m, x, n)
		}
	}
}

// word reads a word.
func (f *File) word(m *Mapping, x *field, n ast.Node) {
	w := f.Text(n, m.What+": "+x.key)
	if words := strings.Fields(x.tag.Get("oneof")); len(words) > 0 && w != "" && !slices.Contains(words, w) {
		f.Wrong(n, true, "%s: %s %q: %s", m.What, x.key, Short(w), WantOneOf(w, words))
		return
	}
	if x.to.SetString(w); x.tag.Get("names") != "" && w != "" {
		m.What = fmt.Sprintf("%s %q", m.What, Short(w))
	}
}

// Number reads a number at n, as a field's tag says.
func (f *File) Number(n ast.Node, what string, tag reflect.StructTag) (v uint64, ok bool) {
	before := f.faults
	text, unit := f.Text(n, what), tag.Get("unit")
	if f.faults > before {
		return 0, false
	}
	k := quantities[unit]
	bound := func(key string, otherwise uint64) uint64 {
		if b, ok := k.parse(tag.Get(key)); ok {
			return b.Uint64()
		}
		return otherwise
	}
	least, most := bound("from", k.least), bound("to", k.most)
	big, ok := k.parse(text)
	var err error
	if !ok && f.Compute != nil && !numberRule.MatchString(text) { // a number of another unit is none of this
		big, err = f.Compute(text, unit)
		ok = err == nil
	}
	switch {
	case err != nil:
		f.Wrong(n, true, "%s %q: want %s, or what comes to that: %v", what, Short(text), k.such, err)
		return 0, false
	case !ok:
		f.Wrong(n, true, "%s %q: want %s", what, Short(text), k.such)
		return 0, false
	case !big.IsUint64() || big.Uint64() < least || big.Uint64() > most:
		f.Wrong(n, true, "%s %q: want from %s to %s", what, Short(text), k.text(least), k.text(most))
		return 0, false
	}
	return big.Uint64(), true
}

// At is what stands under a key, or where there is none the mapping.
func (m *Mapping) At(key string) ast.Node {
	if n := m.Get(key); n != nil {
		return n
	}
	return m.Node
}
