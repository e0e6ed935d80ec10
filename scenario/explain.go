package scenario

import (
	"fmt"
	"slices"
	"strings"

	"godwit/mem"
	"godwit/mem/rangemap"
	"godwit/trace"
)

// The explanation of a run. It is told, in enqueue order, what every command
// accesses and which copies the planner inserted, and keeps its own account of
// who wrote which bytes and which memory holds whose. From that it says why
// each copy was made, in words; it asks the planner nothing, so that a wrong
// plan would show as a contradiction here (see problems).

// initial is the writer of content that a buffer was created with; commands
// count from 1, and 0 is nobody.
const initial = -1

// content is who wrote bytes last, and where their content is.
type content struct {
	writer int
	valid  mem.MemorySet
}

// account is what is known of one buffer.
type account struct {
	name   string
	latest rangemap.Map[content]
	held   []*rangemap.Map[int] // by memory: the writer of what it holds; nil is nothing

	count mem.BufferID                         // its size buffer, or 0
	part  map[mem.MemoryID]*rangemap.Map[bool] // what is held as far as a count says
}

// explainer keeps the accounts of a run.
type explainer struct {
	memories []string         // names, by MemoryID
	commands func(int) string // names a command for people
	accounts map[mem.BufferID]*account
	store    func(mem.MemoryID) mem.MemoryID // memories that share their bytes have one
	problems []string
	ended    func(mem.Point) trace.CompletionRecord // how a copy ended
}

func newExplainer(memories []string, commands func(int) string) *explainer {
	return &explainer{memories: memories, commands: commands, accounts: make(map[mem.BufferID]*account), store: func(m mem.MemoryID) mem.MemoryID { return m }}
}

// create opens a buffer's account.
func (x *explainer) create(id mem.BufferID, name string, size uint64, init bool) {
	a := &account{name: name, held: make([]*rangemap.Map[int], len(x.memories))}
	c := content{}
	if init {
		c = content{initial, mem.SetOf(mem.Host)}
		held := rangemap.Make(size, initial)
		a.held[mem.Host] = &held
	}
	a.latest = rangemap.Make(size, c)
	x.accounts[id] = a
}

// hold notes that memory m holds the latest content of r.
func (a *account) hold(m mem.MemoryID, r mem.Range) {
	if a.held[m] == nil {
		held := rangemap.Make(a.latest.Size(), 0)
		a.held[m] = &held
	}
	a.latest.Overlap(r, func(part mem.Range, c content) bool {
		a.held[m].Set(part, c.writer)
		return true
	})
	a.latest.Update(r, func(_ mem.Range, c content) content {
		c.valid = c.valid.With(m)
		return c
	})
}

// reason says why the step was needed, and notes its effect.
func (x *explainer) reason(s *trace.StepRecord, failed bool) (why string, writers []int) {
	stores := *s
	stores.From, stores.To = x.store(s.From), x.store(s.To)
	s = &stores
	a := x.accounts[s.Buffer]
	var parts []string
	last := ""
	a.latest.Overlap(s.Range, func(part mem.Range, c content) bool {
		if !c.valid.Has(s.From) && !failed {
			x.problems = append(x.problems, fmt.Sprintf("%s %v was copied from %s, which does not hold its latest content", a.name, part, x.memories[s.From]))
		}
		if c.valid.Has(s.To) && s.RideAlong == 0 {
			x.problems = append(x.problems, fmt.Sprintf("%s %v was copied to %s, which holds its latest content", a.name, part, x.memories[s.To]))
		}
		if c.writer != 0 && !slices.Contains(writers, c.writer) {
			writers = append(writers, c.writer)
		}
		say := func(_ mem.Range, had int) bool {
			if text := x.phrase(c, had, s); text != last {
				parts = append(parts, text)
				last = text
			}
			return true
		}
		if h := a.held[s.To]; h != nil {
			h.Overlap(part, say)
		} else {
			say(part, 0)
		}
		return true
	})
	if !failed {
		a.hold(s.To, s.Range)
		a.partly(s.To, s.Range, s.Late && s.Count != 0)
	}
	const shown = 3
	if n := len(parts) - shown; n > 0 {
		parts = append(parts[:shown:shown], fmt.Sprintf("and so on for %d more ranges", n))
	}
	return strings.Join(parts, "; "), writers
}

// phrase explains one segment of a step: c is what is latest there, had the
// writer of what the destination held.
func (x *explainer) phrase(c content, had int, s *trace.StepRecord) string {
	to, from := x.memories[s.To], x.memories[s.From]
	var fresh string
	switch c.writer {
	case 0:
		return to + " never held it; nobody has written it"
	case initial:
		fresh = "its initial content is on " + from
	default:
		fresh = fmt.Sprintf("#%d %s wrote it", c.writer, x.commands(c.writer))
		if c.valid.Empty() {
			fresh = fmt.Sprintf("#%d %s was to write it, and failed", c.writer, x.commands(c.writer))
		}
		if first, _ := c.valid.First(); c.valid.Len() > 1 || first == s.From {
			fresh += ", fresh on " + from
		}
	}
	switch had {
	case c.writer:
		return to + " held as much of it as an earlier count says; " + fresh
	case 0:
		return to + " never held it; " + fresh
	case initial:
		return to + " held its initial content, stale since " + fresh
	}
	return fmt.Sprintf("%s held what #%d wrote, stale since %s", to, had, fresh)
}

// use notes the effect of a command's own accesses.
func (x *explainer) use(command int, accesses []mem.Access, failed bool) {
	for _, u := range accesses {
		if !u.Mode.Writes() {
			continue
		}
		a, m := x.accounts[u.Buffer], x.store(u.Memory)
		if failed { // nobody has what it was to write
			a.latest.Set(u.Range, content{writer: command})
			continue
		}
		a.latest.Set(u.Range, content{command, mem.SetOf(m)})
		a.hold(m, u.Range)
		x.written(u.Buffer, u.Range)
	}
}

// Segment is a run of bytes of a buffer that have one writer and one set of
// memories holding them.
type Segment struct {
	Buffer   string   `json:"buffer"`
	Offset   uint64   `json:"offset"`
	Bytes    uint64   `json:"bytes"`
	Memories []string `json:"memories"`   // that hold the latest content
	Writer   int      `json:"written_by"` // command, from 1; 0 nobody, -1 initial content
}

// segments lists all bytes of a buffer.
func (x *explainer) segments(id mem.BufferID) []Segment {
	var out []Segment
	a := x.accounts[id]
	for r, c := range a.latest.All() {
		s := Segment{Buffer: a.name, Offset: r.Start, Bytes: r.Size(), Writer: c.writer, Memories: []string{}}
		for m := range c.valid.All() {
			s.Memories = append(s.Memories, x.memories[m])
		}
		out = append(out, s)
	}
	return out
}

// copy describes a step.
func (x *explainer) copy(s *trace.StepRecord, command int, failed bool) CopyResult {
	why, writers := x.reason(s, failed)
	out := CopyResult{
		Buffer: x.accounts[s.Buffer].name, Offset: s.Range.Start, Bytes: s.Range.Size(),
		From: x.memories[s.From], To: x.memories[s.To], Way: s.Way.String(), RideAlong: s.RideAlong,
		Reason: why, Choice: s.Choice, Writers: writers, Command: command,
	}
	x.late(s, &out)
	return out
}
