// Package yaml reads YAML documents that somebody else wrote: words, lists, mappings, and with
// [File.Decode] structs whose tags say what may stand where. It works on the syntax tree and not
// on decoded values, so that every rule, not only those of YAML itself, can be reported with its
// line. What is wrong is noted, and a zero value returned, so that one pass finds many faults.
// What the words mean is the language's.
//
// The parser costs memory that is quadratic in the depth of what it reads, and some broken input
// makes it panic; so the depth is bounded before the parser sees anything, and a panic is an
// error. Errors of the parser never quote the file: it may not be the reader's to show.
package yaml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/suggest"
)

// Error is one broken rule of a language.
type Error struct {
	File string
	Line int // from 1; 0 where it is the whole file
	Rule string
}

// Error is "file:line: rule".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Rule
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Rule)
}

// NewError is the error of a rule that is broken at n. A rule that names a word that is very
// long, perhaps as long as the file, is without its middle.
func NewError(file string, n ast.Node, format string, args ...any) *Error {
	const most = 1000 // bytes
	rule := fmt.Sprintf(format, args...)
	if len(rule) > most {
		rule = strings.ToValidUTF8(rule[:most/2]+" … "+rule[len(rule)-most/2:], "")
	}
	return &Error{file, Line(n), rule}
}

// Line is where n begins; 0 where there is no n.
func Line(n ast.Node) int {
	if n == nil || n.GetToken() == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

// source is a document that is being read.
type source interface {
	// Plain is what a node stands for: itself, or where the language has aliases what it
	// leads to.
	Plain(n ast.Node) ast.Node
	// Wrong notes a rule that is broken at n. It is one of form where a schema of the
	// language would show it, too.
	Wrong(n ast.Node, form bool, format string, args ...any)
}

// Short is a word of a document, as an error shows it.
func Short(word string) string {
	const most = 64 // bytes
	if len(word) > most {
		word = strings.ToValidUTF8(word[:most], "") + "…"
	}
	return word
}

// Kind names what a node is, for errors.
func Kind(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	return strconv.Quote(Short(strings.TrimSpace(n.String()))) // of another file perhaps all of it
}

// Unprintable reports whether a terminal would take a character for a command.
func Unprintable(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// Word is a scalar as it is written; what says what it is, for errors.
func Word(s source, n ast.Node, what string) (out string) {
	switch v := s.Plain(n).(type) {
	case *ast.StringNode:
		out = v.Value
	case *ast.LiteralNode:
		out = strings.TrimSpace(v.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		out = v.GetToken().Value
	default:
		s.Wrong(n, true, "%s: want a word, not %s", what, Kind(v))
		return ""
	}
	if strings.ContainsFunc(out, Unprintable) {
		s.Wrong(n, false, "%s: %.40q: it goes to terminals: want no control characters", what, out)
		return ""
	}
	return out
}

// List is the elements of a sequence; a lone element counts as one, and nothing as none.
func List(s source, n ast.Node) []ast.Node {
	switch v := s.Plain(n).(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		return v.Values
	default:
		return []ast.Node{v}
	}
}

// WantOneOf says what is wrong with a word that is none of several.
func WantOneOf(word string, words []string) string {
	return "want one of " + suggest.Among(word, words)
}

// Mapping is a YAML mapping.
type Mapping struct {
	What string   // it is, for errors
	Node ast.Node // where it begins
	Keys []*ast.MappingValueNode
}

// MappingOf reads n, which must be a mapping; else it is one without keys.
func MappingOf(s source, n ast.Node, what string) Mapping {
	m := Mapping{What: what, Node: n}
	switch v := s.Plain(n).(type) {
	case *ast.MappingNode:
		m.Keys = v.Values
	case *ast.MappingValueNode:
		m.Keys = []*ast.MappingValueNode{v}
	default:
		s.Wrong(n, true, "%s: want a mapping, not %s", what, Kind(v))
	}
	if len(m.Keys) > 0 {
		m.Node = m.Keys[0].Key // the token of a block mapping is its first colon
	}
	for _, kv := range m.Keys {
		if kv.Key.IsMergeKey() {
			s.Wrong(kv, true, "%s: merge keys (<<) are not part of the language", what)
		}
	}
	return m
}

// Name is a key as it is written.
func Name(kv *ast.MappingValueNode) string { return kv.Key.GetToken().Value }

// Get is the value of key, or nil.
func (m *Mapping) Get(key string) ast.Node {
	for _, kv := range m.Keys {
		if Name(kv) == key {
			return kv.Value
		}
	}
	return nil
}

// Has reports whether key is there.
func (m *Mapping) Has(key string) bool { return m.Get(key) != nil }

// OnlyKnown notes the keys that are none of those known.
func (m *Mapping) OnlyKnown(s source, known []string) {
	for _, kv := range m.Keys {
		if k := Name(kv); !slices.Contains(known, k) && !kv.Key.IsMergeKey() {
			s.Wrong(kv.Key, true, "%s: unknown key %q; known here: %s%s", m.What, k, strings.Join(known, ", "), suggest.For(k, known))
		}
	}
}
