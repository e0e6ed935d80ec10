package tracelog

import (
	"fmt"
	"slices"
	"strings"

	"godwit/mem"
	"godwit/mem/trace"
)

// describe collects a command's line and those of its copies. The account is as
// it was before the command, c.log.mu is held.
func (c *sink) describe(r *trace.CommandRecord, what string) {
	l := c.log
	l.line = fmt.Appendf(l.line, "%s#%d %s: %s", c.prefix(), r.ID, c.names[r.Memory], what)
	if r.Kernel != "" {
		l.line = append(l.line, " launch"...)
	}
	for i, u := range r.Accesses {
		sep := ", "
		if i == 0 {
			sep = " "
		}
		if len(r.Accesses) > 1 || r.Kernel != "" { // else the command says how
			l.line = append(append(l.line, sep...), verb(u.Mode)...)
			sep = " "
		}
		l.line = append(append(l.line, sep...), c.place(u.Buffer, u.Range)...)
	}
	switch {
	case r.Again:
		l.line = append(l.line, ": waits for the room of what leaves for it, and is tried again"...)
	case r.Err != nil:
		l.line = fmt.Appendf(l.line, ": refused: %v", r.Err)
	}
	c.describeEvictions(r)
	for i := range r.Steps {
		s := &r.Steps[i]
		if r.Err != nil && s.Point.IsZero() {
			continue // planned, but not submitted
		}
		l.line = fmt.Appendf(l.line, "\n    copy %s, %s → %s%s: %s", c.place(s.Buffer, s.Range), c.names[s.From], c.names[s.To], way(s), c.why(s))
	}
}

// prefix tells contexts apart where there are several.
func (c *sink) prefix() string {
	if c.number == 1 {
		return ""
	}
	return fmt.Sprintf("context %d ", c.number)
}

func verb(m mem.Mode) string {
	switch m {
	case mem.Read:
		return "reads"
	case mem.Write:
		return "writes"
	}
	return "reads and writes"
}

// place names a range of a buffer.
func (c *sink) place(id mem.BufferID, r mem.Range) string {
	a := c.buffers[id]
	if a == nil {
		return fmt.Sprintf("%s of an unknown buffer", mem.FormatBytes(r.Size()))
	}
	if r.Start == 0 && r.End == a.Size {
		return fmt.Sprintf("%s (%s)", a.Name, mem.FormatBytes(r.Size()))
	}
	return fmt.Sprintf("%s of %s at %d", mem.FormatBytes(r.Size()), a.Name, r.Start)
}

func way(s *trace.StepRecord) string {
	if s.Way == mem.Direct && (s.From == mem.Host || s.To == mem.Host) {
		return "" // how else
	}
	return ", " + s.Way.Phrase()
}

// why is the reason for a copy: what its destination lacks, who wrote that and
// where it is.
func (c *sink) why(s *trace.StepRecord) string {
	if c.buffers[s.Buffer] == nil {
		return s.Why
	}
	var lacks []string
	for _, b := range c.ledger.Segments(s.Buffer, s.Range) {
		if b.Valid.Has(s.To) || b.Writer == (writer{}) {
			continue
		}
		if text := b.Writer.String(); !slices.Contains(lacks, text) {
			lacks = append(lacks, text)
		}
	}
	const shown = 3
	if n := len(lacks) - shown; n > 0 {
		lacks = append(lacks[:shown:shown], fmt.Sprintf("%d more", n))
	}
	text := c.names[s.To] + " lacks " + strings.Join(lacks, " and ")
	if s.Fresh.Len() > 1 {
		text += fmt.Sprintf("; %s of %d that hold it: %s", c.names[s.From], s.Fresh.Len(), s.Choice)
	}
	if s.RideAlong > 0 {
		text += fmt.Sprintf("; %s ride along", mem.FormatBytes(s.RideAlong))
	}
	return text
}

func (w writer) String() string {
	if w == initial {
		return w.what
	}
	return fmt.Sprintf("what #%d %s wrote", w.command, w.what)
}
