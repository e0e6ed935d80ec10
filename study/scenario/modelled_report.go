package scenario

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"godwit/devices"
	"godwit/internal/figures"
	"godwit/study/profile"
)

// What a run on a machine took, for people and as CSV.

// span is a time for people: as precise as it is.
func spanText(ns uint64) string { return time.Duration(ns).String() }

func shareText(part, whole uint64) string { return cmp.Or(share(part, whole), "-") }

// makespan shows what a run on a machine took, and by what.
func (p *printer) makespan(m *modelResult) {
	fmt.Fprintf(p.w, "modelled on %s: %s; of the critical path compute %s, copies %s, copies since memory was short %s, host %s\n\n",
		m.Machine, p.paint(spanText(m.Makespan), text.Bold), shareText(m.Reasons.Compute, m.Makespan), shareText(m.Reasons.Copy, m.Makespan),
		shareText(m.Reasons.Memory, m.Makespan), shareText(m.Reasons.Host, m.Makespan))
}

// path shows the critical path; of a long one its beginning and its end.
func (p *printer) path(m *modelResult) {
	const ends = 15
	t := figures.NewTable(">at", ">for", "critical path", "after", ">of it shared")
	for i := 0; i < len(m.Path); i++ {
		if n := len(m.Path) - 2*ends; i == ends && n > 1 && !p.opt.All {
			var sum uint64
			for _, x := range m.Path[i : i+n] {
				sum += x.To - x.From
			}
			t.Row("⋮", spanText(sum), p.paint(fmt.Sprintf("%d more", n), text.Italic), "", "")
			i += n - 1
			continue
		}
		x := &m.Path[i]
		shared := ""
		if x.Shared > 0 {
			shared = spanText(x.Shared)
		}
		t.Row(spanText(x.From), spanText(x.To-x.From), x.What, p.paint(x.After, text.Faint), shared)
	}
	p.render(t)
}

// use shows how busy devices, engines and links were: those that were at all.
func (p *printer) use(m *modelResult) {
	t := figures.NewTable("device, engine", ">commands", ">busy", ">share")
	engines := m.Engines
	for _, d := range m.Devices {
		if d.Spans > 0 {
			t.Row(d.Name, d.Spans, spanText(d.Busy), shareText(d.Busy, m.Makespan))
		}
		for len(engines) > 0 && strings.HasPrefix(engines[0].Name, d.Name+" ") {
			if e := engines[0]; e.Spans > 0 {
				t.Row("  "+e.Name, e.Spans, spanText(e.Busy), shareText(e.Busy, m.Makespan))
			}
			engines = engines[1:]
		}
	}
	p.render(t)
	t = figures.NewTable("link, switch, memory", ">carried", ">busy", ">share", ">full")
	for _, l := range m.Links {
		t.Row(l.Name, roughText(l.Bytes), spanText(l.Busy), shareText(l.Busy, m.Makespan), shareText(l.Full, m.Makespan))
	}
	if len(m.Links) > 0 {
		p.render(t)
	}
}

// WriteCSV writes what ran on the machine, one command or copy a line, in the order of
// the ends. Times are nanoseconds of the machine, sizes bytes. It fails where the run was
// on no machine, and with w's errors.
func (r *Result) WriteCSV(w io.Writer) error {
	if r.Model == nil {
		return fmt.Errorf("%s: the run was on no machine: its times are this computer's", r.Scenario)
	}
	critical := make(map[int]int64) // by span: on the critical path
	for _, p := range r.Model.parts {
		if p.Span != nil {
			critical[p.Span.Index] += p.To - p.From
		}
	}
	out := csv.NewWriter(w)
	rows := [][]string{{"command", "op", "what", "reason", "from", "to", "bytes", "engines", "queued_ns", "ready_ns", "started_ns", "ended_ns", "critical_ns", "failed"}}
	for i := range r.Model.spans {
		s := &r.Model.spans[i]
		m := r.Model.meaning(s)
		failed := ""
		if s.Err != nil {
			failed = s.Err.Error()
		}
		from, to := "", ""
		if s.Op == devices.OpCopy || s.Op == devices.OpCopyRect {
			from, to = r.Model.memory(s.From), r.Model.memory(s.To)
		} else {
			to = r.Model.memory(s.On)
		}
		var engines []string
		for _, e := range s.Engines {
			if e >= 0 {
				engines = append(engines, r.Model.engines[e])
			}
		}
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		rows = append(rows, []string{strconv.Itoa(m.command), s.Op.String(), m.what, m.reason, from, to, strconv.FormatUint(s.Bytes, 10), strings.Join(engines, "; "),
			number(s.Queued), number(s.Ready), number(s.Started), number(s.Ended), number(critical[s.Index]), failed})
	}
	return out.WriteAll(rows)
}

// memory is the name of a memory in the scenario.
func (m *modelResult) memory(i int) string {
	if i >= 0 && i < len(m.memories) {
		return m.memories[i]
	}
	return ""
}

// meaning is what a span was.
func (m *modelResult) meaning(s *profile.Span) meaning {
	if x, ok := m.known[s.Point]; ok {
		return x
	}
	switch s.Op {
	case devices.OpCopy, devices.OpCopyRect:
		return meaning{int(s.Tag), fmt.Sprintf("a leg of %s, %s → %s", sizeText(s.Bytes), m.memory(s.From), m.memory(s.To)), reasonCopy}
	case devices.OpLaunch, devices.OpFill:
		return meaning{int(s.Tag), s.Op.String() + " on " + m.memory(s.On), reasonCompute}
	}
	return meaning{int(s.Tag), s.Op.String() + " on " + m.memory(s.On), reasonHost}
}
