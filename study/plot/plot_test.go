package plot_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"godwit/internal/canvas/canvastest"
	"godwit/mem"
	"godwit/study/plot"
)

// study is a table with two parameters and two figures.
func study() plot.Page {
	p := plot.Page{Title: "A <study>", Columns: []plot.Column{{Name: "n", Parameter: true}, {Name: "schedule", Parameter: true}, {Name: "bytes_moved"}, {Name: "copies"}, {Name: "error"}}}
	add := func(row ...any) {
		for i, v := range row {
			p.Columns[i].Values = append(p.Columns[i].Values, v)
		}
	}
	for i, n := range []float64{2, 4, 8, 16} {
		add(n, "ring", 1024*n, i, "")
		add(n, "all", 3072*n, 10+i, "")
	}
	return p
}

func TestWhatIsNotGivenIsChosen(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, plot.Write(&out, study()))
	require.Contains(t, out.String(), `"x":"n","y":["bytes_moved"]`)
	require.Contains(t, out.String(), `"by":["schedule"]`)
	require.Contains(t, out.String(), "A &lt;study&gt;")
	require.NotRegexp(t, `(?i)<link|src=|@import|fetch\(|XMLHttpRequest|import\(`, out.String(), "no network, no other file")
	require.Contains(t, out.String(), "Copyright (c) 2022 Leon Sorokin", "uPlot's licence asks for it")
	require.Less(t, out.Len(), 100_000)
	require.Equal(t, 8, strings.Count(out.String(), "<td>ring</td>")+strings.Count(out.String(), "<td>all</td>"), "the table needs no script")
}

func TestWhatCannotBeDrawnIsAnError(t *testing.T) {
	for want, change := range map[string]func(*plot.Page){
		"nothing to draw":                  func(p *plot.Page) { p.Columns = nil },
		"column copies has 0 values":       func(p *plot.Page) { p.Columns[3].Values = nil },
		`no column is named "copeis"; did`: func(p *plot.Page) { p.Y = []string{"copeis"} },
		`no column is named "m"`:           func(p *plot.Page) { p.X = "m" },
		"error is no number":               func(p *plot.Page) { p.Y = []string{"error"} },
		"no column but n has numbers":      func(p *plot.Page) { p.Columns = p.Columns[:2] },
	} {
		p := study()
		change(&p)
		err := plot.Write(io.Discard, p)
		require.ErrorIs(t, err, mem.ErrInvalidValue, want)
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, plot.Write(shut{}, study()), io.ErrClosedPipe)
}

type shut struct{}

func (shut) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// browse opens a page in a headless browser, waits until it is drawn, and runs actions.
func browse(t *testing.T, p plot.Page, hash string, actions ...chromedp.Action) (console string) {
	t.Helper()
	b := canvastest.Open(t, 1300, 1000)
	file := filepath.Join(t.TempDir(), "plot.html")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, plot.Write(f, p))
	require.NoError(t, f.Close())
	b.Load(t, file, hash)
	b.Run(t, actions...)
	return strings.Join(b.Said(), "\n")
}

// pointAt moves the mouse over the plot to where x is i-th, waits until the legend begins
// with first, and reads it, as a person does: a name and a value a line.
func pointAt(i int, first string, legend *string) chromedp.Action {
	return chromedp.Tasks{
		chromedp.Evaluate(`(() => {
			const u = window.shown, box = u.over.getBoundingClientRect(), x = u.valToPos(u.data[0][`+string(rune('0'+i))+`], "x");
			u.over.dispatchEvent(new MouseEvent("mousemove", {bubbles: true, clientX: box.left + x, clientY: box.top + box.height / 2}));
		})()`, nil),
		chromedp.Poll(`(() => {
			const rows = [...document.querySelectorAll(".u-legend .u-series")].map((r) => r.querySelector(".u-label").textContent + " " + r.querySelector(".u-value").textContent);
			return rows[0] === "`+first+`" && rows.every((r) => !r.endsWith("--")) && rows.join("\n");
		})()`, legend, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(20*time.Millisecond)),
	}
}

// TestABrowserShowsTheValues: read off the plot, under the mouse.
func TestABrowserShowsTheValues(t *testing.T) {
	var first, last, both, pixels string
	console := browse(t, study(), "",
		pointAt(0, "n 2", &first), pointAt(3, "n 16", &last),
		// The colour of the first line is on the canvas.
		chromedp.Evaluate(`(() => {
			const c = document.querySelector("#plot canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
			let n = 0;
			for (let i = 0; i < d.length; i += 4) if (d[i] === 0x1f && d[i + 1] === 0x77 && d[i + 2] === 0xb4) n++;
			return n > 200 ? "drawn" : "only " + n;
		})()`, &pixels),
		// Another figure, chosen by a click.
		chromedp.Click(`#y input[value="copies"]`), pointAt(2, "n 8", &both))
	require.Empty(t, console)
	require.Equal(t, "n 2\nschedule=ring 2 KiB\nschedule=all 6 KiB", first)
	require.Equal(t, "n 16\nschedule=ring 16 KiB\nschedule=all 48 KiB", last)
	require.Equal(t, "drawn", pixels)
	require.Equal(t, "n 8\nbytes_moved, schedule=ring 8 KiB\nbytes_moved, schedule=all 24 KiB\ncopies, schedule=ring 2\ncopies, schedule=all 12", both)
}

// TestAnyColumnIsDrawnOverAnyOther: names, too, and what is chosen is in the address.
func TestAnyColumnIsDrawnOverAnyOther(t *testing.T) {
	var over, mean, note string
	console := browse(t, study(), "#x=schedule&y=copies&by=n", pointAt(1, "schedule all", &over),
		chromedp.Click(`#by input[value="n"]`), pointAt(0, "schedule ring", &mean), chromedp.Text("#note", &note))
	require.Empty(t, console)
	require.Equal(t, "schedule all\nn=2 10\nn=4 11\nn=8 12\nn=16 13", over)
	require.Equal(t, "schedule ring\ncopies 1.5", mean)
	require.Contains(t, note, "their mean is drawn")
}
