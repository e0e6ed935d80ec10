package scenario

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/suggest"
	"godwit/internal/yaml/fields"
	"godwit/runtime"
)

func (l *loader) readCommands(m *mapping) {
	n := m.get("commands")
	if n == nil {
		l.errorf(m.Node, "scenario: commands are missing")
		return
	}
	if l.faults > 0 {
		return // their names and sizes would only raise more
	}
	for _, n := range l.list(n) {
		l.readCommand(n, 0)
	}
	if l.faults == 0 {
		l.checkEnds()
	}
}

// commandKinds are the keys that say what a command is.
var commandKinds = []string{
	"write", "read", "copy", "fill", "launch", "migrate", "map", "unmap", "host-write", "host-read",
	"alloc", "free", "set", "barrier", "marker", "repeat",
}

// kindOfCommand finds the key that says what a command is, or "".
func (l *loader) kindOfCommand(n ast.Node, m *mapping) string {
	kind := ""
	for _, k := range commandKinds {
		switch {
		case !m.Has(k) || k == "fill" && (m.Has("write") || m.Has("host-write")): // a write may be given a fill
		case kind != "":
			l.misshapen(n, "command: %s beside %s: one command does one thing", k, kind)
			return ""
		default:
			kind = k
		}
	}
	if kind == "" && len(m.Keys) > 0 {
		found := fields.Name(m.Keys[0]) // what a command does is written first
		for _, kv := range m.Keys {
			if suggest.Nearest(fields.Name(kv), commandKinds) != "" {
				found = fields.Name(kv)
				break
			}
		}
		l.misshapen(m.Node, "command: %q is no command; want one of %s%s", found, strings.Join(commandKinds, ", "), suggest.For(found, commandKinds))
	}
	return kind
}

func (l *loader) readCommand(n ast.Node, depth int) {
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
	l.bounded(n, "commands", len(l.out.Commands)+1, l.given.limit)
	before := l.faults
	c := Command{Kind: Kind(kind), Line: m.Node.GetToken().Position.Line, Loop: l.loop, Mapping: -1, Queue: -1}
	c.Now = c.Kind == Free && l.flag(m, "now")
	if c.Kind != Alloc && c.Kind != Set && !c.Now {
		l.readCommon(m, &c)
	}
	l.readKind(m, &c)
	m.done()
	if l.faults == before {
		l.hold(m.Node, kind, c.hostBytes())
		l.follow(m, &c)
	}
	if l.faults > before && c.Kind == Map && c.Mapping >= 0 {
		mp := &l.out.Mappings[c.Mapping]
		l.maps[mp.Name], mp.Unmap = -1, mp.Map // uses of it are no further faults
	}
	if c.ID != "" {
		l.takeID(m, &c)
	}
	l.out.Commands = append(l.out.Commands, c)
}

// hostBytes is how many bytes a command takes of the host beside the buffers: the
// content that it writes, and where a read goes.
func (c *Command) hostBytes() uint64 {
	switch {
	case c.Kind != Read && c.Kind != HostRead && c.Kind != Write && c.Kind != HostWrite:
		return 0
	case c.Rect != nil:
		return c.Rect.HostSize
	}
	return c.Place.Range.Size()
}

// readKind reads what is particular to a kind of command.
func (l *loader) readKind(m *mapping, c *Command) {
	switch c.Kind {
	case Write, Read:
		l.readTransfer(m, c)
	case Copy:
		l.readCopy(m, c)
	case Fill:
		c.Place = l.place(m, "fill", "offset")
		if c.Pattern, c.Text = l.needPattern(m); c.Pattern != nil && c.Place.Range.Size()%uint64(len(c.Pattern)) != 0 {
			l.errorf(m.Node, "fill: %d bytes are not a multiple of the pattern's %d", c.Place.Range.Size(), len(c.Pattern))
		}
	case Launch:
		l.readLaunch(m, c)
	case Migrate:
		l.readMigrate(m, c)
	case Map:
		l.readMap(m, c)
	case Unmap:
		l.readUnmap(m, c)
	case HostWrite, HostRead:
		l.readHostUse(m, c)
	case Alloc:
		l.readAlloc(m, c)
	case Free:
		l.readFree(m, c)
	case Set:
		l.readSet(m, c)
	case Barrier, Marker:
		m.get(string(c.Kind)) // a queue's name, read by readCommon, or nothing
	}
}

// readCommon reads what every command of a queue may have: id, queue, after,
// callbacks and profile.
func (l *loader) readCommon(m *mapping, c *Command) {
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
func (l *loader) queueOf(m *mapping, c *Command) int {
	n := m.get("queue")
	switch q := m.get(m.What); {
	case n != nil:
	case (c.Kind == Barrier || c.Kind == Marker) && l.plain(q) != nil && fields.Kind(l.plain(q)) != "nothing":
		n = q
	case c.Kind == HostRead || c.Kind == HostWrite || c.Kind == Unmap: // as the map
		switch i := l.maps[l.expanded(q, m.What)]; {
		case i > 0:
			return l.out.Commands[l.out.Mappings[i-1].Map].Queue
		case i < 0:
			return 0
		}
	}
	name := l.expanded(n, m.What+": queue")
	if n == nil && len(l.out.Queues) == 2 { // a lone device's own, and the host's
		return 0
	}
	if n == nil {
		l.errorf(m.Node, "%s: queue is missing; there are %s", m.What, l.queueNames())
		return 0
	}
	l.spend(len(l.out.Queues) / 16)
	q := slices.IndexFunc(l.out.Queues, func(q Queue) bool { return q.Name == name })
	if q < 0 && name != "" {
		l.errorf(n, "%s: no queue is named %q; there are %s%s", m.What, name, l.queueNames(), suggest.For(name, strings.Split(l.queueNames(), ", ")))
	}
	return max(q, 0)
}

// takeID enters a command's id. The same words may give it again, as in every
// round of a repeat; other words may not.
func (l *loader) takeID(m *mapping, c *Command) {
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

func (l *loader) queueNames() string {
	var out []string
	for _, q := range l.out.Queues {
		out = append(out, q.Name)
	}
	return strings.Join(out, ", ")
}

// expanded is the word at n with its {expressions} computed.
func (l *loader) expanded(n ast.Node, what string) string {
	if n == nil {
		return ""
	}
	return l.text(n, what)
}

func (l *loader) readRepeat(m *mapping, depth int) {
	before := l.faults
	count := l.natural(m, "repeat", l.scope, 0, 0)
	name := m.text("as")
	body := l.list(m.get("do"))
	m.done()
	if count == 0 && l.faults == before { // what is not run is held against its form
		l.checkShape(m.get("do"), &m.shape.find("do").form, "repeat: do")
	}
	_, shadows := l.scope.vars[name]
	switch {
	case depth >= maxRepeats:
		l.errorf(m.Node, "repeat: nested more than %d deep", maxRepeats)
		return
	case len(body) == 0:
		l.errorf(m.Node, "repeat: do is missing: the commands to repeat")
		return
	case name != "" && !nameRule.MatchString(name):
		l.errorf(m.get("as"), "repeat: as %q: a name is letters, digits and _, and begins with no digit", name)
		return
	case shadows:
		l.errorf(m.get("as"), "repeat: as %q: the name is taken", name)
		return
	case count > uint64(l.given.limit):
		l.errorf(m.Node, "repeat: %d times: more than %d commands", count, l.given.limit)
		return
	}
	outermost := depth == 0
	if outermost {
		l.loop = Loop{Line: m.Node.GetToken().Position.Line, Start: len(l.out.Commands), Rounds: int(count)}
	}
	for i := range int(count) {
		l.spend(1)
		if outermost {
			l.loop.Round = i
		}
		if name != "" {
			l.scope.vars[name] = integerOf(int64(i))
		}
		for _, n := range body {
			l.readCommand(n, depth+1)
		}
		if len(l.errs) > 0 {
			break
		}
	}
	if name != "" {
		delete(l.scope.vars, name)
	}
	if outermost {
		l.loop = Loop{}
	}
}

// readMigrate reads where buffers, or shared virtual memory, are to be.
func (l *loader) readMigrate(m *mapping, c *Command) {
	for _, n := range l.list(m.get("migrate")) {
		p := l.somewhere(n, "migrate")
		if p.Name == "" {
			continue
		}
		whole, _ := l.lookup(p.Name)
		if !l.isSVM(p) && p.Range != whole.Range {
			l.errorf(n, "migrate: a part of %s: OpenCL migrates whole buffers; make a sub-buffer", p.Name)
		}
		if len(c.Places) > 0 && l.isSVM(p) != l.isSVM(c.Places[0]) {
			l.errorf(n, "migrate: %s beside %s: one is shared virtual memory, the other a buffer; migrate them by themselves", p.Name, c.Places[0].Name)
		}
		c.Places = append(c.Places, p)
	}
	if len(c.Places) == 0 && len(l.list(m.get("migrate"))) == 0 {
		l.errorf(m.Node, "migrate: nothing is named")
	}
	if n, several := l.plain(m.get("to")).(*ast.SequenceNode); several && n != nil {
		for _, d := range l.list(n) {
			name := l.memory(d, "migrate: to")
			if slices.Contains(c.Onto, name) {
				l.errorf(d, "migrate: to: %s is named twice", name)
			}
			c.Onto = append(c.Onto, name)
		}
		if len(c.Onto) == 0 {
			l.errorf(n, "migrate: to: no device is named")
		}
	} else {
		c.Host = m.oneOf("to", "device") == "host"
	}
	c.Undefined = m.oneOf("content", "kept") == "undefined"
	if len(c.Onto) > 0 && (c.Undefined || len(c.Places) > 0 && l.isSVM(c.Places[0])) {
		l.errorf(m.Node, "migrate to several devices: it brings buffers, with their content")
	}
}

// isSVM reports whether a place is named as shared virtual memory, and not as a
// buffer.
func (l *loader) isSVM(p Place) bool { return l.out.isSVM(p) }

func (s *Scenario) isSVM(p Place) bool { return p.View < 0 && s.Buffers[p.Buffer].SVM != nil }

// place reads the buffer named under key, with the offset under offsetKey and
// size.
func (l *loader) place(m *mapping, key, offsetKey string) Place {
	p := l.placeNamed(m.get(key), m.What)
	offset := l.natural(m, offsetKey, l.scope, 0, 0)
	size := l.natural(m, "size", l.scope, 1, 0)
	if p.Name != "" {
		p.Range = l.within(m, p, offset, size)
	}
	return p
}

// placeNamed is the whole of the buffer or sub-buffer named at n.
func (l *loader) placeNamed(n ast.Node, what string) Place {
	name := l.expanded(n, what)
	p, ok := l.lookup(name)
	if !ok && name != "" {
		l.errorf(n, "%s: no buffer or sub-buffer is named %q%s", what, name, suggest.For(name, l.bufferNames()))
	}
	return p
}

func (l *loader) needPattern(m *mapping) ([]byte, string) {
	n := m.get("pattern")
	if n == nil {
		l.errorf(m.Node, "fill: pattern is missing")
		return nil, ""
	}
	return l.pattern(n, "fill: pattern", l.scope)
}
