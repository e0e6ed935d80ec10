package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"godwit/mem"
	"godwit/mem/trace"
)

// Timelines are written in the trace event format, which Perfetto
// (ui.perfetto.dev) and chrome://tracing read: a process for each memory, a
// track for each of its queues, hidden ones included, a slice for each command
// and copy, and a flow for each wait.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

// traceEvent is one event of the format. Times are in microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Cat   string         `json:"cat,omitempty"`
	Time  float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	ID    int            `json:"id,omitempty"`
	Bind  string         `json:"bp,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// slice is something that took time on a queue.
type slice struct {
	point      mem.Point
	pid        int
	queue      string
	name, cat  string
	args       map[string]any
	start, end float64
	tid        int
}

// timeline collects events.
type timeline struct {
	rec    *recorder
	events []traceEvent
	slices []*slice
	of     map[mem.Point]*slice
	flows  int
}

// WriteTimeline writes the run as Perfetto-readable JSON. It fails where the
// run did not start, and with w's errors.
func (r *Result) WriteTimeline(w io.Writer) error {
	if r.rec == nil {
		return fmt.Errorf("timeline of %s: the run did not start: %s", r.Scenario, r.Error)
	}
	if !r.rec.waits {
		return fmt.Errorf("timeline of %s: the run was not to keep one (RunOptions.Timeline)", r.Scenario)
	}
	t := &timeline{rec: r.rec, of: make(map[mem.Point]*slice)}
	t.process(0, "host")
	for _, d := range r.Devices {
		t.process(d.Memory, fmt.Sprintf("%s (%s)", d.Name, d.Driver))
	}
	for i, c := range r.records {
		if c == nil {
			continue
		}
		out := &r.Commands[i]
		for j, n := range out.Evictions {
			t.evicted(r, c, &c.Evictions[j], &r.Evictions[n])
		}
		for _, n := range out.Copies {
			t.copied(c, r.Copies[n].step, &r.Copies[n], "copy")
		}
		t.add(c.Point, c.Enqueued, c.Waits, slice{
			pid: int(c.Memory), cat: "command", name: r.s.Commands[i].verb(),
			args: map[string]any{"number": out.Number, "line": out.Line, "text": out.Text},
		})
	}
	t.mapped(r)
	t.critical(r)
	t.layOut()
	for _, c := range r.records {
		if c == nil {
			continue
		}
		for _, v := range c.Evictions {
			for i := range v.Backs {
				t.waits(v.Backs[i].Point, v.Backs[i].Waits)
			}
		}
		for i := range c.Steps {
			t.waits(c.Steps[i].Point, c.Steps[i].Waits)
		}
		t.waits(c.Point, c.Waits)
	}
	return json.NewEncoder(w).Encode(map[string]any{"displayTimeUnit": "ns", "otherData": map[string]string{"clock": r.Clock}, "traceEvents": t.events})
}

func (t *timeline) process(pid int, name string) {
	t.events = append(t.events, traceEvent{Name: "process_name", Phase: "M", PID: pid, Args: map[string]any{"name": name}})
}

// add notes what a point stands for, where it was reached. A queue that keeps
// no times says only when it ended: then it is taken to have started when all
// it waited for had ended.
func (t *timeline) add(p mem.Point, enqueued int64, waits []mem.Wait, s slice) {
	t.rec.mu.Lock()
	done, ok := t.rec.endOf(p)
	t.rec.mu.Unlock()
	if !ok {
		return
	}
	s.point, s.queue = p, p.Line.Name()
	s.start, s.end = float64(done.Started)/1e3, float64(done.Ended)/1e3
	if done.Started == 0 {
		s.start = float64(enqueued) / 1e3
		for _, w := range waits {
			if before := t.of[w.Point]; before != nil {
				s.start = max(s.start, before.end)
			}
		}
	}
	s.start = min(s.start, s.end)
	if done.Err != nil {
		s.args["error"] = done.Err.Error()
	}
	t.slices = append(t.slices, &s)
	t.of[p] = &s
}

// evicted shows a block that went for a command, when that was planned, and the
// copies that wrote it back.
func (t *timeline) evicted(r *Result, c *record, v *trace.EvictionRecord, e *evictionResult) {
	t.events = append(t.events, traceEvent{
		Name: evictionText(e) + " from " + e.From, Phase: "i", Scope: "p", Cat: "eviction", Time: float64(c.Enqueued) / 1e3, PID: int(v.Memory),
		Args: map[string]any{"bytes": e.Bytes, "dropped": e.Dropped, "written back": e.WrittenBack, "for": e.Command, "why": e.Reason, "policy": e.Policy},
	})
	for i := range v.Backs {
		t.copied(c, &v.Backs[i], &r.Copies[e.Copies[i]], "write-back")
	}
}

// copied shows a copy.
func (t *timeline) copied(c *record, s *trace.StepRecord, cp *copyResult, cat string) {
	t.add(s.Point, c.Enqueued, s.Waits, slice{
		pid: int(s.To), cat: cat, name: fmt.Sprintf("%s of %s: %s → %s", sizeText(cp.Bytes), cp.Buffer, cp.From, cp.To),
		args: map[string]any{"offset": cp.Offset, "bytes": cp.Bytes, "way": cp.Way, "for": cp.Command, "why": cp.Reason},
	})
}

// mapped shows, beside the host's queues, how long it had what it mapped: from the
// end of a map to the start of its unmap.
func (t *timeline) mapped(r *Result) {
	for i := range r.s.Mappings {
		m := &r.s.Mappings[i]
		if m.Unmap >= len(r.records) || r.records[m.Map] == nil || r.records[m.Unmap] == nil {
			continue
		}
		from, to := t.of[r.records[m.Map].Point], t.of[r.records[m.Unmap].Point]
		if from == nil || to == nil {
			continue
		}
		t.slices = append(t.slices, &slice{
			queue: "mapped", cat: "map", name: fmt.Sprintf("%s of %s", m.Name, r.s.placeText(m.Place, m.Place.Range)),
			args:  map[string]any{"for": flagText(uint64(m.Flags), mapFlags), "map": m.Map + 1, "unmap": m.Unmap + 1},
			start: from.end, end: max(from.end, to.start),
		})
	}
}

// critical shows the critical path of a run on a machine, as a process of its own.
func (t *timeline) critical(r *Result) {
	path := r.path()
	if path == nil {
		return
	}
	pid := len(r.Devices) + 1
	t.process(pid, "critical path on "+strings.TrimPrefix(r.Clock, "machine "))
	for i := range path.Path {
		p := &path.Path[i]
		t.slices = append(t.slices, &slice{
			pid: pid, queue: "critical path", cat: p.Reason, name: p.What,
			args:  map[string]any{"after": p.After, "reason": p.Reason, "shared_ns": p.Shared},
			start: float64(p.From) / 1e3, end: float64(p.To) / 1e3,
		})
	}
}

// layOut gives every slice a track. What overlaps on one queue, as it may where
// that is out of order, goes to further tracks of the queue.
func (t *timeline) layOut() {
	slices.SortStableFunc(t.slices, func(a, b *slice) int { return cmp.Compare(a.start, b.start) })
	type lane struct {
		tid int
		end float64
	}
	lanes := make(map[string][]lane)
	tids := 0
	for _, s := range t.slices {
		key := fmt.Sprintf("%d/%s", s.pid, s.queue)
		i := slices.IndexFunc(lanes[key], func(l lane) bool { return l.end <= s.start })
		if i < 0 {
			i = len(lanes[key])
			tids++
			lanes[key] = append(lanes[key], lane{tid: tids})
			name := s.queue
			if i > 0 {
				name = fmt.Sprintf("%s (%d)", s.queue, i+1)
			}
			t.events = append(t.events, traceEvent{Name: "thread_name", Phase: "M", PID: s.pid, TID: tids, Args: map[string]any{"name": name}})
		}
		s.tid = lanes[key][i].tid
		lanes[key][i].end = max(s.end, s.start+0.001)
		t.events = append(t.events, traceEvent{Name: s.name, Phase: "X", Cat: s.cat, Time: s.start, Dur: max(s.end-s.start, 0.001), PID: s.pid, TID: s.tid, Args: s.args})
	}
}

// waits adds a flow from each point waited for to the slice that waits.
func (t *timeline) waits(p mem.Point, waits []mem.Wait) {
	to := t.of[p]
	if to == nil {
		return
	}
	for _, w := range waits {
		from := t.of[w.Point]
		if from == nil {
			continue
		}
		t.flows++
		t.events = append(t.events,
			traceEvent{Name: w.Kind.String(), Phase: "s", Cat: "wait", Time: from.start, PID: from.pid, TID: from.tid, ID: t.flows},
			traceEvent{Name: w.Kind.String(), Phase: "f", Bind: "e", Cat: "wait", Time: to.start, PID: to.pid, TID: to.tid, ID: t.flows})
	}
}

// Elapsed is the time from when the first command was enqueued until the last one had
// ended, by the context's clock.
func (r *Result) Elapsed() time.Duration {
	var first, last int64
	for _, c := range r.records {
		if c == nil {
			continue
		}
		if first == 0 || c.Enqueued < first {
			first = c.Enqueued
		}
		last = max(last, r.rec.ended(c.Point).Ended)
	}
	return time.Duration(max(last-first, 0))
}
