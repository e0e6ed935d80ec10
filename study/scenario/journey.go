package scenario

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"godwit/internal/figures"
	"godwit/mem"
	"godwit/mem/trace"
)

// journey is what became of some bytes of a buffer in a run: every command that
// touched them, every copy of them, and every block with them that was given up, in
// the order in which they were planned, each with who held the latest content then.
type journey struct {
	Place  string        `json:"place"` // as asked for
	Buffer string        `json:"buffer"`
	Offset uint64        `json:"offset"`
	Bytes  uint64        `json:"bytes"`
	Before []segment     `json:"before"` // who held them before the first command
	Events []journeyStep `json:"events"`
}

// journeyStep is one event of a Journey.
type journeyStep struct {
	Command int       `json:"command"` // number of the command, or of the one that it was done for
	What    string    `json:"what"`    // "read", "write", "read-write", "copy", "write-back", "evict", or "end" of a graph's round
	Text    string    `json:"text"`
	On      string    `json:"on"` // the memory; of copies the destination
	Offset  uint64    `json:"offset"`
	Bytes   uint64    `json:"bytes"` // of the journey's bytes that it touched
	Why     string    `json:"why,omitempty"`
	Started int64     `json:"started_ns,omitempty"` // since the first command was enqueued; 0 is not known
	Ended   int64     `json:"ended_ns,omitempty"`
	Path    []string  `json:"path,omitempty"` // links, switches and memories of a machine that a copy went by
	Failed  bool      `json:"failed,omitempty"`
	After   []segment `json:"after"` // who holds the journey's bytes afterwards
}

// watched is a journey that is being recorded.
type watched struct {
	id mem.BufferID
	r  mem.Range
	to *journey
}

// watch begins the journeys that the run was asked for.
func (r *runner) watch(res *Result) {
	for _, p := range r.opt.Explain {
		j := &journey{Place: r.s.placeText(p, p.Range), Buffer: r.s.Buffers[p.Buffer].Name, Offset: p.Range.Start, Bytes: p.Range.Size(), Events: []journeyStep{}}
		res.Journeys = append(res.Journeys, j)
		w := watched{id: r.ids[p.Buffer], r: p.Range, to: j}
		j.Before = r.x.segmentsOf(w.id, w.r)
		r.x.watched = append(r.x.watched, w)
	}
}

// at says when an event was in virtual time, and which way it took. It is that of a point.
func (x *explainer) at(p mem.Point, e journeyStep) journeyStep {
	if x.path == nil {
		return e
	}
	if end := x.ended(p); end.Ended > 0 {
		e.Started, e.Ended = max(end.Started-x.began, 0), end.Ended-x.began
	}
	e.Path = x.path(p)
	return e
}

// note adds an event to the journeys of the bytes of r.
func (x *explainer) note(id mem.BufferID, r mem.Range, e journeyStep) {
	for _, w := range x.watched {
		if part := w.r.Intersect(r); w.id == id && !part.Empty() {
			e.Offset, e.Bytes, e.After = part.Start, part.Size(), x.segmentsOf(id, w.r)
			w.to.Events = append(w.to.Events, e)
		}
	}
}

// noteCommand adds what a command did with the bytes that are watched.
func (x *explainer) noteCommand(c *commandResult, accesses []mem.Access, p mem.Point) {
	if len(x.watched) == 0 {
		return
	}
	for _, a := range accesses {
		x.note(a.Buffer, a.Range, x.at(p, journeyStep{Command: c.Number, What: a.Mode.String(), Text: c.Text, On: x.memories[a.Memory], Failed: c.Failed != ""}))
	}
}

// noteCopy adds a copy.
func (x *explainer) noteCopy(s *trace.StepRecord, c *copyResult, failed bool) {
	if len(x.watched) == 0 || c.Bytes == 0 {
		return
	}
	what := "copy"
	if x.backing {
		what = "write-back"
	}
	x.note(s.Buffer, s.Range, x.at(s.Point, journeyStep{Command: c.Command, What: what, Text: c.From + " → " + c.To + ", " + wayText(c), On: c.To, Why: whyText(c), Failed: failed}))
}

// journeys shows the journeys that were asked for.
func (p *printer) journeys() {
	for _, j := range p.r.Journeys {
		r := mem.Range{Start: j.Offset, End: j.Offset + j.Bytes}
		of := j.Place
		if root := j.Buffer + rangeText(r); of != root && of != j.Buffer {
			of += ", which is " + root
		}
		fmt.Fprintf(p.w, "%s: %s\n\n", p.paint("the journey of "+of, text.Bold), sizeText(j.Bytes))
		header := []any{">#", "on", "what", "bytes", "latest content then on", "why"}
		timed := p.r.Model != nil
		if timed {
			header = append(header, ">at", ">for")
		}
		t := figures.NewTable(header...)
		last := p.holders(j, j.Before)
		t.Row("", "", "before the first command", rangeText(r), last, "")
		for i := range j.Events {
			e := &j.Events[i]
			what := e.What + ": " + e.Text
			if len(e.Path) > 0 {
				what += " by " + strings.Join(e.Path, ", ")
			}
			if e.Failed {
				what += " " + p.paint("(failed)", text.FgRed)
			}
			now := p.holders(j, e.After)
			shown := now
			if now == last {
				shown = "" // as before
			}
			last = now
			row := []any{e.Command, e.On, what, rangeText(mem.Range{Start: e.Offset, End: e.Offset + e.Bytes}), shown, p.paint(e.Why, text.Faint)}
			if timed && e.Ended > 0 {
				row = append(row, briefSpan(uint64(e.Started)), briefSpan(uint64(e.Ended-e.Started)))
			}
			t.Row(row...)
		}
		p.render(t)
	}
}

// holders says who holds what of a journey's bytes, and who wrote it.
func (p *printer) holders(j *journey, segments []segment) string {
	var parts []string
	for i := range segments {
		s := &segments[i]
		where := "nobody"
		switch {
		case len(s.Memories) > 0:
			where = strings.Join(s.Memories, ", ")
		case s.Writer != 0:
			where = "lost"
		}
		if s.Writer > 0 {
			where += fmt.Sprintf(" (#%d)", s.Writer)
		}
		if s.Offset != j.Offset || s.Bytes != j.Bytes {
			where = rangeText(mem.Range{Start: s.Offset, End: s.Offset + s.Bytes}) + " " + where
		}
		parts = append(parts, where)
	}
	return strings.Join(parts, "; ")
}
