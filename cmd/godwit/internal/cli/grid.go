package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"godwit/internal/figures"
)

// grid is a table that follows the terminal. Where its columns do not fit beside each
// other they are shown in several parts, of which each begins with the columns that say
// what a row is about; text that still does not fit is wrapped. A grid without rows
// prints nothing.
type grid struct {
	w       io.Writer
	keys    int // the first columns say what a row is about; in each part
	numbers int // columns from here on are to the right
	header  []string
	rows    [][]string
	breaks  map[int]bool // a line before this row
}

// newTable makes a table in the house style: light lines, numbers to the right from
// column firstNumber (1-based) on. The columns before are the rows' names.
func newTable(w io.Writer, firstNumber int, header ...any) *grid {
	g := &grid{w: w, keys: max(firstNumber-1, 1), numbers: firstNumber - 1, header: words(header), breaks: make(map[int]bool)}
	if g.keys >= len(header) {
		g.keys = 1
	}
	return g
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
	t := newTable(w, left+1, header...)
	for k, row := range texts {
		if k > 0 && !slices.Equal(row[:group-names+left], texts[k-1][:group-names+left]) {
			t.appendSeparator()
		}
		t.appendRow(row)
	}
	t.render()
}

func words(cells []any) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = fmt.Sprint(c)
	}
	return out
}

// appendRow adds a row; cells that are missing at its end are empty.
func (g *grid) appendRow(cells []any) {
	row := words(cells)
	g.rows = append(g.rows, append(row, make([]string, len(g.header)-len(row))...))
}

// appendSeparator draws a line between the row before and the next one.
func (g *grid) appendSeparator() { g.breaks[len(g.rows)] = true }

// render prints the table.
func (g *grid) render() {
	if len(g.rows) == 0 {
		return
	}
	width := screenWidth()
	sizes := g.sizes()
	for _, cols := range g.parts(sizes, width) {
		g.part(cols, sizes, width)
	}
}

// sizes are the columns' widths, in characters.
func (g *grid) sizes() []int {
	out := make([]int, len(g.header))
	for i, h := range g.header {
		out[i] = text.LongestLineLen(h)
		for _, row := range g.rows {
			out[i] = max(out[i], text.LongestLineLen(row[i]))
		}
	}
	return out
}

// total is the width of a table of columns: a space on either side, lines between.
func total(cols, sizes []int) int {
	n := 1
	for _, c := range cols {
		n += sizes[c] + 3
	}
	return n
}

// parts are the columns of each part.
func (g *grid) parts(sizes []int, width int) (parts [][]int) {
	var keys []int
	for c := range g.keys {
		keys = append(keys, c)
	}
	now := append([]int(nil), keys...)
	for c := g.keys; c < len(g.header); c++ {
		if len(now) > len(keys) && total(append(now, c), sizes) > width {
			parts = append(parts, now)
			now = append([]int(nil), keys...)
		}
		now = append(now, c)
	}
	return append(parts, now)
}

// part prints some columns.
func (g *grid) part(cols, sizes []int, width int) {
	t := table.NewWriter()
	t.SetOutputMirror(g.w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.SuppressTrailingSpaces()
	widths := make(map[int]int)
	for _, c := range cols {
		widths[c] = sizes[c]
	}
	narrow(cols, widths, width)
	var configs []table.ColumnConfig
	for i, c := range cols {
		cfg := table.ColumnConfig{Number: i + 1, WidthMax: widths[c], WidthMaxEnforcer: text.WrapSoft}
		if c >= g.numbers {
			cfg.Align, cfg.AlignHeader = text.AlignRight, text.AlignRight
		}
		configs = append(configs, cfg)
	}
	t.SetColumnConfigs(configs)
	pick := func(row []string) (out table.Row) {
		for _, c := range cols {
			out = append(out, row[c])
		}
		return out
	}
	t.AppendHeader(pick(g.header))
	for i, row := range g.rows {
		if g.breaks[i] {
			t.AppendSeparator()
		}
		t.AppendRow(pick(row))
	}
	t.Render()
}

// leastColumn is how narrow a column may become.
const leastColumn = 6

// narrow takes from the widest columns, character by character, what the table has too
// much.
func narrow(cols []int, widths map[int]int, width int) {
	for {
		n, widest := 1, cols[0]
		for _, c := range cols {
			n += widths[c] + 3
			if widths[c] > widths[widest] {
				widest = c
			}
		}
		if n <= width || widths[widest] <= leastColumn {
			return
		}
		widths[widest]--
	}
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
