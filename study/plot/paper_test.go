package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/study/plot"
)

// TestAPictureForPaperSaysAllThatItShows: its axes' units, a legend without a mouse, and a panel for each value of the facet.
func TestAPictureForPaperSaysAllThatItShows(t *testing.T) {
	for facet, want := range map[string][]string{
		"":         {"bytes_moved (KiB)", "schedule = ring", "schedule = all", ">n<", "A &lt;study&gt;"},
		"schedule": {"bytes_moved (KiB)", "schedule = ring", "schedule = all"},
	} {
		p := study()
		p.Facet = facet
		var out bytes.Buffer
		require.NoError(t, plot.WritePaper(&out, p, "svg"))
		for _, w := range want {
			require.Contains(t, out.String(), w)
		}
		d := xml.NewDecoder(&out)
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err)
			}
		}
	}
	var out bytes.Buffer
	require.NoError(t, plot.WritePaper(&out, study(), "pdf"))
	require.True(t, bytes.HasPrefix(out.Bytes(), []byte("%PDF-")))
	require.ErrorIs(t, plot.WritePaper(io.Discard, study(), "png"), mem.ErrInvalidValue)
	p := study()
	p.Facet = "scedule"
	require.ErrorContains(t, plot.WritePaper(io.Discard, p, "svg"), `did you mean "schedule"?`)
}

// TestFiguresAreComputedOfOthers: in the language of scenarios, against the first of the rows alike.
func TestFiguresAreComputedOfOthers(t *testing.T) {
	p := study()
	derive := func(name, text string) error {
		left, err := p.Derive(name, text)
		require.Empty(t, left)
		return err
	}
	require.NoError(t, derive("speedup", "bytes_moved / first_bytes_moved / 4"))
	require.Equal(t, []any{0.25, 0.25, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0}, p.Columns[len(p.Columns)-1].Values)
	require.NoError(t, derive("better", "speedup * 2"))
	require.ErrorContains(t, derive("x", "bytes_movd"), "row 1")
	require.ErrorContains(t, derive("x", "(copies - copies) / (copies - copies)"), "row 1")
	require.ErrorContains(t, derive("x", "schedule"), "no number")
}

// TestARowThatHasNoFigureIsLeftOut: and is named; it is drawn nowhere, upwards or along.
func TestARowThatHasNoFigureIsLeftOut(t *testing.T) {
	p := study()
	p.By = []string{}
	left, err := p.Derive("ratio", "copies / copies * 7")
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.ErrorContains(t, left[0], `"copies / copies * 7" in row 1`)
	require.Equal(t, []any{nil, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0}, p.Columns[len(p.Columns)-1].Values)
	var page bytes.Buffer
	require.NoError(t, plot.Write(&page, p))
	require.Contains(t, page.String(), `"name":"ratio","parameter":false,"values":[null,7,7,7,7,7,7,7]`)

	points := func(x, y, facet string) int {
		p.X, p.Y, p.Facet = x, []string{y}, facet
		var out bytes.Buffer
		require.NoError(t, plot.WritePaper(&out, p, "svg"))
		return strings.Count(out.String(), "A2.2,2.2 0 1 1") / 2 // a circle is two arcs
	}
	require.Equal(t, 8, points("n", "copies", ""))
	require.Equal(t, 7, points("n", "ratio", ""))
	require.Equal(t, 7, points("ratio", "copies", ""))
	require.Equal(t, 7, points("n", "copies", "ratio"), "and in no panel")
	p.Columns = append(p.Columns, plot.Column{Name: "none", Values: make([]any, 8)})
	p.Facet = "none"
	require.ErrorIs(t, plot.WritePaper(io.Discard, p, "svg"), mem.ErrInvalidValue)
}
