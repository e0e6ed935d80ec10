package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
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
	require.NoError(t, p.Derive("speedup", "bytes_moved / first_bytes_moved / 4"))
	require.Equal(t, []any{0.25, 0.25, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0}, p.Columns[len(p.Columns)-1].Values)
	require.NoError(t, p.Derive("better", "speedup * 2"))
	require.ErrorContains(t, p.Derive("x", "bytes_movd"), "row 1")
	require.ErrorContains(t, p.Derive("x", "copies / copies"), "row 1")
	require.ErrorContains(t, p.Derive("x", "schedule"), "no number")
}
