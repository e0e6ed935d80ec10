package scenario

import (
	"fmt"
	"slices"
	"strings"

	"godwit/internal/ledger"
	"godwit/mem"
	"godwit/mem/trace"
)

// The explanation of a run. It is told, in enqueue order, what every command
// accesses and which copies the planner inserted. From a ledger of who wrote which
// bytes and which memory holds whose it says why each copy was made, in words; it
// asks the planner nothing, so that a wrong plan would show as a contradiction here
// (see problems).

// initial is the writer of content that a buffer was created with; commands
// count from 1, and 0 is nobody.
const initial = -1

// explainer explains the copies of a run.
type explainer struct {
	memories []string         // names, by MemoryID
	commands func(int) string // names a command for people
	names    map[mem.BufferID]string
	ledger   *ledger.Ledger[int]             // writers are commands
	store    func(mem.MemoryID) mem.MemoryID // memories that share their bytes have one
	ended    func(mem.Point) end             // how a copy ended
	began    int64                           // when the first command was enqueued, by the clock of ends
	path     func(mem.Point) []string        // which way a copy went on a machine; nil: the run was on none
	gone     map[block]int                   // the command for which a block went last
	backing  bool                            // the copies told write blocks back, also where what is there is a mere promise
	again    bool                            // of the copy told last: its destination held some of it until the block had to go
	watched  []watched                       // bytes whose journeys are told
	problems []string
}

// reason says why the step was needed, and notes its effect.
func (x *explainer) reason(s *trace.StepRecord, failed bool) (why string, writers []int) {
	stores := *s
	stores.From, stores.To = x.store(s.From), x.store(s.To)
	s = &stores
	var parts []string
	last := ""
	for segment, c := range x.ledger.Segments(s.Buffer, s.Range) {
		if !c.Valid.Has(s.From) && !failed {
			x.problems = append(x.problems, fmt.Sprintf("%s %v was copied from %s, which does not hold its latest content", x.names[s.Buffer], segment, x.memories[s.From]))
		}
		if c.Valid.Has(s.To) && s.RideAlong == 0 && !x.backing {
			x.problems = append(x.problems, fmt.Sprintf("%s %v was copied to %s, which holds its latest content", x.names[s.Buffer], segment, x.memories[s.To]))
		}
		if c.Writer != 0 && !slices.Contains(writers, c.Writer) {
			writers = append(writers, c.Writer)
		}
		for _, had := range x.ledger.Held(s.Buffer, s.To, segment) {
			x.again = x.again || had == c.Writer && x.gone[block{s.Buffer, s.To}] > 0
			if text := x.phrase(c, had, s); text != last {
				parts = append(parts, text)
				last = text
			}
		}
	}
	if !failed {
		x.ledger.Brought(s, x.counted(s), true)
	}
	const shown = 3
	if n := len(parts) - shown; n > 0 {
		parts = append(parts[:shown:shown], fmt.Sprintf("and so on for %d more ranges", n))
	}
	return strings.Join(parts, "; "), writers
}

// counted is how many bytes of its buffer a late copy found to matter.
func (x *explainer) counted(s *trace.StepRecord) uint64 {
	if s.Count == 0 {
		return 0
	}
	return x.ended(s.Point).Count
}

// phrase explains one segment of a step: c is what is latest there, had the
// writer of what the destination held.
func (x *explainer) phrase(c ledger.Content[int], had int, s *trace.StepRecord) string {
	to, from := x.memories[s.To], x.memories[s.From]
	var fresh string
	switch c.Writer {
	case 0:
		return to + " never held it; nobody has written it"
	case initial:
		fresh = "its initial content is on " + from
	default:
		fresh = fmt.Sprintf("#%d %s wrote it", c.Writer, x.commands(c.Writer))
		if c.Valid.Empty() {
			fresh = fmt.Sprintf("#%d %s was to write it, and failed", c.Writer, x.commands(c.Writer))
		}
		if first, _ := c.Valid.First(); c.Valid.Len() > 1 || first == s.From {
			fresh += ", fresh on " + from
		}
	}
	switch had {
	case c.Writer:
		if n := x.gone[block{s.Buffer, s.To}]; n > 0 {
			return fmt.Sprintf("%s held it until #%d needed the room; %s", to, n, fresh)
		}
		return to + " held as much of it as an earlier count says; " + fresh
	case 0:
		return to + " never held it; " + fresh
	case initial:
		return to + " held its initial content, stale since " + fresh
	}
	return fmt.Sprintf("%s held what #%d wrote, stale since %s", to, had, fresh)
}

// segment is a run of bytes of a buffer that have one writer and one set of
// memories holding them.
type segment struct {
	Buffer   string   `json:"buffer"`
	Offset   uint64   `json:"offset"`
	Bytes    uint64   `json:"bytes"`
	Memories []string `json:"memories"`   // that hold the latest content
	Writer   int      `json:"written_by"` // command, from 1; 0 nobody, -1 initial content
}

// segmentsOf lists a range of a buffer.
func (x *explainer) segmentsOf(id mem.BufferID, of mem.Range) (out []segment) {
	for r, c := range x.ledger.Segments(id, of) {
		s := segment{Buffer: x.names[id], Offset: r.Start, Bytes: r.Size(), Writer: c.Writer, Memories: []string{}}
		for m := range c.Valid.All() {
			s.Memories = append(s.Memories, x.memories[m])
		}
		out = append(out, s)
	}
	return out
}

// copy describes a step.
func (x *explainer) copy(s *trace.StepRecord, command int, failed bool) copyResult {
	x.again = false
	why, writers := x.reason(s, failed)
	out := copyResult{
		Buffer: x.names[s.Buffer], Offset: s.Range.Start, Bytes: s.Range.Size(),
		From: x.memories[s.From], To: x.memories[s.To], Way: s.Way.String(), RideAlong: s.RideAlong,
		Reason: why, Choice: s.Choice, Writers: writers, Command: command, Again: x.again && !x.backing,
		step: s,
	}
	x.late(s, &out)
	x.noteCopy(s, &out, failed)
	return out
}
