package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/internal/canvas/canvastest"
)

// clickEach clicks events of a page where they are drawn, each at a zoom of its own, and gives what the page says of them. Where
// another event lies on the same spot, the page lists what else is there.
const clickEach = `(async () => {
	const tick = () => new Promise(done => setTimeout(done)), out = [], run = page.run;
	for (const [e, zoom] of %s) {
		const root = document.documentElement, from = run.start[e], to = run.end[e], w = Math.max(to - from, 30) * zoom;
		page.look({x0: (from + to) / 2 - w * .37, x1: (from + to) / 2 + w * .63});
		page.lanes.reveal(e);
		page.lanes.draw();
		delete root.dataset.selected;
		const at = page.lanes.middle(e), b = page.lanes.el.getBoundingClientRect();
		const x = b.left + (Math.max(at.from, page.lanes.margin.left) + Math.min(at.to, b.width - page.lanes.margin.right)) / 2, y = b.top + at.y;
		for (const type of ['pointerdown', 'pointerup']) page.lanes.el.dispatchEvent(new PointerEvent(type, {clientX: x, clientY: y, pointerId: 1}));
		for (let i = 0; i < 200 && root.dataset.selected === undefined; i++) await tick();
		await tick();
		if (page.selected !== e) {
			const other = document.querySelector('#said button[data-event="' + e + '"]');
			if (!other) { out.push({event: e, missed: true}); continue; }
			delete root.dataset.selected;
			other.click();
			for (let i = 0; i < 200 && root.dataset.selected === undefined; i++) await tick();
		}
		const fields = {};
		for (const dd of document.querySelectorAll('#said dl:last-of-type dd')) fields[dd.dataset.key] = dd.textContent;
		out.push({event: e, kind: run.kinds[run.kind[e]], index: run.index[e], fields});
	}
	return out;
})()`

type clicked struct {
	Event, Index int
	Kind         string
	Missed       bool
	Fields       map[string]string
}

// 1,000 random events, clicked at random zooms, say what run --json says, field by field.
func TestWhatIsClickedSaysWhatJSONSays(t *testing.T) {
	b := canvastest.Open(t, 1200, 900)
	r := rand.New(rand.NewPCG(1, 2))
	for _, args := range [][]string{
		{"--example", "matmul-tiles", "--machine", "h200x2-pcie", "--profile"}, {"--example", "halo", "--machine", "h200-nvlink"}, {"--example", "training-step"},
	} {
		file := filepath.Join(t.TempDir(), "run.html")
		out, _, err := godwit(t, append([]string{"run", "--json", "--html", file}, args...)...)
		require.NoError(t, err)
		var want map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(out), &want))
		lists := map[string][]map[string]any{}
		for kind, key := range map[string]string{"command": "commands", "copy": "copies", "eviction": "evictions"} {
			d := json.NewDecoder(strings.NewReader(string(want[key])))
			d.UseNumber()
			var list []map[string]any
			require.NoError(t, d.Decode(&list))
			lists[kind] = list
		}
		lists["write-back"] = lists["copy"]
		require.Empty(t, b.Load(t, file, "")["error"])
		var events []int // that have a row
		b.Call(t, `[...page.run.index.keys()].filter(i => page.run.index[i] >= 0 && page.run.lane[i] >= 0)`, &events)
		require.NotEmpty(t, events)
		var ask [][2]float64
		for range 334 {
			ask = append(ask, [2]float64{float64(events[r.IntN(len(events))]), 1.5 + 20*r.Float64()*r.Float64()})
		}
		text, err := json.Marshal(ask)
		require.NoError(t, err)
		var all []clicked
		b.Call(t, fmt.Sprintf(clickEach, text), &all)
		require.Len(t, all, len(ask))
		for _, c := range all {
			require.False(t, c.Missed, "%v: event %d is not found where it is drawn", args, c.Event)
			require.Equal(t, said("", lists[c.Kind][c.Index]), exact(c.Fields), "%v: %s %d", args, c.Kind, c.Index)
		}
		assert.Empty(t, b.Said())
	}
}

// said is how a page says a row of --json.
func said(before string, row map[string]any) map[string]string {
	out := make(map[string]string)
	for key, v := range row {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range said(before+key+".", v) {
				out[k] = x
			}
		case []any:
			var list []string
			for _, x := range v {
				list = append(list, fmt.Sprint(x))
			}
			out[before+key] = strings.Join(list, ", ")
		case json.Number:
			f, _ := v.Float64()
			out[before+key] = strconv.FormatFloat(f, 'g', -1, 64)
		default:
			out[before+key] = fmt.Sprint(v)
		}
	}
	return out
}

// exact has the numbers of what a page says without their commas, and without what they are about.
func exact(fields map[string]string) map[string]string {
	for k, v := range fields {
		number, _, _ := strings.Cut(v, " (")
		if f, err := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64); err == nil && !strings.Contains(v, ", ") {
			fields[k] = strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
	return fields
}

// Replays of a command trace are runs of one page, and a timeline is of one replay.
func TestReplaysArePictures(t *testing.T) {
	dir := t.TempDir()
	commands, page, timeline := filepath.Join(dir, "commands"), filepath.Join(dir, "page.html"), filepath.Join(dir, "timeline.json")
	_, _, err := godwit(t, "run", "--example", "matmul-tiles", "--record", commands)
	require.NoError(t, err)
	_, _, err = godwit(t, "replay", commands, "--memory", "60%", "--timeline", timeline)
	require.ErrorContains(t, err, "--timeline: of one replay, and these are 3")
	out, _, err := godwit(t, "replay", commands, "--memory", "60%", "--policy", "cost", "--timeline", timeline, "--html", page, "--json")
	require.NoError(t, err)
	var want struct {
		Commands []struct {
			Copies, Evictions int
			Moved             uint64 `json:"bytes_moved"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &want))
	require.NotZero(t, want.Commands[0].Evictions)
	b := canvastest.Open(t, 1000, 800)
	require.Empty(t, b.Load(t, page, "")["error"])
	var got struct{ Copies, Evictions, Moved int }
	b.Call(t, `(() => {
		const run = page.run, of = k => [...run.kind.keys()].filter(i => k.includes(run.kinds[run.kind[i]]));
		const copies = of(['copy', 'write-back']);
		return {copies: copies.length, evictions: of(['eviction']).length, moved: copies.reduce((sum, i) => sum + run.bytes[i], 0)};
	})()`, &got)
	require.Equal(t, want.Commands[0].Copies, got.Copies)
	require.Equal(t, want.Commands[0].Evictions, got.Evictions)
	require.EqualValues(t, want.Commands[0].Moved, got.Moved)
	require.FileExists(t, timeline)
}
