package scenario

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/yaml"
)

// Shapes say which keys a mapping of the language may have, and what may stand under
// each. They are declared once, in shapes.go; those of commands are in the files of their
// kinds (kind.go). The loader asks for keys by them: what is
// in no shape it does not find, and reports as unknown. JSON Schemas are made of them
// (schema.go), so that the two do not differ. What a shape cannot say, such as which
// keys exclude each other or which numbers are too large, is the loader's alone.

// shape is a kind of mapping.
type shape struct {
	name string // in the schema
	what string // for people
	keys []key
	rest *form    // of all other keys; nil is none
	one  bool     // it has exactly one key
	some []string // it has at least one of these keys
	// variants are the kinds of mappings of which it is one, by name. pick finds out
	// which; nil where it is none of them.
	variants []string
	pick     func(m *mapping) string
}

// key is one that a mapping may have.
type key struct {
	name string
	form form
	need bool
	what string // for people
}

// form is what may stand under a key, by the kind of node: alone or together.
type form struct {
	scalar scalar
	words  []string // of enumerated
	list   *form    // of the elements of a list; one element alone will do, or none
	strict bool     // the list is written as one
	object string   // the name of a mapping's shape
	null   bool
}

type scalar int

const (
	noScalar   scalar = iota
	word              // with {expressions} in it
	expression        // a number, or what computes one
	enumerated        // one of words
)

// forms
func words(w ...string) form  { return form{scalar: enumerated, words: w} }
func listOf(f form) form      { return form{list: &f} }
func object(name string) form { return form{object: name} }
func (f form) or(g form) form { // each is for other kinds of nodes
	if g.scalar != noScalar {
		f.scalar, f.words = g.scalar, g.words
	}
	if g.list != nil {
		f.list, f.strict = g.list, true
	}
	if g.object != "" {
		f.object = g.object
	}
	f.null = f.null || g.null
	return f
}

var (
	aWord     = form{scalar: word}
	aNumber   = form{scalar: expression}
	aFlag     = words("false", "true")
	nothing   = form{null: true}
	aValue    = aNumber.or(listOf(aNumber))
	someWords = listOf(aWord)

	anArgument = aWord.or(object("argument"))
)

// find returns a key of a shape, or nil.
func (s *shape) find(name string) *key {
	for i := range s.keys {
		if s.keys[i].name == name {
			return &s.keys[i]
		}
	}
	return nil
}

// needs reports whether a mapping of the shape must have a key.
func (s *shape) needs(name string) bool {
	k := s.find(name)
	return k != nil && k.need
}

// missing says that the key is.
func (k *key) missing() string {
	is, what := "is", k.what
	if strings.HasSuffix(k.name, "s") && k.name != "as" {
		is = "are"
	}
	if list := k.form.list; k.form.words != nil {
		what = "want one of " + strings.Join(k.form.words, ", ")
	} else if list != nil && list.words != nil {
		what = "want some of " + strings.Join(list.words, ", ")
	}
	return fmt.Sprintf("%s %s missing: %s", k.name, is, what)
}

// known lists the keys of a shape, sorted.
func (s *shape) known() (out []string) {
	for _, k := range s.keys {
		out = append(out, k.name)
	}
	slices.Sort(out)
	return out
}

// shapes are all of them, by name.
var shapes = sync.OnceValue(func() map[string]*shape {
	out := make(map[string]*shape)
	for _, s := range declaredShapes() {
		out[s.name] = s
	}
	return out
})

// shapeOf is the shape of a mapping that is to be of the named one, or of one of its
// variants. It is nil where it is none of them.
func shapeOf(name string, m *mapping) *shape {
	s := shapes()[name]
	for s != nil && s.pick != nil {
		s = shapes()[s.pick(m)]
	}
	return s
}

// checkShape reports where the node under a key is of the wrong form, at any depth.
// It is for what is not read: what a repeat of no rounds would do.
func (s *source) checkShape(n ast.Node, f *form, what string) {
	v := s.plain(n)
	switch v := v.(type) {
	case nil, *ast.NullNode:
		if !f.null && (f.list == nil || f.strict) {
			s.misshapen(n, "%s: want %s, not nothing", what, f)
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		object := f.object
		if object == "" && f.list != nil && !f.strict {
			object = f.list.object
		}
		if object == "" {
			s.misshapen(n, "%s: want %s, not a mapping", what, f)
			return
		}
		s.checkMapping(v, object, what)
	case *ast.SequenceNode:
		if f.list == nil {
			s.misshapen(n, "%s: want %s, not a list", what, f)
			return
		}
		for _, e := range s.list(v) {
			s.checkShape(e, f.list, what)
		}
	default:
		at := f
		if f.scalar == noScalar && f.list != nil && !f.strict {
			at = f.list
		}
		if at.scalar == noScalar {
			s.misshapen(n, "%s: want %s, not %s", what, f, yaml.Kind(v))
			return
		}
		// An {expression} may use the repeat's variable, which has no value in no rounds.
		if text := s.written(n, what); !strings.Contains(text, "{") {
			s.oneOfWords(n, at, what, text)
		}
	}
}

func (s *source) checkMapping(n ast.Node, object, what string) {
	m := s.mapping(n, what, object)
	if m.shape == nil {
		all := shapes()[object]
		s.misshapen(m.Node, "%s: want a %s, one of %s", what, all.what, strings.Join(all.variants, ", "))
		return
	}
	for _, kv := range m.Keys {
		f := m.shape.rest
		if k := m.shape.find(yaml.Name(kv)); k != nil {
			f = &k.form
		}
		if f != nil {
			s.checkShape(kv.Value, f, m.What+": "+yaml.Name(kv))
		}
	}
}

// oneOfWords reports a word that is none of those that a form has.
func (s *source) oneOfWords(n ast.Node, f *form, what, text string) {
	if f.scalar != enumerated || text == "" || slices.Contains(f.words, text) {
		return
	}
	report := s.misshapen
	if strings.Contains(s.written(n, what), "{") { // a schema does not know what comes of it
		report = s.errorf
	}
	report(n, "%s %q: %s", what, text, yaml.WantOneOf(text, f.words))
}

// stringType says what is wanted, for errors.
func (f *form) String() string {
	var out []string
	if f.scalar == expression {
		out = append(out, "a number")
	} else if f.scalar != noScalar {
		out = append(out, "a word")
	}
	if f.object != "" {
		out = append(out, "a mapping")
	}
	if f.list != nil {
		out = append(out, "a list")
	}
	return strings.Join(out, " or ")
}
