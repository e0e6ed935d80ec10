// Package plot writes a table of figures as one HTML file in which any column is drawn
// over any other, with a line for each combination of what else was varied. The file
// needs nothing else: no network, no other file. Lines are drawn by uPlot (uplot/, as
// it is published, with its licence).
package plot

import (
	_ "embed" // the page's parts
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"godwit/internal/suggest"
	"godwit/mem"
)

// Column is a column of a table. Values are numbers, strings, or nil where a row has
// none; where one is a string, they are shown as names in the order in which they come.
type Column struct {
	Name      string `json:"name"`
	Parameter bool   `json:"parameter"` // it was varied; the others are figures
	Values    []any  `json:"values"`
}

// Page is a table and how it is drawn at first. All three may be empty: then X is the
// first parameter that has several values, Y the first figure, and By all other
// parameters that have several.
type Page struct {
	Title   string
	Columns []Column // of as many values each
	X       string
	Y       []string
	By      []string
	Facet   string // in WritePaper, a panel for each value of this column; "" is one panel
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

//go:embed uplot/LICENSE
var uplotLicence string

//go:embed uplot/uPlot.iife.min.js
var uplotJS string

//go:embed uplot/uPlot.min.css
var uplotCSS string

var page = template.Must(template.New("plot").Funcs(template.FuncMap{"shown": shown}).Parse(pageHTML))

// Write writes p as HTML. It fails with mem.ErrInvalidValue where there is nothing to
// draw or a column is not there, and with w's errors.
func Write(w io.Writer, p Page) error {
	if err := p.complete(); err != nil {
		return err
	}
	data, err := json.Marshal(map[string]any{"columns": p.Columns, "x": p.X, "y": p.Y, "by": p.By})
	if err != nil {
		return err
	}
	return page.Execute(w, struct {
		Page
		CSS      template.CSS
		JS, Data template.JS
		Rows     []int
	}{p, template.CSS(uplotCSS + pageCSS), template.JS("/* uPlot:\n" + uplotLicence + "*/\n" + uplotJS + "\n" + pageJS), template.JS(data), make([]int, min(len(p.Columns[0].Values), shownRows))}) //nolint:gosec // our own script and uPlot; json.Marshal escapes <, > and &
}

// shownRows is how many rows the page's table has, at most.
const shownRows = 1000

func shown(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// complete checks the table, and chooses what to draw where nothing was chosen.
func (p *Page) complete() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("plot: %s: %w", fmt.Sprintf(format, args...), mem.ErrInvalidValue)
	}
	if len(p.Columns) == 0 || len(p.Columns[0].Values) == 0 {
		return wrong("nothing to draw")
	}
	var names []string
	for _, c := range p.Columns {
		if len(c.Values) != len(p.Columns[0].Values) {
			return wrong("column %s has %d values, %s has %d", c.Name, len(c.Values), p.Columns[0].Name, len(p.Columns[0].Values))
		}
		names = append(names, c.Name)
	}
	for _, name := range append(append(p.Y[:len(p.Y):len(p.Y)], p.By...), p.X, p.Facet) {
		if name != "" && !slices.Contains(names, name) {
			return wrong("no column is named %q%s; there are %s", name, suggest.For(name, names), strings.Join(names, ", "))
		}
	}
	for _, name := range p.Y {
		if c := p.Columns[slices.Index(names, name)]; !c.numeric() {
			return wrong("%s is no number, and cannot be drawn upwards", name)
		}
	}
	for _, c := range p.Columns {
		switch {
		case p.X == "" && c.Parameter && c.varied():
			p.X = c.Name
		case len(p.Y) == 0 && !c.Parameter && c.numeric() && c.varied():
			p.Y = []string{c.Name}
		}
	}
	if p.X == "" {
		p.X = p.Columns[0].Name
	}
	if len(p.Y) == 0 {
		for _, c := range p.Columns {
			if c.numeric() && c.Name != p.X {
				p.Y = []string{c.Name}
				break
			}
		}
	}
	if len(p.Y) == 0 {
		return wrong("no column but %s has numbers", p.X)
	}
	if p.By == nil {
		p.By = []string{}
		for _, c := range p.Columns {
			if c.Parameter && c.Name != p.X && c.varied() {
				p.By = append(p.By, c.Name)
			}
		}
	}
	return nil
}

// numeric reports whether a column can be drawn upwards.
func (c *Column) numeric() bool {
	some := false
	for _, v := range c.Values {
		switch v.(type) {
		case nil:
		case int, int64, uint64, float64:
			some = true
		default:
			return false
		}
	}
	return some
}

// varied reports whether a column has several values.
func (c *Column) varied() bool {
	return slices.ContainsFunc(c.Values, func(v any) bool { return v != c.Values[0] })
}
