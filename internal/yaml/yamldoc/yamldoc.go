// Package yamldoc parses one YAML document that somebody else wrote. The parser
// costs memory that is quadratic in the depth of what it reads, and some broken
// input makes it panic; so the depth is bounded before the parser sees anything,
// and a panic is an error. Errors name the line and never quote the file: it may
// not be the reader's to show.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxBytes and MaxDepth bound a document: how long it may be, and how deep
// mappings and lists may stand within each other.
const (
	MaxBytes = 512 << 10 // the parser takes up to 400 times as much memory
	MaxDepth = 64
)

// Error says what is wrong with a document, and in which line; 0 is none.
type Error struct {
	Line int
	Text string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Text)
}

// ErrEmpty is a file without a document.
var ErrEmpty = errors.New("no YAML document")

// Parse returns the body of the one document in data. It fails with ErrEmpty
// where there is none, and with an *Error where data is no YAML, or beyond the
// bounds.
func Parse(data []byte) (ast.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark is no part of the text
	if len(data) > MaxBytes {
		return nil, &Error{0, fmt.Sprintf("%d bytes: want at most %d", len(data), MaxBytes)}
	}
	if at := invalid(data); at >= 0 {
		return nil, &Error{1 + bytes.Count(data[:at], []byte("\n")), "not YAML: not UTF-8 text"}
	}
	f, err := parse(string(data))
	if err != nil {
		return nil, err
	}
	var body ast.Node
	for _, d := range f.Docs {
		switch {
		case d.Body == nil:
		case body != nil:
			return nil, &Error{d.Body.GetToken().Position.Line, "a second document: want one"}
		default:
			body = d.Body
		}
	}
	if body == nil {
		return nil, ErrEmpty
	}
	return body, nil
}

// ParseWithoutAliases is Parse for languages without aliases: where one is a copy, copies of
// copies have no bound.
func ParseWithoutAliases(data []byte) (ast.Node, error) {
	body, err := Parse(data)
	if err != nil {
		return nil, err
	}
	for _, kind := range []ast.NodeType{ast.AnchorType, ast.AliasType} {
		if found := ast.Filter(kind, body); len(found) > 0 {
			return nil, &Error{found[0].GetToken().Position.Line, "an anchor or an alias: write it out"}
		}
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

// parse is the parser's, with a panic as an error.
func parse(text string) (f *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Error{0, "not YAML: the parser gave up"}
		}
	}()
	tokens := lexer.Tokenize(text)
	if line := tooDeep(tokens); line > 0 {
		return nil, &Error{line, fmt.Sprintf("nested more than %d deep", MaxDepth)}
	}
	f, err = parser.Parse(tokens, 0)
	return f, Plain(err)
}

// Plain is an error of the YAML library without the piece of the file that it
// would show; other errors are left as they are.
func Plain(err error) error {
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return err
	}
	out := &Error{0, "not YAML: " + ye.GetMessage()}
	if t := ye.GetToken(); t != nil && t.Position != nil {
		out.Line = t.Position.Line
	}
	return out
}

// tooDeep returns the line in which the nesting passes MaxDepth, or 0. Brackets
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
		if flow+len(block)+marks > MaxDepth {
			return t.Position.Line
		}
	}
	return 0
}
