package scenario

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/suggest"
	"godwit/internal/yaml"
	"godwit/runtime"
)

func (l *loader) readCommands(m *mapping) {
	n := m.get("commands")
	if l.faults > 0 {
		return // their names and sizes would only raise more
	}
	list, depth := l.list(n), 0
	for k := range max(l.out.Times, 1) {
		if l.out.Times > 1 {
			l.loop, depth = loop{Line: n.GetToken().Position.Line, Round: k, Rounds: l.out.Times}, 1
		}
		for _, n := range list {
			l.readCommand(n, depth)
		}
	}
	l.out.Commands = slices.Clone(l.out.Commands) // without room for more: they are large
	if l.faults == 0 {
		l.checkEnds()
	}
}

func (l *loader) readCommand(n ast.Node, depth int) {
	before := l.faults
	m := l.mapping(n, "command", "command")
	kind := l.kindOfCommand(n, m)
	if kind == "" {
		return
	}
	m.What = kind
	if kind == "repeat" {
		l.readRepeat(m, depth)
		return
	}
	l.limited(n, "commands", len(l.out.Commands)+1, "commands")
	c := command{Kind: op(kind), Line: m.Node.GetToken().Position.Line, Loop: l.loop, Mapping: -1, Queue: -1, Graph: l.graph, launch: noLaunch}
	c.Now = c.Kind == opFree && l.flag(m, "now")
	if !c.kind().traits().unqueued && !c.Now {
		l.readCommon(m, &c)
	}
	c.kind().parse(l, m, &c)
	if l.faults == before {
		l.hold(m.Node, kind, c.hostBytes())
		l.follow(m, &c)
	}
	if c.Graph > 0 && l.faults == before {
		l.recordable(m, &c, l.round)
	}
	if l.faults > before && c.Kind == opMap && c.Mapping >= 0 {
		mp := &l.out.Mappings[c.Mapping]
		l.maps[mp.Name], mp.Unmap = -1, mp.Map // uses of it are no further faults
	}
	if c.ID != "" {
		l.takeID(m, &c)
	}
	if all := l.out.Commands; len(all) == cap(all) { // they are large, and may be a million
		l.out.Commands = slices.Grow(all, len(all))
	}
	l.out.Commands = append(l.out.Commands, c)
}

// readCommon reads what every command of a queue may have: id, queue, after,
// callbacks and profile.
func (l *loader) readCommon(m *mapping, c *command) {
	c.ID = l.expanded(m.get("id"), "id")
	c.Queue = l.queueOf(m, c)
	for _, n := range l.list(m.get("after")) {
		id := l.expanded(n, m.What+": after")
		switch w, ok := l.ids[id]; {
		case !ok:
			l.errorf(n, "%s: after %q: no command above has this id", m.What, id)
		case w.event >= 0:
			c.Events = append(c.Events, w.event)
		default:
			c.After = append(c.After, w.command)
		}
	}
	for _, n := range l.list(m.get("callbacks")) {
		word := l.text(n, m.What+": callbacks")
		status, ok := callbackStates[word]
		switch {
		case !ok && word != "":
			l.misshapen(n, "%s: callbacks %q: want some of submitted, running, complete", m.What, word)
		case slices.Contains(c.Callbacks, status):
			l.errorf(n, "%s: callbacks: %s is there twice", m.What, word)
		case ok:
			c.Callbacks = append(c.Callbacks, status)
		}
	}
	c.Profile = l.flag(m, "profile")
}

// callbackStates are the execution states that callbacks can be asked for.
var callbackStates = map[string]runtime.ExecStatus{"submitted": runtime.Submitted, "running": runtime.Running, "complete": runtime.Complete}

// queueOf reads the queue of a command, or returns the one it has without that.
func (l *loader) queueOf(m *mapping, c *command) int {
	n := m.get("queue")
	switch q := m.get(m.What); {
	case n != nil:
	case (c.Kind == opBarrier || c.Kind == opMarker) && l.plain(q) != nil && yaml.Kind(l.plain(q)) != "nothing":
		n = q
	case c.Kind == opHostRead || c.Kind == opHostWrite || c.Kind == opUnmap: // as the map
		switch i := l.maps[l.expanded(q, m.What)]; {
		case i > 0:
			return l.out.Commands[l.out.Mappings[i-1].Map].Queue
		case i < 0:
			return 0
		}
	}
	name := l.expanded(n, m.What+": queue")
	if n == nil && (c.Kind == opRead || len(l.out.Queues) == 2) { // readKind asks for its bytes; a lone device's own, and the host's
		return 0
	}
	if n == nil {
		l.errorf(m.Node, "%s: queue is missing; there are %s", m.What, l.queuesBeside(""))
		return 0
	}
	l.spend(1)
	q := l.queues.find(name, len(l.out.Queues), func(i int) string { return l.out.Queues[i].Name })
	if q < 0 && name != "" {
		l.errorf(n, "%s: no queue is named %q; there are %s", m.What, name, l.queuesBeside(name))
	}
	return max(q, 0)
}

// takeID enters a command's id. The same words may give it again, as in every
// round of a repeat; other words may not.
func (l *loader) takeID(m *mapping, c *command) {
	n := m.get("id")
	if had, ok := l.ids[c.ID]; ok && had.node != n {
		what := "command"
		if had.event >= 0 {
			what = "user event"
		}
		l.errorf(n, "%s: id %q: it is taken by the %s of line %d", m.What, c.ID, what, had.node.GetToken().Position.Line)
		return
	}
	l.ids[c.ID] = waitable{n, len(l.out.Commands), -1}
}

// flag reads true or false under key.
func (l *loader) flag(m *mapping, key string) bool { return m.oneOf(key, "false") == "true" }

// queuesBeside lists the queues, where none has the name.
func (l *loader) queuesBeside(name string) string {
	var out []string
	for _, q := range l.out.Queues {
		out = append(out, q.Name)
	}
	return suggest.Among(name, out)
}

// expanded is the word at n with its {expressions} computed.
func (l *loader) expanded(n ast.Node, what string) string {
	if n == nil {
		return ""
	}
	return l.text(n, what)
}

// isSVM reports whether a place is named as shared virtual memory, and not as a
// buffer.
func (l *loader) isSVM(p place) bool { return l.out.isSVM(p) }

func (s *Scenario) isSVM(p place) bool { return p.View < 0 && s.Buffers[p.Buffer].SVM != nil }

// place reads the buffer named under key, with the offset under offsetKey and
// size.
func (l *loader) place(m *mapping, key, offsetKey string) place {
	p := l.placeNamed(m.get(key), m.What)
	offset := l.natural(m, offsetKey, 0, 0)
	size := l.natural(m, "size", 1, 0)
	if p.Name != "" {
		p.Range = l.within(m, p, offset, size)
	}
	return p
}

// placeNamed is the whole of the buffer or sub-buffer named at n.
func (l *loader) placeNamed(n ast.Node, what string) place {
	name := l.expanded(n, what)
	p, ok := l.lookup(name)
	if !ok && name != "" {
		_, err := l.out.whole(name)
		l.errorf(n, "%s: %v", what, err)
	}
	return p
}
