package figures

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is texts in columns, for a screen of some width. Where the columns of one with Keys do
// not fit beside each other it is shown in several parts; then the widest columns wrap. One with
// a frame that has no rows prints nothing.
type Table struct {
	Keys  int         // the first columns, which say what a row is about: they begin each part
	Frame bool        // lines around it and between columns, else one below the header
	Most  map[int]int // columns that wrap whatever the width, at so many characters; 0 does not

	header []string
	right  []bool
	rows   [][]string
	breaks map[int]bool // a line before this row
}

// NewTable is a table without rows. Columns whose headers begin with > are to the right.
func NewTable(header ...any) *Table {
	t := &Table{header: texts(header), right: make([]bool, len(header)), breaks: make(map[int]bool)}
	for i, h := range t.header {
		t.header[i], t.right[i] = strings.CutPrefix(h, ">")
	}
	return t
}

func texts(cells []any) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = fmt.Sprint(c)
	}
	return out
}

// Row adds a row; cells that are missing at its end are empty.
func (t *Table) Row(cells ...any) {
	t.rows = append(t.rows, append(texts(cells), make([]string, len(t.header)-len(cells))...))
}

// Line draws a line between the row before and the next one.
func (t *Table) Line() { t.breaks[len(t.rows)] = true }

// Sizes are the columns' widths where nothing wraps, in characters.
func (t *Table) Sizes() []int {
	out := make([]int, len(t.header))
	for i, h := range t.header {
		out[i] = text.LongestLineLen(h)
		for _, row := range t.rows {
			out[i] = max(out[i], text.LongestLineLen(row[i]))
		}
	}
	return out
}

// Gap is how many characters stand between two columns of a table without a frame, and
// LeastColumn how narrow a column may become.
const (
	Gap         = 2
	LeastColumn = 6
)

// total is how wide columns are with what stands around and between them.
func (t *Table) total(cols, sizes []int) (n int) {
	between := Gap
	if t.Frame {
		n, between = 1, 3
	}
	for _, c := range cols {
		n += sizes[c] + between
	}
	return n
}

// Print prints the table; a width of 0 is without end, and wraps nothing.
func (t *Table) Print(w io.Writer, width int) {
	if t.Frame && len(t.rows) == 0 {
		return
	}
	sizes := t.Sizes()
	for c, most := range t.Most {
		if most > 0 {
			sizes[c] = min(sizes[c], most)
		}
	}
	for _, cols := range t.parts(sizes, width) {
		t.part(w, cols, sizes, width)
	}
}

// parts are the columns of each part.
func (t *Table) parts(sizes []int, width int) (parts [][]int) {
	var all []int
	for c := range t.header {
		all = append(all, c)
	}
	keys := all[:t.Keys:t.Keys]
	now := keys
	for _, c := range all[t.Keys:] {
		if t.Keys > 0 && len(now) > t.Keys && t.total(append(now, c), sizes) > width {
			parts = append(parts, now)
			now = keys
		}
		now = append(now, c)
	}
	return append(parts, now)
}

// part prints some columns.
func (t *Table) part(w io.Writer, cols, sizes []int, width int) {
	out := table.NewWriter()
	out.SetOutputMirror(w)
	style := table.StyleLight
	if !t.Frame {
		style.Options = table.OptionsNoBordersAndSeparators
		style.Options.SeparateHeader = true
		style.Box.PaddingLeft, style.Box.PaddingRight = "", strings.Repeat(" ", Gap)
	}
	style.Format.Header = text.FormatDefault
	out.SetStyle(style)
	out.SuppressTrailingSpaces()
	widths := t.narrow(cols, sizes, width)
	configs := make([]table.ColumnConfig, len(cols))
	for i, c := range cols {
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignLeft, AlignHeader: text.AlignLeft}
		if t.right[c] {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
		if width > 0 {
			configs[i].WidthMax, configs[i].WidthMaxEnforcer = widths[c], text.WrapSoft
		}
	}
	out.SetColumnConfigs(configs)
	pick := func(row []string) (cells table.Row) {
		for _, c := range cols {
			cells = append(cells, row[c])
		}
		return cells
	}
	out.AppendHeader(pick(t.header))
	for i, row := range t.rows {
		if t.breaks[i] {
			out.AppendSeparator()
		}
		out.AppendRow(pick(row))
	}
	out.Render()
}

// narrow takes from the widest columns, character by character, what is too much for a width.
func (t *Table) narrow(cols, sizes []int, width int) []int {
	sizes = append([]int(nil), sizes...)
	for width > 0 && t.total(cols, sizes) > width {
		widest := cols[0]
		for _, c := range cols {
			if sizes[c] > sizes[widest] {
				widest = c
			}
		}
		if sizes[widest] <= LeastColumn {
			break
		}
		sizes[widest]--
	}
	return sizes
}
