package scenario

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/yaml"
	"godwit/runtime"
)

// Repeats that are graphs (graph: true): the first round is recorded, and all are replays
// of it. So rounds may differ only in what a replay can change: values that kernels are given, what
// writes write, and which buffers of one size stand at a place, which then is a slot.

// graphDecl is a repeat that is a graph.
type graphDecl struct {
	Line       int   `json:"-"`
	Size       int   // commands of a round
	Rounds     []int // index of the first command of each round
	Transients []int `json:",omitempty"` // indexes into Buffers: content ends with each round

	slots []map[handle]handle // by round: what stands there for objects of the first round that are others
}

// handle is what a place is in: a buffer, or a view where view is not negative.
type handle struct{ buffer, view int }

func (p place) handle() handle { return handle{p.Buffer, p.View} }

// errorAt records a broken rule of a line.
func (l *loader) errorAt(line int, format string, args ...any) {
	l.faults++
	l.errs = append(l.errs, &yaml.Error{File: l.file, Line: line, Rule: fmt.Sprintf(format, args...)})
}

// beginGraph begins with the rounds of a repeat that is a graph, unless it is in one.
func (l *loader) beginGraph(m *mapping) bool {
	if l.graph > 0 {
		l.errorf(m.get("graph"), "repeat: graph: it is in the graph of line %d: a round is recorded as one", l.out.Graphs[l.graph-1].Line)
		return false
	}
	line := m.Node.GetToken().Position.Line
	k := slices.IndexFunc(l.out.Graphs, func(g graphDecl) bool { return g.Line == line })
	if k < 0 {
		k = len(l.out.Graphs)
		l.out.Graphs = append(l.out.Graphs, graphDecl{Line: line})
		for _, n := range l.list(m.get("transient")) {
			l.out.Graphs[k].Transients = append(l.out.Graphs[k].Transients, l.transients(n)...)
		}
	}
	l.graph = k + 1
	return true
}

// transients are the buffers named at n, whose content ends with each round: one, or all that were declared under the name with a count.
func (l *loader) transients(n ast.Node) (out []int) {
	name := l.expanded(n, "repeat: transient")
	if _, ok := l.lookup(name); !ok {
		for i := range l.out.Buffers {
			if number, family := strings.CutPrefix(l.out.Buffers[i].Name, name); family && number != "" && strings.Trim(number, "0123456789") == "" {
				l.transient(n, place{Buffer: i, View: -1, Name: l.out.Buffers[i].Name})
				out = append(out, i)
			}
		}
	}
	if p := (place{}); len(out) == 0 {
		if p = l.placeNamed(n, "repeat: transient"); p.Name != "" {
			l.transient(n, p)
			out = append(out, p.Buffer)
		}
	}
	return out
}

// transient refuses what can be no transient.
func (l *loader) transient(n ast.Node, p place) {
	switch b := &l.out.Buffers[p.Buffer]; {
	case p.View >= 0, b.SVM != nil, b.SizeBuffer > 0:
		l.errorf(n, "repeat: transient %q: want a whole buffer, without a content size and not of shared virtual memory", p.Name)
	case b.Data != nil || b.Flags&(runtime.UseHostPtr|runtime.AllocHostPtr|runtime.CopyHostPtr) != 0:
		l.errorf(n, "repeat: transient %q: it has content, or the host's memory: a transient has none when a round begins", p.Name)
	}
}

// endRound ends a round of the graph, which began with command start. faults is how many there were before the graph.
func (l *loader) endRound(m *mapping, start, faults int) {
	g := &l.out.Graphs[l.graph-1]
	size := len(l.out.Commands) - start
	switch {
	case l.faults > faults:
		return
	case size == 0:
		l.errorf(m.Node, "repeat: graph: a round has no commands")
		return
	case len(g.Rounds) == 0:
		g.Size = size
	case g.Size != size:
		l.errorf(m.Node, "repeat: graph: round %d has %d commands, the first has %d: a graph is recorded once", len(g.Rounds)+1, size, g.Size)
		return
	}
	g.Rounds = append(g.Rounds, start)
	stands := make(map[handle]handle)
	for k := range size {
		c := &l.out.Commands[start+k]
		l.spend(8)
		if what := l.out.differs(g, k, start, stands); what != "" {
			l.errorAt(c.Line, "%s: round %d of the graph of line %d has another %s: it is recorded once; only values, what is written, and which buffers of one size are used may differ",
				l.out.text(c), len(g.Rounds), g.Line, what)
			return
		}
	}
	maps.DeleteFunc(stands, func(first, now handle) bool { return first == now })
	g.slots = append(g.slots, stands)
}

// checkTransients refuses uses of transients outside of their graph.
func (l *loader) checkTransients() {
	of := make(map[int]int)
	for k, g := range l.out.Graphs {
		for _, b := range g.Transients {
			if had := of[b]; had > 0 && had != k+1 {
				l.errorAt(g.Line, "repeat: transient %q: it is one of the graph of line %d", l.out.Buffers[b].Name, l.out.Graphs[had-1].Line)
			}
			of[b] = k + 1
		}
	}
	if l.faults > 0 {
		return
	}
	for i := 0; i < len(l.out.Commands) && len(of) > 0; i++ {
		c := &l.out.Commands[i]
		for _, u := range l.out.uses(c) {
			if k := of[u.buffer]; k > 0 && k != c.Graph {
				l.errorAt(c.Line, "%s: %s is a transient of the graph of line %d: it has no content outside", l.out.text(c), l.out.Buffers[u.buffer].Name, l.out.Graphs[k-1].Line)
			}
		}
	}
}

// recordable refuses a command of a graph that no recording takes.
func (l *loader) recordable(m *mapping, c *command, start int) {
	t, line := c.kind().traits(), l.out.Graphs[c.Graph-1].Line
	after := append(slices.Clip(c.After), c.Order...)
	outside := slices.IndexFunc(after, func(a int) bool { return a < start })
	switch {
	case t.unqueued || t.infallible || c.Now:
		l.errorf(m.Node, "%s: it cannot be in the graph of line %d: what only the host does is not recorded", m.What, line)
	case c.Data != nil && c.Data.pointers != nil:
		l.errorf(m.Node, "%s: pointers: they cannot be in the graph of line %d: an address is known only when it runs", m.What, line)
	case c.Blocking:
		l.errorf(m.Node, "%s: blocking: it cannot be in the graph of line %d: a recorded command is not waited for", m.What, line)
	case len(c.Events) > 0:
		l.errorf(m.Node, "%s: after %q: a user event: commands of the graph of line %d wait for commands of their round only", m.What, l.out.Events[c.Events[0]].Name, line)
	case outside >= 0:
		l.errorf(m.Node, "%s: it waits for the %s of line %d: commands of the graph of line %d wait for commands of their round only", m.What, l.out.Commands[after[outside]].verb(), l.out.Commands[after[outside]].Line, line)
	}
}

// differs says in what command k of the round that begins with start differs from that of the first round
// though it may not, or "". stands says which object stands for which of the first round.
func (s *Scenario) differs(g *graphDecl, k, start int, stands map[handle]handle) string {
	first, now := &s.Commands[g.Rounds[0]+k], &s.Commands[start+k]
	a, b := s.form(first, g.Rounds[0]), s.form(now, start)
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for _, f := range reflect.VisibleFields(x.Type()) {
		if f.IsExported() && !reflect.DeepEqual(x.FieldByIndex(f.Index).Interface(), y.FieldByIndex(f.Index).Interface()) {
			return s.unlike(f.Name, x.FieldByIndex(f.Index), y.FieldByIndex(f.Index))
		}
	}
	if first.variant() != now.variant() {
		return "kernel"
	}
	p, q := first.places(), now.places()
	for i := range p {
		was, is := p[i].handle(), q[i].handle()
		if as, ok := stands[was]; ok && as != is || s.objectSize(was) != s.objectSize(is) || was != is && (s.isSVM(*p[i]) || s.isSVM(*q[i]) || slices.Contains(g.Transients, p[i].Buffer)) {
			return "buffer at the place of " + p[i].Name
		}
		stands[was] = is
	}
	return ""
}

// sizeOf is the size of an object in bytes.
func (s *Scenario) objectSize(o handle) uint64 {
	if o.view >= 0 {
		return s.Views[o.view].Range.Size()
	}
	return s.Buffers[o.buffer].Size
}

// start is where an object begins in its buffer.
func (s *Scenario) start(o handle) uint64 {
	if o.view >= 0 {
		return s.Views[o.view].Range.Start
	}
	return 0
}

// roundOf is the graph of a command with which a round begins, or with last ends; else nil.
func (s *Scenario) roundOf(i int, last bool) *graphDecl {
	k := s.Commands[i].Graph
	if k == 0 {
		return nil
	}
	g := &s.Graphs[k-1]
	if last {
		i -= g.Size - 1
	}
	if _, begins := slices.BinarySearch(g.Rounds, i); !begins {
		return nil
	}
	return g
}

// replayed reports whether command i is of a graph's replay.
func (s *Scenario) replayed(i int) bool { return s.Commands[i].Graph > 0 && !s.Unrecorded }

// places are those of buffers that a command names.
func (c *command) places() (out []*place) {
	for _, p := range []*place{&c.Place, &c.To} {
		if p.Name != "" {
			out = append(out, p)
		}
	}
	for i := range c.Places {
		out = append(out, &c.Places[i])
	}
	for a := range c.buffers {
		out = append(out, &a.Place)
	}
	return out
}

// unlike says how two rounds differ in a field.
func (s *Scenario) unlike(field string, first, now reflect.Value) string {
	name := strings.ToLower(field)
	if field == "Queue" {
		return fmt.Sprintf("queue, %s and not %s as in the first", s.Queues[now.Int()].Name, s.Queues[first.Int()].Name)
	}
	if k := first.Kind(); k == reflect.Slice || k == reflect.Struct || k == reflect.Pointer {
		return name
	}
	return fmt.Sprintf("%s, %v and not %v as in the first", name, now.Interface(), first.Interface())
}

// form is a command of the round that begins with start, without what may be another in each round of a graph.
func (s *Scenario) form(c *command, start int) command {
	f, of := *c, *c.launch
	f.launch = &of
	f.ID, f.Line, f.Callbacks, f.Profile, f.Loop, f.Data = "", 0, nil, false, loop{}, nil
	f.After = nil
	for _, a := range c.After {
		f.After = append(f.After, a-start)
	}
	f.Order = nil // by what is used
	f.Args, f.Indirect, f.Places = slices.Clone(c.Args), slices.Clone(c.Indirect), slices.Clone(c.Places)
	for i := range f.Args {
		if a := &f.Args[i]; !a.Buffer && a.Local == 0 {
			a.Text, a.Value = "", make([]byte, len(a.Value))
		} else if a.Place.Name != "" {
			at := s.start(a.Place.handle())
			a.Used.Start, a.Used.End = a.Used.Start-at, a.Used.End-at
		}
	}
	for _, p := range f.places() {
		at := s.start(p.handle())
		*p = place{Range: p.Range}
		p.Range.Start, p.Range.End = p.Range.Start-at, p.Range.End-at
	}
	return f
}
