// Package report writes what replays of allocation traces have shown as one
// HTML file that needs nothing else: no network, no other file. It holds, for
// each trace and strategy, a map of addresses over time with every chunk, the
// curves of live, reserved and largest free bytes, and the figures in tables.
//
// Scripts, style and data are inside the file; the chunks as compressed arrays,
// so that a hundred thousand events take about a megabyte and are drawn at once.
// The tables are plain HTML and need no script.
package report

import (
	"cmp"
	_ "embed" // the page's parts
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"

	"godwit/internal/canvas"
	"godwit/internal/figures"
	"godwit/mem"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/replay"
)

// View is one trace, replayed.
type View struct {
	Trace      *formats.Allocs
	Stream     *replay.Stream // made of Trace
	Results    []replay.Result
	Recordings []*replay.Recording // maps are drawn of these, the first one first
}

// Page is a whole report.
type Page struct {
	Title string
	Views []View
	Means []replay.Mean // over all traces, by strategy; may be empty
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"bytes": figures.Size, "number": func(v any, digits int) string { return fmt.Sprintf("%.*f", digits, v) }, // a float of any type
}).Parse(canvas.Head + pageHTML))

// Write writes p as HTML. It fails with mem.ErrInvalidValue where there is
// nothing to show, or with w's error.
func Write(w io.Writer, p Page) error {
	var data pageData
	for _, v := range p.Views {
		d, err := viewData(v)
		if err != nil {
			return err
		}
		data.Traces = append(data.Traces, d)
	}
	if len(data.Traces) == 0 {
		return fmt.Errorf("report %q without a trace: %w", p.Title, mem.ErrInvalidValue)
	}
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return page.Execute(w, struct {
		Page
		CSS  template.CSS
		JS   template.JS
		Data template.JS
	}{p, template.CSS(canvas.Style + pageCSS), template.JS(canvas.Script + pageJS), template.JS(text)}) //nolint:gosec // our own script; json.Marshal escapes <, > and &
}

// pageData is what the script reads. Arrays are little-endian, gzip, base64.
type pageData struct {
	Traces []traceData `json:"traces"`
}

type traceData struct {
	Name       string          `json:"name"`
	IsBytes    bool            `json:"bytes"` // sizes are bytes, not MiniMalloc's units
	Ops        int             `json:"ops"`
	Chunks     int             `json:"chunks"`
	PeakLive   uint64          `json:"peak"`
	PeakAt     int             `json:"peakAt"`
	Unit       uint64          `json:"unit"`  // bytes: sizes and addresses count these
	Sizes      string          `json:"sizes"` // float64, by chunk, like starts and ends
	Starts     string          `json:"starts"`
	Ends       string          `json:"ends"`
	Times      string          `json:"times,omitempty"` // float64, by operation, microseconds; "" where time stands still
	Recordings []recordingData `json:"recordings"`
}

type recordingData struct {
	Strategy string      `json:"strategy"`
	Region   uint64      `json:"region"`
	Overhead float64     `json:"overhead"`
	Holes    bool        `json:"holes"` // the largest hole is known
	Addrs    string      `json:"addrs"` // float64, by chunk; -1 for a refused one
	Series   [][4]uint64 `json:"series"`
	Worst    [4]uint64   `json:"worst"` // as Series: operation, live, reserved, largest hole
}

func viewData(v View) (traceData, error) {
	if len(v.Recordings) == 0 {
		return traceData{}, fmt.Errorf("report: trace %s without a recording: %w", v.Stream.Name, mem.ErrInvalidValue)
	}
	first := v.Recordings[0].Chunks
	d := traceData{Name: v.Stream.Name, IsBytes: v.Trace.Format != formats.FormatMiniMalloc, Ops: len(v.Stream.Ops),
		Chunks: len(first), PeakLive: v.Stream.PeakLive, PeakAt: v.Stream.PeakAt, Unit: v.Stream.Align}
	var err error
	column := func(n int, at func(i int) float64) string {
		s, perr := canvas.Floats(n, at)
		if perr != nil {
			err = perr
		}
		return s
	}
	unit := float64(d.Unit)
	d.Sizes = column(len(first), func(i int) float64 { return float64(first[i].Size) / unit })
	d.Starts = column(len(first), func(i int) float64 { return float64(first[i].Start) })
	d.Ends = column(len(first), func(i int) float64 { return float64(first[i].End) })
	events := v.Trace.Events
	if n := len(events); d.IsBytes && n == d.Ops && events[n-1].Time > events[0].Time && slices.IsSortedFunc(events, byTime) {
		d.Times = column(n, func(i int) float64 { return float64(events[i].Time - events[0].Time) })
	}
	overhead := make(map[string]float64)
	for _, r := range v.Results {
		overhead[r.Strategy] = float64(r.Overhead)
	}
	for _, rec := range v.Recordings {
		if len(rec.Chunks) != len(first) {
			return d, fmt.Errorf("report: %s has %d chunks under %s, %d under %s: %w", d.Name,
				len(first), v.Recordings[0].Strategy, len(rec.Chunks), rec.Strategy, mem.ErrInvalidValue)
		}
		r := recordingData{Strategy: rec.Strategy, Region: rec.Region, Overhead: overhead[rec.Strategy],
			Holes: rec.Strategy != replay.OfflineName && rec.Strategy != replay.RecordedName, Worst: quad(rec.Worst)}
		r.Addrs = column(len(first), func(i int) float64 {
			if rec.Chunks[i].Addr == replay.NoPlace {
				return -1
			}
			return float64(rec.Chunks[i].Addr) / unit
		})
		for _, p := range rec.Series {
			r.Series = append(r.Series, quad(p))
		}
		d.Recordings = append(d.Recordings, r)
	}
	return d, err
}

func byTime(a, b formats.AllocEvent) int { return cmp.Compare(a.Time, b.Time) }

func quad(p replay.Point) [4]uint64 {
	return [4]uint64{uint64(p.Op), p.Live, p.HighWater, p.LargestFree}
}
