package page_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/internal/canvas/canvastest"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/page"
)

func (x *random) inTime() []int {
	out := make([]int, len(x.told))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return int(x.told[a].at - x.told[b].at) })
	return out
}

// Who holds which byte when is what a look at all that was told says, byte by byte.
func TestHoldersAreThoseOfEachByte(t *testing.T) {
	for seed := range uint64(60) {
		x := draw(seed, 40)
		run := x.b.Run()
		for range 200 {
			b, at := x.IntN(len(x.sizes)), run.Begin+x.Int64N(run.End-run.Begin)
			off := x.Uint64N(x.sizes[b])
			want, writer, ok := x.holders(b, off, at)
			got := heldAt(run, b, off, at)
			require.Equal(t, ok, got != nil, "seed %d: byte %d of %d at %d", seed, off, b, at)
			if ok {
				require.Equal(t, want, run.Sets[got.Set], "seed %d: byte %d of %d at %d", seed, off, b, at)
				require.Equal(t, writer, writerOf(run, got), "seed %d: byte %d of %d at %d", seed, off, b, at)
			}
		}
	}
}

func heldAt(run *page.Run, buffer int, off uint64, at int64) *page.Held {
	for i := range run.Held {
		if h := &run.Held[i]; int(h.Buffer) == buffer && h.From <= at && at < h.To && h.Range.Contains(mem.Range{Start: off, End: off + 1}) {
			return h
		}
	}
	return nil
}

func writerOf(run *page.Run, h *page.Held) int {
	if h.Writer < 0 {
		return 0
	}
	return run.Events[h.Writer].Number
}

// What a memory holds goes up with blocks, and down where they leave, or others take their place.
func TestLevelsAreWhatBlocksAddUpTo(t *testing.T) {
	for seed := range uint64(20) {
		x := draw(seed, 60)
		run := x.b.Run()
		for i := range run.Lanes {
			l := &run.Lanes[i]
			if l.Group != page.Memories {
				continue
			}
			for _, b := range x.blocks {
				k, ok := slices.BinarySearchFunc(l.Levels, b.at, func(v page.Level, at int64) int { return cmp.Compare(v.At, at) })
				if !ok {
					k--
				}
				have := uint64(0)
				if k >= 0 {
					have = l.Levels[k].Bytes
				}
				require.Equal(t, x.held(mem.MemoryID(l.Memory), b.at), have, "seed %d: %s at %d", seed, l.Name, b.at)
			}
		}
	}
}

// sums are what of a lane lies within a time: busy time, bytes, the most that it held.
func sums(l *page.Lane, from, to float64) (busy, bytes, peak float64) {
	for i := range l.Items {
		x := &l.Items[i]
		if x.To == x.From {
			if at := float64(x.From); at >= from && at < to {
				bytes += float64(x.Bytes)
			}
			continue
		}
		share := max(min(float64(x.To), to)-max(float64(x.From), from), 0) / float64(x.To-x.From)
		busy, bytes = busy+share*float64(x.Busy), bytes+share*float64(x.Bytes)
	}
	for _, x := range l.Levels {
		if float64(x.At) <= from {
			peak = float64(x.Bytes)
		}
	}
	for _, x := range l.Levels {
		if at := float64(x.At); at > from && at < to {
			peak = max(peak, float64(x.Bytes))
		}
	}
	return busy, bytes, peak
}

func save(t *testing.T, runs ...*page.Run) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.html")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, page.Write(f, "test", runs...))
	require.NoError(t, f.Close())
	return file
}

// drawn is what the page says that it has drawn of a lane.
type drawn struct {
	Lane              int
	Busy, Bytes, Peak *float64
}

// look shows a time, scrolled to some place, and says what is drawn.
func look(t *testing.T, b *canvastest.Browser, x0, x1, scroll float64) (out []drawn) {
	t.Helper()
	b.Call(t, fmt.Sprintf(`(() => {
		page.look({x0: %g, x1: %g});
		const s = document.getElementById('scroll'); s.scrollTop = %g * s.scrollHeight;
		page.lanes.draw();
		return [...page.lanes.drawn().sums].map(([lane, s]) => ({lane, busy: s.busy, bytes: s.bytes, peak: s.peak}));
	})()`, x0, x1, scroll), &out)
	return out
}

// At each zoom the sums of what is drawn are those of the run: busy time, bytes over links, the most that a memory held.
// And each pixel has the colour of who holds its byte at its time.
func TestWhatIsDrawnIsTheRun(t *testing.T) {
	b := canvastest.Open(t, 1000, 900)
	for seed := range uint64(2) {
		x := draw(100+seed, 400)
		run := x.b.Run()
		b.Run(t, chromedp.EmulateViewport(1000-640*int64(seed), 900)) // on the narrow one much lies within one column
		attr := b.Load(t, save(t, run), "")
		require.Empty(t, attr["error"])
		seen := make(map[int]bool)
		for i := range 40 {
			w := float64(run.End-run.Begin) * math.Pow(2, -8*x.Float64())
			x0 := float64(run.Begin) + x.Float64()*(float64(run.End-run.Begin)-w)
			for _, d := range look(t, b, x0, x0+w, float64(i%8)/7) { // from the first lane to the last
				seen[d.Lane] = true
				l := &run.Lanes[d.Lane]
				busy, bytes, peak := sums(l, x0, x0+w)
				switch l.Group {
				case page.Links:
					require.InEpsilon(t, bytes+1, *d.Bytes+1, 1e-6, "%s, %g to %g", l.Name, x0, x0+w)
				case page.Memories:
					require.InDelta(t, peak, *d.Peak, 0, "%s, %g to %g", l.Name, x0, x0+w)
				default:
					require.InEpsilon(t, busy+1, *d.Busy+1, 1e-6, "%s, %g to %g", l.Name, x0, x0+w)
				}
			}
			checkPixels(t, b, x, run, x0, x0+w)
		}
		require.Len(t, seen, len(run.Lanes), "each lane was looked at")
		require.Empty(t, b.Said())
	}
}

// A memory that holds much for less than a pixel is drawn as high as that, whatever it holds before and after.
func TestTheMostWithinAColumnIsDrawn(t *testing.T) {
	const most = 96 << 10
	x := page.NewBuilder("spikes", "machine none", []string{"host", "gpu0"}, []uint64{0, 128 << 10}, nil)
	x.Buffer(1, "small", 4<<10, true)
	line := mem.NewTimeline("queue", true, nil)
	command := func(i int, at int64, b mem.BufferID, size uint64) {
		p := line.Next()
		x.End(p, page.End{Started: at, Ended: at + 1})
		x.Command(&trace.CommandRecord{
			ID: uint64(i), Queue: "q", Memory: 1, Op: "launch", Point: p, Enqueued: at,
			Blocks: []trace.BlockRecord{{Buffer: b, Memory: 1, Bytes: size, Range: mem.Range{End: size}}},
		}, page.Told{Number: i})
	}
	command(1, 0, 1, 4<<10)
	x.Buffer(2, "large", most-4<<10, false)
	command(2, 500_000, 2, most-4<<10)
	command(3, 500_001, 1, 4<<10)
	x.Released(2) // after a nanosecond
	command(4, 1_000_000, 1, 4<<10)
	run := x.Run()
	at := slices.IndexFunc(run.Lanes, func(l page.Lane) bool { return l.Group == page.Memories && l.Name == "gpu0" })
	b := canvastest.Open(t, 800, 600)
	require.Empty(t, b.Load(t, save(t, run), "")["error"])
	for _, w := range []float64{1_000_001, 300_000, 10_000} {
		shown := 0
		for _, d := range look(t, b, 500_000-w/3, 500_000+w/2, 0) {
			if d.Lane == at {
				shown++
				require.InDelta(t, most, *d.Peak, 0, "%g ns", w)
			}
		}
		require.Equal(t, 1, shown)
	}
}

// checkPixels looks at pixels of the picture of holders.
func checkPixels(t *testing.T, b *canvastest.Browser, x *random, run *page.Run, x0, x1 float64) {
	t.Helper()
	y0 := x.Float64() * float64(run.Total()) / 2
	y1 := y0 + 8 + x.Float64()*(float64(run.Total())-y0-8)
	var out struct {
		W, H int
		At   []int // x, y, set by turns
		View [4]float64
	}
	b.Call(t, fmt.Sprintf(`(() => {
		page.look({x0: %g, x1: %g, y0: %g, y1: %g});
		page.held.draw();
		const {ids, W, H} = page.held.drawn(), at = [];
		for (let i = 0; i < 60; i++) { const x = Math.floor(Math.random() * W), y = Math.floor(Math.random() * H); at.push(x, y, ids[y * W + x]); }
		return {w: W, h: H, at, view: [page.view.x0, page.view.x1, page.rows.y0, page.rows.y1]};
	})()`, x0, x1, y0, y1), &out)
	for i := 0; i < len(out.At); i += 3 {
		at := out.View[0] + (float64(out.At[i])+.5)/float64(out.W)*(out.View[1]-out.View[0])
		byteAt := out.View[3] - (float64(out.At[i+1])+.5)/float64(out.H)*(out.View[3]-out.View[2])
		if near(at) || near(byteAt) {
			continue // on an edge, where it may be either
		}
		buffer := len(run.Buffers) - 1
		for buffer > 0 && float64(run.Buffers[buffer].At) > byteAt {
			buffer--
		}
		want, _, ok := x.holders(buffer, uint64(byteAt)-run.Buffers[buffer].At, int64(math.Floor(at)))
		if set := out.At[i+2]; !ok {
			require.Equal(t, -1, set, "%g, byte %g", at, byteAt)
		} else {
			require.GreaterOrEqual(t, set, 0, "%g, byte %g", at, byteAt)
			require.Equal(t, want, run.Sets[set], "%g, byte %g", at, byteAt)
		}
	}
}

func near(v float64) bool { return math.Abs(v-math.Round(v)) < 1e-6 }

// Folding keeps what lanes add up to, and says what it did.
func TestFoldingKeepsTheSums(t *testing.T) {
	for _, most := range []int{7, 50, 300} {
		plain, folded := draw(5, 500).b.Run(), draw(5, 500).b.Run()
		page.Fold(folded, most)
		require.LessOrEqual(t, len(folded.Events), most)
		require.LessOrEqual(t, len(folded.Held), most)
		require.Equal(t, len(plain.Events), folded.Folded)
		require.Positive(t, folded.Fold)
		count := 0
		for _, e := range folded.Events {
			count += e.Count
		}
		require.Equal(t, len(plain.Events), count)
		for i := range plain.Lanes {
			busy, bytes, peak := sums(&plain.Lanes[i], -1, math.Inf(1))
			b, n, p := sums(&folded.Lanes[i], -1, math.Inf(1))
			require.InDelta(t, busy, b, 1e-3)
			require.InDelta(t, bytes, n, 1e-3)
			require.InDelta(t, peak, p, 0, "the most is kept")
			for k := range folded.Lanes[i].Items {
				x := &folded.Lanes[i].Items[k]
				require.True(t, x.To-x.From >= 0 && x.From >= 0, "%v", x)
			}
		}
		for _, w := range folded.Waits {
			require.Less(t, int(max(w.Event, w.For)), len(folded.Events))
		}
	}
}

// A run of more than 250,000 events folds and says so; its file is small, and no frame draws more than 20,000 items.
func TestALargeRunFolds(t *testing.T) {
	b := canvastest.Open(t, 1600, 1000)
	run := draw(1, 120_000).b.Run()
	require.Greater(t, run.Folded, 250_000)
	require.LessOrEqual(t, len(run.Events), 250_000)
	require.LessOrEqual(t, len(run.Held), 250_000)
	file := save(t, run)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(40<<20), "bytes")
	require.Empty(t, b.Load(t, file, "")["error"])
	var note string
	var items []int
	b.Call(t, `document.getElementById('notes').textContent`, &note)
	require.Contains(t, note, "events: what a lane has of one kind within")
	b.Call(t, `Array.from({length: 10}, (_, k) => {
		const w = (page.run.until - page.run.first) / 2 ** k, x0 = page.run.first + w * k / 10;
		page.look({x0, x1: x0 + w});
		page.lanes.draw();
		return page.lanes.drawn().rects.length;
	})`, &items)
	for _, n := range items {
		require.LessOrEqual(t, n, 20_000)
		require.Positive(t, n)
	}
}

// The page opens at any width, draws, asks for nothing and says nothing; keys do what the pointer does.
func TestThePageOpensAnywhereAndTakesKeys(t *testing.T) {
	file := save(t, draw(7, 300).b.Run(), draw(8, 30).b.Run())
	b := canvastest.Open(t, 1600, 1000)
	for _, width := range []int64{1600, 360} {
		b.Run(t, chromedp.EmulateViewport(width, 800))
		attr := b.Load(t, file, "#find=%2312")
		require.Equal(t, "true", attr["ready"], "%v", attr)
		var wide bool
		b.Call(t, `document.documentElement.scrollWidth <= innerWidth`, &wide)
		assert.True(t, wide, "nothing sticks out at %d", width)
		var title string
		b.Run(t, chromedp.Text("#said h2", &title, chromedp.NodeVisible))
		assert.Equal(t, "#12 k2(x)", title)
	}
	keys := func(k string) (v struct{ X0, X1, Selected float64 }) {
		b.Run(t, chromedp.KeyEvent(k))
		b.Call(t, `({x0: page.view.x0, x1: page.view.x1, selected: page.selected})`, &v)
		return v
	}
	b.Call(t, `document.getElementById("lanes").focus()`, nil)
	whole := keys("0")
	in := keys("+")
	assert.Less(t, in.X1-in.X0, whole.X1-whole.X0)
	right := keys("\u0303") // ArrowRight
	assert.Greater(t, right.X0, in.X0)
	assert.Equal(t, whole.X1, keys("0").X1)
	assert.GreaterOrEqual(t, keys("\r").Selected, 0.0, "Enter takes what is in the middle")
	before := keys("]").Selected
	assert.NotEqual(t, before, keys("]").Selected, "the next one")
	assert.InDelta(t, -1, keys("\u001b").Selected, 0, "Escape closes")
	require.Empty(t, b.Said())
	b.Run(t, chromedp.SetValue("#run", "1"), chromedp.Evaluate(`document.getElementById('run').dispatchEvent(new Event('change'))`, nil),
		chromedp.Poll(`page.run.title === 'random 8' && document.documentElement.dataset.ready`, nil))
}

func TestAPageWithoutARunIsRefused(t *testing.T) {
	require.ErrorIs(t, page.Write(io.Discard, "nothing"), mem.ErrInvalidValue)
	require.ErrorIs(t, page.Write(shut{}, "x", draw(1, 3).b.Run()), io.ErrClosedPipe)
	require.ErrorIs(t, page.WriteTimeline(shut{}, draw(1, 3).b.Run()), io.ErrClosedPipe)
}

type shut struct{}

func (shut) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestThePageAsksForNothing(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, page.Write(&out, `A <b>"title"</b>`, draw(1, 50).b.Run()))
	assert.Contains(t, out.String(), "A &lt;b&gt;&#34;title&#34;&lt;/b&gt;")
	assert.NotRegexp(t, `(?i)https?://|<link[^>]+stylesheet|src=|@import|fetch\(|XMLHttpRequest|import\(`, out.String())
}

// A timeline's counters end where lanes do, and its slices have the lanes' times.
func TestATimelineHasCountersAndTracksOfLinks(t *testing.T) {
	run := draw(9, 100).b.Run()
	var out bytes.Buffer
	require.NoError(t, page.WriteTimeline(&out, run))
	var got struct {
		Events []struct {
			Name, Ph string
			Pid      int
			Ts, Dur  float64
			Args     map[string]any
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	busy, under, held := 0.0, make(map[string]float64), make(map[int]float64)
	for _, e := range got.Events {
		switch n, ok := e.Args["under way"].(float64); {
		case e.Ph == "X" && e.Pid == len(run.Memories)+1:
			busy += e.Dur
		case ok:
			under[e.Name] = n
		case e.Name == "held":
			held[e.Pid] = e.Args["bytes"].(float64)
		}
	}
	want := 0.0
	for i := range run.Lanes {
		l := &run.Lanes[i]
		for _, x := range l.Items {
			if l.Group == page.Links {
				want += max(float64(x.To-x.From)/1e3, 0.001)
			}
		}
		if n := len(l.Levels); n > 0 {
			require.InDelta(t, l.Levels[n-1].Bytes, held[l.Memory], 0)
		}
	}
	require.InDelta(t, want, busy, 1e-6, "tracks of links")
	require.NotEmpty(t, under)
	for name, n := range under {
		require.Zero(t, n, "%s: nothing is under way at the end", name)
	}
}
