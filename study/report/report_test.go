package report_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/internal/canvas/canvastest"
	"godwit/mem"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/replay"
	"godwit/study/report"
)

// viewOf replays a trace for a report, through strategies and offline.
func viewOf(t *testing.T, tr *formats.Allocs, align uint64, strategies ...bufalloc.Strategy) report.View {
	t.Helper()
	st, err := replay.FromTrace(tr, align)
	require.NoError(t, err)
	v := report.View{Trace: tr, Stream: st}
	v.Results, err = replay.Measure(t.Context(), []*replay.Stream{st}, replay.Strategies(strategies...), replay.Options{Region: 2 * st.PeakLive, Repeats: 1})
	require.NoError(t, err)
	for i, s := range strategies {
		rec, err := replay.Record(t.Context(), st, replay.Of(s), v.Results[i].Region)
		require.NoError(t, err)
		require.Len(t, rec.Chunks, tr.Chunks)
		v.Recordings = append(v.Recordings, rec)
	}
	return v
}

func openTrace(t *testing.T, name string) *formats.Allocs {
	t.Helper()
	all, err := formats.OpenAllocs(t.Context(), filepath.Join("..", "..", "testdata", "traces", name))
	require.NoError(t, err)
	return all[0]
}

func miniView(t *testing.T) report.View {
	v := viewOf(t, openTrace(t, "minimalloc/A.1048576.csv"), 1, bufalloc.Fit, bufalloc.BestFit)
	res, rec, err := replay.Offline(t.Context(), v.Trace, v.Stream, 200*time.Millisecond)
	require.NoError(t, err)
	v.Results, v.Recordings = append(v.Results, res), append(v.Recordings, rec)
	return v
}

func TestThePageStandsAlone(t *testing.T) {
	v := miniView(t)
	var out bytes.Buffer
	require.NoError(t, report.Write(&out, report.Page{Title: `A <b>"title"</b>`, Views: []report.View{v}, Means: replay.Means(v.Results)}))
	html := out.String()
	assert.Contains(t, html, "A &lt;b&gt;&#34;title&#34;&lt;/b&gt;")
	assert.NotRegexp(t, `(?i)https?://|<link[^>]+stylesheet|src=|@import|fetch\(|XMLHttpRequest|import\(`, html, "no network, no other file")
	for _, want := range []string{"<td>fit</td>", "<td>bestfit</td>", "<td>offline</td>", "Geometric means"} {
		assert.Contains(t, html, want)
	}
	assert.Less(t, len(html), 100_000)
}

func TestARecordingIsAPlacementWithoutOverlap(t *testing.T) {
	v := miniView(t)
	for _, rec := range v.Recordings {
		for i, a := range rec.Chunks {
			require.LessOrEqual(t, a.Addr+a.Size, rec.Region)
			for _, b := range rec.Chunks[:i] {
				apart := a.End <= b.Start || b.End <= a.Start || a.Addr+a.Size <= b.Addr || b.Addr+b.Size <= a.Addr
				require.True(t, apart, "%s: %v and %v", rec.Strategy, a, b)
			}
		}
		require.Equal(t, v.Stream.PeakLive, maxLive(rec.Series))
		for _, p := range rec.Series {
			if rec.Strategy != replay.OfflineName {
				require.GreaterOrEqual(t, p.LargestFree, rec.Worst.LargestFree)
			}
		}
	}
}

func maxLive(series []replay.Point) (most uint64) {
	for _, p := range series {
		most = max(most, p.Live)
	}
	return most
}

func TestNothingToShowIsAnError(t *testing.T) {
	require.ErrorIs(t, report.Write(io.Discard, report.Page{}), mem.ErrInvalidValue)
	v := miniView(t)
	v.Recordings[1] = &replay.Recording{Strategy: "short"}
	require.ErrorIs(t, report.Write(io.Discard, report.Page{Views: []report.View{v}}), mem.ErrInvalidValue)
	v.Recordings = nil
	require.ErrorIs(t, report.Write(io.Discard, report.Page{Views: []report.View{v}}), mem.ErrInvalidValue)
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestTheWritersErrorIsReported(t *testing.T) {
	require.ErrorIs(t, report.Write(failingWriter{}, report.Page{Views: []report.View{miniView(t)}}), io.ErrClosedPipe)
}

func savePage(t *testing.T, views ...report.View) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, report.Write(f, report.Page{Title: "test", Views: views}))
	require.NoError(t, f.Close())
	return file
}

func TestABrowserDrawsEveryChunk(t *testing.T) {
	b := canvastest.Open(t, 1300, 1200)
	v := miniView(t)
	file := savePage(t, v)
	attr := b.Load(t, file, "#strategy=1&beside=2&colour=life")
	assert.Equal(t, "true", attr["ready"], "%v", attr)
	assert.Empty(t, attr["error"])
	assert.Empty(t, b.Said(), "nothing on the console")
	assert.Equal(t, strconv.Itoa(2*v.Trace.Chunks), attr["painted"], "two maps")
}

// W1 with 2,000 live chunks: 100,000 events.
func TestAHundredThousandEventsAreDrawnAtOnce(t *testing.T) {
	b := canvastest.Open(t, 1300, 1200)
	st, err := replay.W1(2000, 49_000, 0, 1)
	require.NoError(t, err)
	require.Len(t, st.Ops, 100_000)
	v := viewOf(t, st.Trace(), st.Align, bufalloc.Fit)
	file := savePage(t, v)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(2<<20), "bytes of a page of 100,000 events")
	attr := b.Load(t, file, "#axis=time")
	assert.Equal(t, "51000", attr["painted"], "%v", attr)
	assert.Empty(t, attr["error"])
	assert.Empty(t, b.Said())
}

func TestAPageThatCannotBeDrawnSaysSo(t *testing.T) {
	b := canvastest.Open(t, 1300, 1200)
	file := savePage(t, miniView(t))
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	broken := regexp.MustCompile(`"sizes":"[^"]*"`).ReplaceAll(html, []byte(`"sizes":"AAAA"`))
	require.NotEqual(t, html, broken)
	require.NoError(t, os.WriteFile(file, broken, 0o600))
	attr := b.Load(t, file, "")
	assert.NotEmpty(t, attr["error"], "the test above can fail")
	assert.NotEqual(t, "true", attr["ready"])
}
