package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	goyaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxBytes and maxDepth bound a document: how long it may be, and how deep
// mappings and lists may stand within each other.
const (
	MaxBytes = 512 << 10 // the parser takes up to 400 times as much memory
	maxDepth = 64
)

// Parse returns the body of the one document in data, the content of the named file. It fails
// with an *Error where there is none (what says what is in one that is not empty), where data
// is no YAML, or beyond the bounds.
func Parse(file string, data []byte, what string) (ast.Node, error) {
	wrong := func(line int, format string, args ...any) error {
		return &Error{file, line, fmt.Sprintf(format, args...)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark is no part of the text
	if len(data) > MaxBytes {
		return nil, wrong(0, "%d bytes: want at most %d", len(data), MaxBytes)
	}
	if at := invalid(data); at >= 0 {
		return nil, wrong(1+bytes.Count(data[:at], []byte("\n")), "not YAML: not UTF-8 text")
	}
	f, line, rule := parse(string(data))
	if rule != "" {
		return nil, wrong(line, "%s", rule)
	}
	var body ast.Node
	for _, d := range f.Docs {
		switch {
		case d.Body == nil:
		case body != nil:
			return nil, wrong(Line(d.Body), "a second document: want one")
		default:
			body = d.Body
		}
	}
	if body == nil {
		return nil, wrong(0, "empty: %s", what)
	}
	return body, nil
}

// invalid is where data stops being text, or -1.
func invalid(data []byte) int {
	for at := 0; at < len(data); {
		r, n := utf8.DecodeRune(data[at:])
		if (r == utf8.RuneError && n == 1) || r == 0 {
			return at
		}
		at += n
	}
	return -1
}

// parse is the parser's, with a panic as an error, and errors without the piece of the file
// that they would show.
func parse(text string) (f *ast.File, line int, rule string) {
	defer func() {
		if p := recover(); p != nil {
			rule = "not YAML: the parser gave up"
		}
	}()
	tokens := lexer.Tokenize(text)
	if line := tooDeep(tokens); line > 0 {
		return nil, line, fmt.Sprintf("nested more than %d deep", maxDepth)
	}
	f, err := parser.Parse(tokens, 0)
	var bad goyaml.Error
	switch {
	case errors.As(err, &bad):
		if t := bad.GetToken(); t != nil && t.Position != nil {
			line = t.Position.Line
		}
		return nil, line, "not YAML: " + bad.GetMessage()
	case err != nil:
		return nil, 0, "not YAML: " + err.Error()
	}
	return f, 0, ""
}

// tooDeep returns the line in which the nesting passes maxDepth, or 0. Brackets
// nest by themselves. Outside of them an entry of a list or a mapping is within
// those of smaller columns that no entry since has ended. A tag or an anchor has
// what follows it within, which may be another one.
func tooDeep(tokens token.Tokens) int {
	flow, marks := 0, 0
	var block []int // columns, ascending
	enter := func(column int) {
		for len(block) > 0 && block[len(block)-1] >= column {
			block = block[:len(block)-1]
		}
		block = append(block, column)
	}
	for i, t := range tokens {
		switch {
		case t.Type == token.TagType || t.Type == token.AnchorType:
			marks++
		case i == 0 || tokens[i-1].Type != token.AnchorType: // else the anchor's name
			marks = 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.SequenceEntryType, token.MappingKeyType:
			if flow == 0 {
				enter(t.Position.Column)
			}
		case token.MappingValueType:
			if flow == 0 && i > 0 {
				enter(tokens[i-1].Position.Column)
			}
		}
		if flow+len(block)+marks > maxDepth {
			return t.Position.Line
		}
	}
	return 0
}
