package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/term"

	"godwit/internal/figures"
)

// newTable is a table in a frame, numbers to the right from column firstNumber (1-based) on. The
// columns before are the rows' names.
func newTable(firstNumber int, header ...any) *figures.Table {
	for i := firstNumber - 1; i < len(header); i++ {
		header[i] = fmt.Sprint(">", header[i])
	}
	t := figures.NewTable(header...)
	t.Frame, t.Keys = true, max(firstNumber-1, 1)
	if t.Keys >= len(header) {
		t.Keys = 1
	}
	return t
}

// special is a column whose text is not its field's alone: in place of the one with its
// header, or behind all others.
type special[T any] struct {
	header string
	text   func(*T) string
}

// show prints rows as a table of their figures: the fields with a tag show, but those of
// which no row says anything. The first columns, so many as names, say what a row is about;
// a line is drawn where the first group of them changes.
func show[T any](w io.Writer, names, group int, rows []T, specials ...special[T]) {
	var all []special[T]
	for _, c := range figures.Of[T]() {
		if c.Header != "" {
			all = append(all, special[T]{c.Header, func(row *T) string { return c.Text(row) }})
		}
	}
	for _, s := range specials {
		if i := slices.IndexFunc(all, func(x special[T]) bool { return x.header == s.header }); i >= 0 {
			all[i] = s
		} else {
			all = append(all, s)
		}
	}
	texts := make([][]any, len(rows))
	var header []any
	left := names
	for i, c := range all {
		said := false
		for k := range rows {
			text := c.text(&rows[k])
			texts[k] = append(texts[k], text)
			said = said || text != ""
		}
		if said {
			header = append(header, c.header)
			continue
		}
		for k := range rows {
			texts[k] = texts[k][:len(texts[k])-1]
		}
		if i < names {
			left--
		}
	}
	t, group := newTable(left+1, header...), max(group-names+left, 0)
	for k, row := range texts {
		if k > 0 && !slices.Equal(row[:group], texts[k-1][:group]) {
			t.Line()
		}
		t.Row(row...)
	}
	t.Print(w, screenWidth())
}

// pipedWidth is how many columns tables take where they go to no terminal, and COLUMNS
// says nothing.
const pipedWidth = 160

// screenWidth is how many columns standard output has: the terminal's, or what COLUMNS
// says.
func screenWidth() int {
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			return width
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return pipedWidth
}
