package page

import (
	_ "embed" // the page's parts
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"godwit/internal/canvas"
	"godwit/mem"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed run.js
var runJS string

//go:embed lanes.js
var lanesJS string

//go:embed held.js
var heldJS string

//go:embed live.js
var liveJS string

//go:embed page.js
var pageJS string

var page = template.Must(template.New("page").Parse(canvas.Head + pageHTML))

// Write writes runs as one page, the first one shown first. It fails with mem.ErrInvalidValue where there is none, or with
// w's error.
func Write(w io.Writer, title string, runs ...*Run) error {
	if len(runs) == 0 {
		return fmt.Errorf("page %q without a run: %w", title, mem.ErrInvalidValue)
	}
	text, err := Data(runs...)
	if err != nil {
		return err
	}
	return write(w, title, text, false)
}

// WriteLive writes a page without runs, which asks whoever has served it how something goes (package live). It fails with
// w's error.
func WriteLive(w io.Writer, title string) error { return write(w, title, []byte("[]"), true) }

func write(w io.Writer, title string, data []byte, live bool) error {
	js := canvas.Script + runJS + lanesJS + heldJS
	if live {
		js += liveJS
	}
	return page.Execute(w, map[string]any{
		"Title": title, "CSS": template.CSS(canvas.Style + pageCSS), "Live": live,
		"JS":   template.JS(js + pageJS), //nolint:gosec // our own scripts
		"Data": template.JS(data),        //nolint:gosec // json.Marshal escapes <, > and &
	})
}

// Data is runs as the page's script reads them: a list of JSON.
func Data(runs ...*Run) ([]byte, error) {
	all := []*runData{}
	for _, r := range runs {
		d, err := dataOf(r)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return json.Marshal(all)
}

// runData is a run as the script reads it: see canvas.Floats and canvas.JSON.
type runData struct {
	Name     string            `json:"title"`
	Clock    string            `json:"clock"`
	Figures  []figure          `json:"figures"`
	Notes    []string          `json:"notes"`
	Memories []string          `json:"memories"`
	Buffers  []bufferData      `json:"buffers"`
	Sets     [][]int           `json:"sets"`
	Kinds    []string          `json:"kinds"`
	Lanes    []laneData        `json:"lanes"`
	Begin    int64             `json:"first"`
	End      int64             `json:"until"`
	Fold     int64             `json:"fold"`
	Folded   int               `json:"folded"`
	Texts    string            `json:"texts"`
	Rows     []string          `json:"rows"` // rowsEach events each
	RowsEach int               `json:"rowsEach"`
	Columns  map[string]string `json:"columns"`
}

type bufferData struct {
	Name string `json:"name"`
	Size uint64 `json:"size"`
	At   uint64 `json:"at"`
}

type laneData struct {
	Group    string `json:"group"`
	Name     string `json:"name"`
	Memory   int    `json:"memory"`
	Capacity uint64 `json:"capacity"`
	Items    int    `json:"items"`
	Levels   int    `json:"levels"`
	Rows     int32  `json:"rows"`
}

// rowsEach is how many rows are unpacked at once.
const rowsEach = 1024

func dataOf(r *Run) (*runData, error) {
	d := &runData{
		Name: r.Name, Clock: r.Clock, Figures: append([]figure{}, r.Figures...), Notes: append([]string{}, r.Notes...), Memories: r.Memories, Kinds: kinds[:],
		Buffers: []bufferData{}, Sets: [][]int{}, Lanes: []laneData{}, Rows: []string{},
		Begin: r.Begin, End: r.End, Fold: r.Fold, Folded: r.Folded, RowsEach: rowsEach, Columns: make(map[string]string),
	}
	for _, b := range r.Buffers {
		d.Buffers = append(d.Buffers, bufferData(b))
	}
	for _, s := range r.Sets {
		list := []int{}
		for m := range s.All() {
			list = append(list, int(m))
		}
		d.Sets = append(d.Sets, list)
	}
	p := packer{data: d, texts: map[string]int{"": 0}, list: []string{""}}
	p.events(r)
	p.lanes(r)
	p.rest(r)
	if p.err == nil {
		d.Texts, p.err = canvas.JSON(p.list)
	}
	for at := 0; at < len(r.Events) && p.err == nil; at += rowsEach {
		p.rows(r.Events[at:min(at+rowsEach, len(r.Events))])
	}
	return d, p.err
}

// packer packs columns; err is the first error.
type packer struct {
	data  *runData
	texts map[string]int
	list  []string
	err   error
}

// text is the number of a text.
func (p *packer) text(s string) float64 {
	at, ok := p.texts[s]
	if !ok {
		at = len(p.list)
		p.texts[s], p.list = at, append(p.list, s)
	}
	return float64(at)
}

func (p *packer) rows(events []Event) {
	rows := make([]any, len(events))
	for i := range events {
		rows[i] = events[i].Row
	}
	text, err := canvas.JSON(rows)
	if err != nil {
		p.err = err
		return
	}
	p.data.Rows = append(p.data.Rows, text)
}

// column packs a number of each of list.
func column[T any](p *packer, name string, list []T, of func(*T) float64) {
	if p.err == nil {
		p.data.Columns[name], p.err = canvas.Floats(len(list), func(i int) float64 { return of(&list[i]) })
	}
}

// places packs which bytes of which buffer each of list is of.
func places[T any](p *packer, name string, list []T, of func(*T) (buffer int32, r mem.Range)) {
	column(p, name+"Buffer", list, func(x *T) float64 { b, _ := of(x); return float64(b) })
	column(p, name+"Offset", list, func(x *T) float64 { _, r := of(x); return float64(r.Start) })
	column(p, name+"Size", list, func(x *T) float64 { _, r := of(x); return float64(r.Size()) })
}

func (p *packer) events(r *Run) {
	all := r.Events
	column(p, "kind", all, func(e *Event) float64 { return float64(e.Kind) })
	column(p, "number", all, func(e *Event) float64 { return float64(e.Number) })
	column(p, "index", all, func(e *Event) float64 { return float64(e.Index) })
	column(p, "queued", all, func(e *Event) float64 { return float64(e.Queued) })
	column(p, "start", all, func(e *Event) float64 { return float64(e.Start) })
	column(p, "end", all, func(e *Event) float64 { return float64(e.End) })
	column(p, "buffer", all, func(e *Event) float64 { return float64(e.Buffer) })
	column(p, "offset", all, func(e *Event) float64 { return float64(e.Range.Start) })
	column(p, "size", all, func(e *Event) float64 { return float64(e.Range.Size()) })
	column(p, "from", all, func(e *Event) float64 { return float64(e.From) })
	column(p, "to", all, func(e *Event) float64 { return float64(e.To) })
	column(p, "bytes", all, func(e *Event) float64 { return float64(e.Bytes) })
	column(p, "name", all, func(e *Event) float64 { return p.text(e.Name) })
	column(p, "failed", all, func(e *Event) float64 { return p.text(e.Failed) })
	column(p, "count", all, func(e *Event) float64 { return float64(e.Count) })
}

func (p *packer) lanes(r *Run) {
	var items []Item
	var levels []level
	for i := range r.Lanes {
		l := &r.Lanes[i]
		d := laneData{l.Group, l.Name, l.Memory, l.Capacity, len(l.Items), len(l.Levels), 1}
		for k := range l.Items {
			d.Rows = max(d.Rows, l.Items[k].Row+1)
		}
		p.data.Lanes = append(p.data.Lanes, d)
		items, levels = append(items, l.Items...), append(levels, l.Levels...)
	}
	column(p, "itemEvent", items, func(x *Item) float64 { return float64(x.Event) })
	column(p, "itemFrom", items, func(x *Item) float64 { return float64(x.From) })
	column(p, "itemTo", items, func(x *Item) float64 { return float64(x.To) })
	column(p, "itemBusy", items, func(x *Item) float64 { return float64(x.Busy) })
	column(p, "itemBytes", items, func(x *Item) float64 { return float64(x.Bytes) })
	column(p, "itemRow", items, func(x *Item) float64 { return float64(x.Row) })
	column(p, "levelAt", levels, func(x *level) float64 { return float64(x.At) })
	column(p, "levelBytes", levels, func(x *level) float64 { return float64(x.Bytes) })
}

// rest packs waits, the critical path, holders and accesses.
func (p *packer) rest(r *Run) {
	column(p, "waitEvent", r.Waits, func(w *after) float64 { return float64(w.Event) })
	column(p, "waitFor", r.Waits, func(w *after) float64 { return float64(w.For) })
	column(p, "partFrom", r.Path, func(x *Part) float64 { return float64(x.From) })
	column(p, "partTo", r.Path, func(x *Part) float64 { return float64(x.To) })
	column(p, "partEvent", r.Path, func(x *Part) float64 { return float64(x.Event) })
	column(p, "partReason", r.Path, func(x *Part) float64 { return p.text(x.Reason) })
	column(p, "partWhat", r.Path, func(x *Part) float64 { return p.text(x.What) })
	column(p, "partAfter", r.Path, func(x *Part) float64 { return p.text(x.After) })
	column(p, "partShared", r.Path, func(x *Part) float64 { return float64(x.Shared) })
	column(p, "heldFrom", r.Held, func(h *held) float64 { return float64(h.From) })
	column(p, "heldTo", r.Held, func(h *held) float64 { return float64(h.To) })
	places(p, "held", r.Held, func(h *held) (int32, mem.Range) { return h.Buffer, h.Range })
	column(p, "heldSet", r.Held, func(h *held) float64 { return float64(h.Set) })
	column(p, "heldWriter", r.Held, func(h *held) float64 { return float64(h.Writer) })
	column(p, "useEvent", r.Uses, func(u *use) float64 { return float64(u.Event) })
	places(p, "use", r.Uses, func(u *use) (int32, mem.Range) { return u.Buffer, u.Range })
	column(p, "useMemory", r.Uses, func(u *use) float64 { return float64(u.Memory) })
	column(p, "useMode", r.Uses, func(u *use) float64 { return float64(u.Mode) })
}
