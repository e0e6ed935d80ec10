package scenario

import (
	"fmt"
	"slices"
	"strings"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/profile"
)

// What a run took on this computer's devices, or on a machine, where its commands ran
// several times, and where the time went: by the same path of the same spans.

// period is a stretch of the context's clock, in nanoseconds.
type period struct{ from, to int64 }

// hostWait is a wait of the host for a command.
type hostWait struct {
	period
	point mem.Point
}

// Makespans are how long the commands took, each time: from the first enqueue until the host
// had seen all of them end.
type Makespans struct {
	Clock  string   `json:"clock"`
	Warm   int      `json:"warm"`         // times before, which do not count
	Each   []uint64 `json:"makespans_ns"` // in order
	Median uint64   `json:"median_ns" show:"median|span"`
	Least  uint64   `json:"least_ns" show:"least|span"`
	Most   uint64   `json:"most_ns" show:"most|span"`
}

// newMakespans are those of the times that count.
func newMakespans(clock string, warm int, clocked []period) *Makespans {
	m := &Makespans{Clock: clock, Warm: warm}
	for _, p := range clocked[min(warm, len(clocked)):] {
		m.Each = append(m.Each, uint64(p.to-p.from))
	}
	if len(m.Each) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(m.Each))
	m.Least, m.Median, m.Most = sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
	return m
}

// measuredResult is a run on this computer's devices that has taken times: the last of the
// times that its commands ran.
type measuredResult struct {
	Axis     string `json:"axis"` // what all times of the result are counted from
	Began    uint64 `json:"began_ns"`
	Ended    uint64 `json:"ended_ns"`
	Makespan uint64 `json:"makespan_ns"` // with what taking times costs, which makespans do not have
	NoLinks  string `json:"no_links,omitempty"`
	pathResult
}

// pathResult is where the time of a run went.
type pathResult struct {
	Reasons Reasons    `json:"critical_path_by_reason"`
	Path    []pathPart `json:"critical_path"` // tiles the time of the run
	parts   []profile.Part

	spans    []profile.Span // all that ran
	known    profile.Points[stood]
	of       *Result
	memories []string // names
}

// path is where the time went; nil where that was not asked.
func (r *Result) path() *pathResult {
	switch {
	case r.Model != nil:
		return &r.Model.pathResult
	case r.Measured != nil:
		return &r.Measured.pathResult
	}
	return nil
}

// perTime is how many commands run each time.
func (s *Scenario) perTime() int { return len(s.Commands) / max(s.Times, 1) }

// first is the scenario with its commands fewer times.
func (s *Scenario) first(times int) *Scenario {
	few := *s
	few.Times, few.Commands = times, s.Commands[:times*s.perTime()]
	return &few
}

// Took is what the run took, or nil where it did not get so far.
func (r *Result) Took() *Makespans { return r.took }

// Reasons say where the time went; nil where that was not asked.
func (r *Result) Reasons() *Reasons {
	if p := r.path(); p != nil {
		return &p.Reasons
	}
	return nil
}

// BytesOverBandwidth is what the commands would take, the last time, if nothing but the bytes counted on
// the busiest of a machine's links and memories: in nanoseconds.
func (r *Result) BytesOverBandwidth() uint64 { return r.Model.least }

// Step is a command, or an eviction or a copy that one needed, as it ran. Times are nanoseconds since the first command
// was enqueued; 0 is not known.
type Step struct {
	What    string `json:"what"`
	Copy    bool   `json:"copy,omitempty"` // a copy or an eviction, for the next command
	Started int64  `json:"started_ns"`
	Ended   int64  `json:"ended_ns"`
}

// Steps are what ran the last time, in the order of the commands. Nil where no trace was taken.
func (r *Result) Steps() (out []Step) {
	add := func(what string, p mem.Point, isCopy bool) {
		s := Step{What: what, Copy: isCopy}
		if e := r.rec.ended(p); e.Ended > 0 {
			s.Started, s.Ended = max(e.Started-r.began, 0), e.Ended-r.began
		}
		out = append(out, s)
	}
	for i := max(len(r.records)-r.s.perTime(), 0); i < len(r.records); i++ {
		for _, n := range r.Commands[i].Evictions {
			add(evictionText(&r.Evictions[n])+", "+evictionWay(&r.Evictions[n]), mem.Point{}, true)
		}
		for _, n := range r.Commands[i].Copies {
			cp := &r.Copies[n]
			add(copyText(cp)+", "+cp.From+" → "+cp.To+", "+wayText(cp), cp.step.Point, true)
		}
		var p mem.Point
		if rec := r.records[i]; rec != nil {
			p = rec.Point
		}
		add(fmt.Sprintf("#%d %s", i+1, r.Commands[i].Text), p, false)
	}
	return out
}

// LargestBuffer is the size of the largest buffer.
func (s *Scenario) LargestBuffer() (size uint64) {
	for i := range s.Buffers {
		size = max(size, s.Buffers[i].Size)
	}
	return size
}

// Measured reports whether a run that is on no machine says where its time went: on this computer's
// own devices, and where the commands run several times.
func (s *Scenario) Measured() bool {
	return s.Times > 0 || slices.ContainsFunc(s.Devices, func(d deviceDecl) bool { return d.Driver == realDriver })
}

// measured says what the run took, and where the time went.
func (r *runner) measured(res *Result) {
	res.slept = r.slept
	if len(r.clocked) == 0 {
		return
	}
	last := r.clocked[len(r.clocked)-1]
	res.took = newMakespans(r.clock(), r.s.Warm, r.clocked)
	if r.s.Times > 0 {
		res.Makespans = res.took
	}
	res.began = last.from
	switch {
	case r.opt.Plain:
	case r.model != nil:
		if r.s.Times == 0 {
			last = period{0, int64(res.Model.Makespan)}
		}
		res.Model.Makespan = uint64(last.to - last.from)
		res.Model.pathResult = r.criticalPath(res, r.model.rec, last)
		res.Model.OneMemory = r.oneMemory(res)
	case r.s.Measured():
		res.Measured = &measuredResult{
			Axis:  "nanoseconds of this computer's clock since the context was made",
			Began: uint64(last.from), Ended: uint64(last.to), Makespan: uint64(last.to - last.from), NoLinks: r.noLinks(),
			pathResult: r.criticalPath(res, r.spans(res, last), last),
		}
	}
}

// noLinks says why two or more GPUs of one vendor have no link.
func (r *runner) noLinks() string {
	if r.unlinked == nil {
		return ""
	}
	gpus := make(map[string][]string)
	for _, name := range r.names[1:] {
		if i := r.devs[name].Info(); i.Type == devices.GPU {
			if gpus[i.Vendor] = append(gpus[i.Vendor], name); len(gpus[i.Vendor]) == 2 {
				why, _, _ := strings.Cut(r.unlinked.Error(), "\n")
				return fmt.Sprintf("no link between %s: %s", strings.Join(gpus[i.Vendor], " and "), why)
			}
		}
	}
	return ""
}

// spans are what the run's records say of its last time, as a world in virtual time tells it.
func (r *runner) spans(res *Result, last period) *profile.Recorder {
	var all []virtual.Span
	ended := make(map[mem.Point]int64)
	behind := make(map[*mem.Timeline]mem.Point) // by queue: what came last
	add := func(p mem.Point, waits []mem.Wait, s virtual.Span) {
		e := r.rec.ended(p)
		if p.IsZero() || e.Ended == 0 {
			return
		}
		s.Point, s.Err, s.Ready, s.Started, s.Ended = p, e.Err, s.Queued, e.Started, e.Ended
		for _, w := range append(slices.Clip(waits), mem.Wait{Point: behind[p.Line]}) {
			if t, ok := ended[w.Point]; ok && t >= s.Ready {
				s.Ready, s.Cause = t, w.Point
			}
		}
		s.Started = max(s.Started, s.Ready)                    // also where the queue keeps no times, or by another clock
		s.Handed, s.Ended = s.Started, max(s.Ended, s.Started) // what passes between a cause and what waited for it is the host's
		ended[p] = s.Ended
		if p.Line.InOrder() {
			behind[p.Line] = p
		}
		all = append(all, s)
	}
	copied := func(c *record, steps []trace.StepRecord) {
		for i := range steps {
			s := &steps[i]
			add(s.Point, s.Waits, virtual.Span{Op: devices.OpCopy, Tag: c.ID, On: int(s.To), From: int(s.From), To: int(s.To), Bytes: s.Range.Size(), Queued: c.Enqueued})
		}
	}
	for _, c := range res.records[max(len(res.records)-r.s.perTime(), 0):] {
		if c == nil {
			continue
		}
		for i := range c.Evictions {
			copied(c, c.Evictions[i].Backs)
		}
		copied(c, c.Regrows)
		copied(c, c.Steps)
		add(c.Point, c.Waits, spanOf(c))
	}
	slices.SortStableFunc(all, func(a, b virtual.Span) int { return int(a.Ended - b.Ended) })
	rec := profile.New()
	for i := range all {
		rec.Span(&all[i])
	}
	for _, w := range r.slept {
		if w.from >= last.from {
			rec.Woke(0, w.from, w.to, w.point)
		}
	}
	return rec
}

// opOf are the commands of records that a span tells apart; others are markers.
var opOf = map[string]devices.Op{
	"launch": devices.OpLaunch, "fill": devices.OpFill, "host-call": devices.OpHostCall,
	"copy": devices.OpCopy, "read": devices.OpCopy, "write": devices.OpCopy,
	"copy-rect": devices.OpCopyRect, "read-rect": devices.OpCopyRect, "write-rect": devices.OpCopyRect,
}

// spanOf is a command's, but for its times.
func spanOf(c *record) virtual.Span {
	s := virtual.Span{Op: opOf[c.Op], Tag: c.ID, On: int(c.Memory), Queued: c.Done}
	read := strings.HasPrefix(c.Op, "read")
	if s.Op == devices.OpCopy || s.Op == devices.OpCopyRect {
		s.From, s.To = s.On, s.On
		switch {
		case read:
			s.To = int(mem.Host)
		case strings.HasPrefix(c.Op, "write"):
			s.From = int(mem.Host)
		}
	}
	for i := range c.Accesses {
		a := &c.Accesses[i]
		if counts := read || s.Op == devices.OpLaunch || a.Mode.Writes(); counts && s.Op != devices.OpMarker && s.Op != devices.OpHostCall {
			s.Bytes += a.Range.Size()
		}
	}
	return s
}
