package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"godwit/mem"
)

// A picture for paper: SVG or PDF, drawn by gonum/plot without a browser. It says all that it shows: units at the axes, a
// legend, and where Facet is a column a panel for each of its values, over the same axes.

// The size of a panel, and how many are beside each other.
const (
	panelWidth  = 4.2 * vg.Inch
	panelHeight = 3 * vg.Inch
	acrossMost  = 3
)

// colours are Okabe and Ito's, which people tell apart who see few colours.
var colours = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{86, 180, 233, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{0, 0, 0, 255},
}

// WritePaper writes p as "svg" or "pdf". It fails as Write does, and for other formats.
func WritePaper(w io.Writer, p Page, format string) error {
	if err := p.complete(); err != nil {
		return err
	}
	p.By = slices.DeleteFunc(slices.Clone(p.By), func(name string) bool { return name == p.Facet })
	var panels []any
	if p.Facet == "" {
		panels = []any{nil}
	} else {
		if panels = distinct(p.column(p.Facet).Values); len(panels) == 0 {
			return fmt.Errorf("plot: no row has %s: %w", p.Facet, mem.ErrInvalidValue)
		}
	}
	columns := min(len(panels), acrossMost)
	rows := (len(panels) + columns - 1) / columns
	width, height := panelWidth*vg.Length(columns), panelHeight*vg.Length(rows)
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch format {
	case "svg":
		canvas = vgsvg.New(width, height)
	case "pdf":
		canvas = vgpdf.New(width, height)
	default:
		return fmt.Errorf("plot: %q: want svg or pdf: %w", format, mem.ErrInvalidValue)
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 12, PadY: 12, PadTop: 6, PadBottom: 6, PadLeft: 6, PadRight: 14}
	all := draw.New(canvas)
	var plots []*gonum.Plot
	top := 0.0
	for _, panel := range panels {
		drawn, err := p.panel(panel)
		if err != nil {
			return err
		}
		plots, top = append(plots, drawn), max(top, drawn.Y.Max)
	}
	for i, drawn := range plots {
		drawn.Y.Max = top
		drawn.Draw(tiles.At(all, i%columns, i/columns))
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (p *Page) column(name string) *Column {
	return &p.Columns[slices.IndexFunc(p.Columns, func(c Column) bool { return c.Name == name })]
}

// panel draws the rows that have a value of the facet; nil is all.
func (p *Page) panel(facet any) (*gonum.Plot, error) {
	out := gonum.New()
	out.Title.Text = p.Title
	if facet != nil {
		out.Title.Text = fmt.Sprintf("%s = %v", p.Facet, facet)
	}
	x := p.column(p.X)
	names := distinct(x.Values)
	toX, label := unitOf(p.X, x.Values)
	out.X.Label.Text = label
	if !x.numeric() {
		out.X.Label.Text = p.X
		var words []string
		for _, v := range names {
			words = append(words, fmt.Sprint(v))
		}
		out.NominalX(words...)
	} else if len(names) <= 8 {
		var ticks []gonum.Tick
		for _, v := range names {
			n, _ := number(v)
			ticks = append(ticks, gonum.Tick{Value: n / toX, Label: fmt.Sprintf("%.4g", n/toX)})
		}
		out.X.Tick.Marker = gonum.ConstantTicks(ticks)
		if grows(ticks) {
			out.X.Scale = gonum.LogScale{}
		}
	}
	var drawn []any // of all figures: they share an axis
	for _, y := range p.Y {
		drawn = append(drawn, p.column(y).Values...)
	}
	figure := p.Y[0]
	switch {
	case len(p.Y) > 1 && strings.HasPrefix(figure, "bytes"):
		figure = "bytes"
	case len(p.Y) > 1 && strings.HasSuffix(figure, "_ns"):
		figure = "time_ns"
	}
	toY, label := unitOf(figure, drawn)
	out.Y.Label.Text = label
	out.Y.Min, out.Legend.Top, out.Legend.Left = 0, true, true // at the left a viewer's wider letters cover no line
	out.Add(plotter.NewGrid())
	for i, l := range p.lines(facet) {
		at := func(v any) float64 {
			if n, ok := number(v); ok && x.numeric() {
				return n / toX
			}
			return float64(slices.Index(names, v))
		}
		var xy plotter.XYs
		for _, r := range l.rows {
			if n, ok := number(p.column(l.y).Values[r]); ok && x.Values[r] != nil {
				xy = append(xy, plotter.XY{X: at(x.Values[r]), Y: n / toY})
			}
		}
		if len(xy) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xy)
		if err != nil {
			return nil, fmt.Errorf("plot: %s: %w", l.name, err)
		}
		line.Color, line.Width = colours[i%len(colours)], vg.Points(1.4)
		line.Dashes = [][]vg.Length{nil, {6, 3}, {2, 2}}[i/len(colours)%3]
		points.Color, points.Radius = line.Color, vg.Points(2.2)
		points.Shape = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}}[i%4]
		out.Add(line, points)
		if l.name != "" {
			out.Legend.Add(l.name, line, points)
		}
	}
	out.Y.Max *= 1 + 0.09*float64(len(p.lines(facet))) // room for the legend
	return out, nil
}

// grows reports whether values grow by factors: then they are best seen by powers.
func grows(ticks []gonum.Tick) bool {
	slices.SortFunc(ticks, func(a, b gonum.Tick) int { return cmp.Compare(a.Value, b.Value) })
	n := len(ticks)
	return n > 2 && ticks[0].Value > 0 && ticks[n-1].Value/ticks[0].Value >= 8 && ticks[2].Value-ticks[1].Value > 1.2*(ticks[1].Value-ticks[0].Value)
}

// line is a figure over x, of the rows that are alike in what By names.
type line struct {
	name string
	y    string
	rows []int
}

func (p *Page) lines(facet any) (out []line) {
	for _, y := range p.Y {
		for r := range p.column(y).Values {
			if facet != nil && p.column(p.Facet).Values[r] != facet {
				continue
			}
			var words []string
			if len(p.Y) > 1 {
				words = append(words, y)
			}
			for _, by := range p.By {
				words = append(words, fmt.Sprintf("%s = %v", by, p.column(by).Values[r]))
			}
			name := strings.Join(words, ", ")
			if i := slices.IndexFunc(out, func(l line) bool { return l.name == name }); i >= 0 {
				out[i].rows = append(out[i].rows, r)
			} else {
				out = append(out, line{name, y, []int{r}})
			}
		}
	}
	return out
}

// unitOf is what values of a column are divided by, and the axis's label: bytes and nanoseconds in a unit that suits the
// largest.
func unitOf(name string, values []any) (by float64, label string) {
	most := 0.0
	for _, v := range values {
		n, _ := number(v)
		most = max(most, math.Abs(n))
	}
	var units []string
	var step float64
	base, nanoseconds := strings.CutSuffix(name, "_ns")
	switch {
	case nanoseconds:
		units, step = []string{"ns", "us", "ms", "s"}, 1000
	case strings.HasPrefix(name, "bytes"), strings.Contains(name, "size"):
		units, step = []string{"B", "KiB", "MiB", "GiB", "TiB"}, 1024
	default:
		return 1, name
	}
	by = 1
	for len(units) > 1 && most/by >= 2*step {
		units, by = units[1:], by*step
	}
	return by, fmt.Sprintf("%s (%s)", base, units[0])
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// distinct are the values in the order in which they come, without those that are none.
func distinct(values []any) (out []any) {
	for _, v := range values {
		if v != nil && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
