package scenario

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
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

// briefSpan is a measured time for people: as precise as one is.
func briefSpan(ns uint64) string {
	unit := uint64(1)
	for ns/unit >= 10_000 {
		unit *= 10
	}
	return time.Duration(ns).Round(time.Duration(unit)).String()
}

func shareText(part, whole uint64) string { return cmp.Or(share(part, whole), "-") }

// makespan shows what a run on a machine took, and by what.
func (p *printer) makespan() {
	if m := p.r.Makespans; m != nil {
		fmt.Fprintf(p.w, "makespan by the clock of %s: %s, the median of %s (%s to %s) after %d that do not count\n",
			m.Clock, p.paint(briefSpan(m.Median), text.Bold), count(len(m.Each), "time", "times"), briefSpan(m.Least), briefSpan(m.Most), m.Warm)
	}
	if m := p.r.Model; m != nil {
		fmt.Fprintf(p.w, "modelled on %s: %s; %s\n\n", m.Machine, p.paint(spanText(m.Makespan), text.Bold), m.reasonsText())
		p.oneMemory(m)
	}
	if m := p.r.Measured; m != nil {
		longer := ""
		if all := p.r.Makespans; all != nil && all.Median > 0 {
			longer = fmt.Sprintf(" (%.2f times the median)", float64(m.Makespan)/float64(all.Median))
		}
		fmt.Fprintf(p.w, "measured on this computer, taking the times of commands: %s%s; %s\n", p.paint(briefSpan(m.Makespan), text.Bold), longer, m.reasonsText())
		if m.NoLinks != "" {
			fmt.Fprintln(p.w, m.NoLinks)
		}
		fmt.Fprintln(p.w)
	}
}

// reasonsText says where the time of a path went.
func (m *pathResult) reasonsText() string {
	whole := m.Reasons.Compute + m.Reasons.Copy + m.Reasons.Memory + m.Reasons.Host
	own := ""
	if m.Reasons.Own > 0 {
		own = fmt.Sprintf(" (%s the program's own)", shareText(m.Reasons.Own, whole))
	}
	return fmt.Sprintf("of the critical path compute %s, copies %s%s, copies since memory was short %s, host %s",
		shareText(m.Reasons.Compute, whole), shareText(m.Reasons.Copy, whole), own, shareText(m.Reasons.Memory, whole), shareText(m.Reasons.Host, whole))
}

// oneMemory says what is missing from the times.
func (p *printer) oneMemory(m *modelResult) {
	if n := len(m.OneMemory); n > 0 {
		most := min(n, 3)
		fmt.Fprintf(p.w, "not in these times: what a device of one host left in the host's memory and one of another took from there went no way between both: %s%s\n\n",
			strings.Join(m.OneMemory[:most], ", "), andMore(n-most))
	}
}

// andMore is how many there are besides.
func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// paths shows the critical path, and of a machine what was how busy.
func (p *printer) paths() {
	if m := p.r.Model; m != nil {
		p.path(&m.pathResult)
		p.use(m)
	}
	if m := p.r.Measured; m != nil {
		p.path(&m.pathResult)
	}
}

// path shows the critical path; of a long one its beginning and its end.
func (p *printer) path(m *pathResult) {
	const ends = 15
	t := figures.NewTable(">at", ">for", "critical path", "after", ">of it shared", "with")
	for i := 0; i < len(m.Path); i++ {
		if n := len(m.Path) - 2*ends; i == ends && n > 1 && !p.opt.All {
			var sum uint64
			for _, x := range m.Path[i : i+n] {
				sum += x.To - x.From
			}
			t.Row("⋮", spanText(sum), p.paint(fmt.Sprintf("%d more", n), text.Italic))
			i += n - 1
			continue
		}
		x := &m.Path[i]
		shared, with := "", ""
		if x.Shared > 0 {
			shared = spanText(x.Shared)
		}
		if len(x.With) > 0 {
			with = x.With[0] + andMore(len(x.With)-1+x.Others)
		}
		t.Row(spanText(x.From), spanText(x.To-x.From), x.What, p.paint(x.After, text.Faint), shared, with)
	}
	p.render(t)
}

// use shows how busy devices, engines and links were: those that were at all.
func (p *printer) use(m *modelResult) {
	t := figures.NewTable("device, engine", ">commands", ">busy", ">share")
	engines := m.Engines
	for _, d := range m.Devices {
		if d.Spans > 0 {
			t.Row(d.Name, d.Spans, spanText(d.Busy), shareText(d.Busy, m.whole))
		}
		for len(engines) > 0 && strings.HasPrefix(engines[0].Name, d.Name+" ") {
			if e := engines[0]; e.Spans > 0 {
				t.Row("  "+e.Name, e.Spans, spanText(e.Busy), shareText(e.Busy, m.whole))
			}
			engines = engines[1:]
		}
	}
	p.render(t)
	header := []any{"link, switch, memory", ">carried", ">busy", ">share", ">full"}
	if slices.ContainsFunc(m.Links, func(l linkUse) bool { return l.Twice > 0 }) {
		header = append(header, ">makespan if twice as fast")
	}
	t = figures.NewTable(header...)
	for _, l := range m.Links {
		twice := ""
		if l.Twice > 0 {
			twice = fmt.Sprintf("%s (%.2f times)", briefSpan(l.Twice), float64(l.Twice)/float64(m.Makespan))
		}
		t.Row([]any{l.Name, roughText(l.Bytes), spanText(l.Busy), shareText(l.Busy, m.whole), shareText(l.Full, m.whole), twice}[:len(header)]...)
	}
	if len(m.Links) > 0 {
		p.render(t)
	}
}

// WriteCSV writes what ran on a machine or on this computer's devices, one command or copy a line, in the order of
// the ends. Times are nanoseconds of the run's clock, sizes bytes. It fails where the run does
// not say where its time went, and with w's errors.
func (r *Result) WriteCSV(w io.Writer) error {
	path := r.path()
	if path == nil {
		return fmt.Errorf("%s: the run was on no machine, and took none of this computer's times", r.Scenario)
	}
	critical := make(map[int]int64) // by span: on the critical path
	for _, p := range path.parts {
		if p.Span != nil {
			critical[p.Span.Index] += p.To - p.From
		}
	}
	out := csv.NewWriter(w)
	rows := [][]string{{"command", "op", "what", "reason", "from", "to", "bytes", "engines", "queued_ns", "ready_ns", "started_ns", "ended_ns", "critical_ns", "failed"}}
	for i := range path.spans {
		s := &path.spans[i]
		m := path.meaning(s)
		failed := ""
		if s.Err != nil {
			failed = s.Err.Error()
		}
		from, to := "", ""
		if s.Op == devices.OpCopy || s.Op == devices.OpCopyRect {
			from, to = path.memory(s.From), path.memory(s.To)
		} else {
			to = path.memory(s.On)
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
func (m *pathResult) memory(i int) string {
	if i >= 0 && i < len(m.memories) {
		return m.memories[i]
	}
	return ""
}

// meaning is what a span was.
func (m *pathResult) meaning(s *profile.Span) meaning {
	if x := m.known.At(s.Point); x.command > 0 {
		return m.of.meaning(x)
	}
	switch s.Op {
	case devices.OpCopy, devices.OpCopyRect:
		return meaning{int(s.Tag), fmt.Sprintf("a leg of %s, %s → %s", sizeText(s.Bytes), m.memory(s.From), m.memory(s.To)), reasonCopy, true}
	case devices.OpLaunch, devices.OpFill:
		return meaning{int(s.Tag), s.Op.String() + " on " + m.memory(s.On), reasonCompute, false}
	}
	return meaning{int(s.Tag), s.Op.String() + " on " + m.memory(s.On), reasonHost, false}
}
