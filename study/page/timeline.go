package page

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Timelines are written in the trace event format, which Perfetto (ui.perfetto.dev) and
// chrome://tracing read: a process for each memory, a track for each row of a lane, a slice for
// each item, a flow for each wait, counters of what memories hold and links carry.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

// traceEvent is one event of the format. Times are in microseconds.
type traceEvent struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	Cat   string  `json:"cat,omitempty"`
	Time  float64 `json:"ts"`
	Dur   float64 `json:"dur,omitempty"`
	PID   int     `json:"pid"`
	TID   int     `json:"tid"`
	ID    int     `json:"id,omitempty"`
	Bind  string  `json:"bp,omitempty"`
	Scope string  `json:"s,omitempty"`
	Args  any     `json:"args,omitempty"`
}

// timeline writes events, one a line; err is the first error.
type timeline struct {
	run   *Run
	w     *bufio.Writer
	count int
	tids  int
	at    []place // by event: its first slice
	err   error
}

type place struct{ pid, tid int }

// WriteTimeline writes a run as trace events. It fails with w's errors.
func WriteTimeline(w io.Writer, r *Run) error {
	t := &timeline{run: r, w: bufio.NewWriter(w), at: make([]place, len(r.Events))}
	clock, err := json.Marshal(r.Clock)
	if err != nil {
		return err
	}
	_, t.err = fmt.Fprintf(t.w, `{"displayTimeUnit":"ns","otherData":{"clock":%s},"traceEvents":[`, clock)
	for m, name := range r.Memories {
		t.process(m, name)
	}
	path, links := len(r.Memories), len(r.Memories)+1
	t.process(path, "critical path on "+strings.TrimPrefix(r.Clock, "machine "))
	t.process(links, "links")
	for i := range r.Lanes {
		l := &r.Lanes[i]
		switch l.Group {
		case pathLanes:
			t.slices(l, path, func(x *Item) traceEvent {
				p := &r.Path[x.Event]
				return traceEvent{Name: p.What, Cat: p.Reason, Args: map[string]any{"after": p.After, "reason": p.Reason, "shared_ns": p.Shared}}
			})
		case Links:
			t.slices(l, links, t.as("link"))
			t.flow(l, links)
		case memoryLanes:
			t.memory(l)
		case Engines:
			t.slices(l, l.Memory, t.as("engine"))
		case Host:
			t.slices(l, 0, t.as("host"))
		default:
			t.slices(l, l.Memory, t.event)
		}
	}
	for i, w := range r.Waits {
		from, to := t.at[w.For], t.at[w.Event]
		t.write(traceEvent{Name: "wait", Phase: "s", Cat: "wait", Time: micro(r.Events[w.For].Start), PID: from.pid, TID: from.tid, ID: i + 1})
		t.write(traceEvent{Name: "wait", Phase: "f", Bind: "e", Cat: "wait", Time: micro(r.Events[w.Event].Start), PID: to.pid, TID: to.tid, ID: i + 1})
	}
	if _, err := t.w.WriteString("\n]}\n"); t.err == nil {
		t.err = err
	}
	return cmp.Or(t.err, t.w.Flush())
}

func micro(ns int64) float64 { return float64(ns) / 1e3 }

func (t *timeline) write(e traceEvent) {
	text, err := json.Marshal(e)
	if t.err = cmp.Or(t.err, err); t.err != nil {
		return
	}
	sep := ",\n"
	if t.count == 0 {
		sep = "\n"
	}
	t.count++
	_, t.err = t.w.WriteString(sep + string(text))
}

func (t *timeline) process(pid int, name string) {
	t.write(traceEvent{Name: "process_name", Phase: "M", PID: pid, Args: map[string]any{"name": name}})
}

// event is a slice of an event, but for its place.
func (t *timeline) event(x *Item) traceEvent {
	e := &t.run.Events[x.Event]
	args := map[string]any{"row": e.Row}
	if e.Failed != "" {
		args["error"] = e.Failed
	}
	return traceEvent{Name: e.Name, Cat: e.Kind.String(), Args: args}
}

// as is event, but for those that are another's here, whose category is cat.
func (t *timeline) as(cat string) func(*Item) traceEvent {
	return func(x *Item) traceEvent {
		e := t.event(x)
		if t.run.Events[x.Event].Kind != Mapped {
			e.Cat = cat
		}
		return e
	}
}

// slices writes a lane's items, a track for each of its rows. Those below the last one share it with what they overlap, so
// that they are tracks of their own.
func (t *timeline) slices(l *lane, pid int, of func(*Item) traceEvent) {
	type track struct {
		tid int
		end int64
	}
	var tracks []track
	for i := range l.Items {
		x := &l.Items[i]
		k := slices.IndexFunc(tracks, func(a track) bool { return a.end <= x.From })
		if k < 0 {
			k = len(tracks)
			t.tids++
			tracks = append(tracks, track{tid: t.tids})
			name := l.Name
			if k > 0 {
				name = fmt.Sprintf("%s (%d)", l.Name, k+1)
			}
			t.write(traceEvent{Name: "thread_name", Phase: "M", PID: pid, TID: t.tids, Args: map[string]any{"name": name}})
		}
		tracks[k].end = max(x.To, x.From+1)
		e := of(x)
		e.Phase, e.Time, e.Dur, e.PID, e.TID = "X", micro(x.From), max(micro(x.To-x.From), 0.001), pid, tracks[k].tid
		t.write(e)
		if l.Group == queueLanes || l.Group == Copies {
			t.at[x.Event] = place{pid, tracks[k].tid}
		}
	}
}

// memory writes what a memory holds, and what left it.
func (t *timeline) memory(l *lane) {
	for _, x := range l.Levels {
		t.write(traceEvent{Name: "held", Phase: "C", Time: micro(x.At), PID: l.Memory, Args: map[string]any{"bytes": x.Bytes}})
	}
	for i := range l.Items {
		e := t.event(&l.Items[i])
		e.Phase, e.Scope, e.Time, e.PID = "i", "p", micro(l.Items[i].From), l.Memory
		t.write(e)
	}
}

// flow writes how much a link carries, each transfer at its mean rate, and how many are under way.
func (t *timeline) flow(l *lane, pid int) {
	type step struct {
		at    int64
		rate  float64
		flows int
	}
	var steps []step
	for i := range l.Items {
		if x := &l.Items[i]; x.To > x.From {
			rate := float64(x.Bytes) / float64(x.To-x.From) * 1e9
			steps = append(steps, step{x.From, rate, 1}, step{x.To, -rate, -1})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	rate, flows := 0.0, 0
	for i, s := range steps {
		if rate, flows = rate+s.rate, flows+s.flows; flows == 0 {
			rate = 0 // but for rounding
		}
		if i+1 < len(steps) && steps[i+1].at == s.at {
			continue
		}
		t.write(traceEvent{Name: l.Name + ": bytes a second", Phase: "C", Time: micro(s.at), PID: pid, Args: map[string]any{"carried": rate, "capacity": l.Capacity}})
		t.write(traceEvent{Name: l.Name + ": flows", Phase: "C", Time: micro(s.at), PID: pid, Args: map[string]any{"under way": flows}})
	}
}
