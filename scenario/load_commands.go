package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/devices"
	"godwit/kernels"
	"godwit/mem"
)

// maxCommands bounds what repeats may unroll to.
const maxCommands = 100_000

func (l *loader) readCommands(m *mapping) {
	n := m.get("commands")
	if n == nil {
		l.errorf(m.node, "scenario: commands are missing")
		return
	}
	if len(l.errs) > 0 {
		return // their names and sizes would only raise more
	}
	for _, n := range l.list(n) {
		l.readCommand(n, 0)
	}
}

// commandKinds are the keys that say what a command is.
var commandKinds = []string{"write", "read", "copy", "fill", "launch", "migrate", "barrier", "marker", "repeat"}

func (l *loader) readCommand(n ast.Node, depth int) {
	m := l.mapping(n, "command")
	kind := ""
	for _, k := range commandKinds {
		switch {
		case !m.has(k) || k == "fill" && m.has("write"): // a write may be given a fill
		case kind != "":
			l.errorf(n, "command: %s beside %s: one command does one thing", k, kind)
			return
		default:
			kind = k
		}
	}
	if kind == "" {
		if len(m.keys) > 0 {
			l.errorf(m.node, "command: want one of %s", strings.Join(commandKinds, ", "))
		}
		return
	}
	m.what = kind
	if kind == "repeat" {
		l.readRepeat(m, depth)
		return
	}
	if len(l.out.Commands) >= l.given.limit {
		l.errorf(n, "more than %d commands", l.given.limit)
		return
	}
	c := Command{Kind: Kind(kind), Line: m.node.GetToken().Position.Line, Loop: l.loop}
	l.readCommon(m, &c)
	switch c.Kind {
	case Write:
		c.Place = l.place(m, kind, "offset")
		if c.Data = l.data(m, l.scope); c.Data == nil {
			l.errorf(m.node, "write: content is missing: want one of %s", strings.Join(dataKeys, ", "))
		} else if c.Data.size > c.Place.Range.Size() {
			l.errorf(m.node, "write: %s has %d bytes, the place only %d", c.Data, c.Data.size, c.Place.Range.Size())
		}
	case Read:
		c.Place = l.place(m, kind, "offset")
	case Copy:
		l.readCopy(m, &c)
	case Fill:
		c.Place = l.place(m, kind, "offset")
		if c.Pattern, c.Text = l.needPattern(m); c.Pattern != nil && c.Place.Range.Size()%uint64(len(c.Pattern)) != 0 {
			l.errorf(m.node, "fill: %d bytes are not a multiple of the pattern's %d", c.Place.Range.Size(), len(c.Pattern))
		}
	case Launch:
		l.readLaunch(m, &c)
	case Migrate:
		for _, n := range l.list(m.get(kind)) {
			c.Places = append(c.Places, l.placeNamed(n, kind))
		}
		c.Host = m.oneOf("to", "device", "host") == "host"
	case Barrier, Marker:
		m.get(kind) // a queue's name, read by readCommon, or nothing
	}
	m.done()
	if c.ID != "" {
		l.ids[c.ID] = len(l.out.Commands)
	}
	l.out.Commands = append(l.out.Commands, c)
}

// readCommon reads what every command may have: id, queue and after.
func (l *loader) readCommon(m *mapping, c *Command) {
	c.ID = l.expanded(m.get("id"), "id")
	n := m.get("queue")
	if q := m.get(m.what); n == nil && (c.Kind == Barrier || c.Kind == Marker) && l.plain(q) != nil && kindOf(l.plain(q)) != "nothing" {
		n = q
	}
	switch name := l.expanded(n, m.what+": queue"); {
	case n == nil && len(l.out.Queues) == 2: // a lone device's own, and the host's
	case n == nil:
		l.errorf(m.node, "%s: queue is missing; there are %s", m.what, l.queueNames())
	default:
		c.Queue = slices.IndexFunc(l.out.Queues, func(q Queue) bool { return q.Name == name })
		if c.Queue < 0 {
			l.errorf(n, "%s: no queue is named %q; there are %s", m.what, name, l.queueNames())
			c.Queue = 0
		}
	}
	for _, n := range l.list(m.get("after")) {
		id := l.expanded(n, m.what+": after")
		i, ok := l.ids[id]
		if !ok {
			l.errorf(n, "%s: after %q: no command above has this id", m.what, id)
			continue
		}
		c.After = append(c.After, i)
	}
}

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
	out, err := l.scope.expand(l.text(n, what))
	if err != nil {
		l.errorf(n, "%s: %v", what, err)
	}
	return out
}

func (l *loader) readRepeat(m *mapping, depth int) {
	count := l.natural(m, "repeat", l.scope, 0, 0)
	name := m.text("as")
	body := l.list(m.get("do"))
	m.done()
	_, shadows := l.scope.vars[name]
	switch {
	case depth >= 8:
		l.errorf(m.node, "repeat: nested more than 8 deep")
		return
	case len(body) == 0:
		l.errorf(m.node, "repeat: do is missing: the commands to repeat")
		return
	case name != "" && !nameRule.MatchString(name):
		l.errorf(m.get("as"), "repeat: as %q: a name is letters, digits and _, and begins with no digit", name)
		return
	case shadows:
		l.errorf(m.get("as"), "repeat: as %q: the name is taken", name)
		return
	case count > uint64(l.given.limit):
		l.errorf(m.node, "repeat: %d times: more than %d commands", count, l.given.limit)
		return
	}
	outermost := depth == 0
	if outermost {
		l.loop = Loop{Line: m.node.GetToken().Position.Line, Start: len(l.out.Commands), Rounds: int(count)}
	}
	for i := range int(count) {
		if outermost {
			l.loop.Round = i
		}
		if name != "" {
			l.scope.vars[name] = int64(i)
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

// place reads the buffer named under key, with the offset under offsetKey and
// size.
func (l *loader) place(m *mapping, key, offsetKey string) Place {
	p := l.placeNamed(m.get(key), m.what)
	offset := l.natural(m, offsetKey, l.scope, 0, 0)
	size := l.natural(m, "size", l.scope, 1, 0)
	if p.Name != "" {
		p.Range = l.within(m, p.Range, offset, size)
	}
	return p
}

// placeNamed is the whole of the buffer or sub-buffer named at n.
func (l *loader) placeNamed(n ast.Node, what string) Place {
	name := l.expanded(n, what)
	p, ok := l.lookup(name)
	if !ok && name != "" {
		l.errorf(n, "%s: no buffer or sub-buffer is named %q", what, name)
	}
	return p
}

// readCopyRect reads a copy of rows.
func (l *loader) readCopyRect(m *mapping, c *Command) {
	from, to := l.placeNamed(m.get("copy"), "copy"), l.placeNamed(m.get("to"), "copy: to")
	offset, toOffset := l.natural(m, "offset", l.scope, 0, 0), l.natural(m, "to-offset", l.scope, 0, 0)
	width, rows := l.natural(m, "size", l.scope, 1, 0), l.natural(m, "rows", l.scope, 1, 1)
	pitch, toPitch := l.natural(m, "pitch", l.scope, 1, width), l.natural(m, "to-pitch", l.scope, 1, width)
	switch {
	case from.Name == "" || to.Name == "":
		l.errorf(m.node, "copy: rows: want copy, the source, and to, the destination")
		return
	case width == 0:
		l.errorf(m.node, "copy: size is missing: the bytes of a row")
		return
	case pitch < width || toPitch < width || max(pitch, toPitch, rows) > 1<<31:
		l.errorf(m.node, "copy: %d rows of %d bytes, %d and %d bytes apart: want pitches from the row's bytes to 2 GiB", rows, width, pitch, toPitch)
		return
	}
	from.Range = l.within(m, from.Range, offset, (rows-1)*pitch+width)
	to.Range = l.within(m, to.Range, toOffset, (rows-1)*toPitch+width)
	c.Place, c.To, c.Rows, c.Width, c.Pitch, c.ToPitch = from, to, rows, width, pitch, toPitch
}

func (l *loader) readCopy(m *mapping, c *Command) {
	if m.has("rows") {
		l.readCopyRect(m, c)
		return
	}
	c.Place = l.place(m, "copy", "offset")
	if m.get("to") == nil {
		l.errorf(m.node, "copy: to is missing: the destination")
		return
	}
	to := l.placeNamed(m.get("to"), "copy: to")
	offset := l.natural(m, "to-offset", l.scope, 0, 0)
	if to.Name == "" || c.Place.Name == "" {
		return
	}
	if !m.has("size") && to.Range.Size() < c.Place.Range.Size() {
		l.errorf(m.node, "copy: %s has %d bytes, %s only %d; give a size", c.Place.Name, c.Place.Range.Size(), to.Name, to.Range.Size())
		return
	}
	to.Range = l.within(m, to.Range, offset, c.Place.Range.Size())
	c.To = to
	if to.Buffer == c.Place.Buffer && to.Range.Overlaps(c.Place.Range) {
		l.errorf(m.node, "copy: source %v and destination %v overlap", c.Place.Range, to.Range)
	}
}

func (l *loader) needPattern(m *mapping) ([]byte, string) {
	n := m.get("pattern")
	if n == nil {
		l.errorf(m.node, "fill: pattern is missing")
		return nil, ""
	}
	return l.pattern(n, "fill: pattern", l.scope)
}

// dims reads one to three numbers under key.
func (l *loader) dims(m *mapping, key string, least int64) (out [3]uint64, dims int) {
	list := l.list(m.get(key))
	if len(list) > 3 {
		l.errorf(m.get(key), "%s: %s: want 1 to 3 numbers, not %d", m.what, key, len(list))
		return out, 0
	}
	for i, n := range list {
		v := l.number(n, m.what+": "+key, l.scope)
		if v < least {
			l.errorf(n, "%s: %s is %d: want at least %d", m.what, key, v, least)
			continue
		}
		out[i] = uint64(v)
	}
	return out, len(list)
}

func (l *loader) readLaunch(m *mapping, c *Command) {
	c.Kernel = m.text("launch")
	m.what = "launch " + c.Kernel
	var local, offset int
	c.Global, c.Dims = l.dims(m, "global", 1)
	c.Local, local = l.dims(m, "local", 1)
	c.Offset, offset = l.dims(m, "offset", 0)
	if c.Dims == 0 {
		l.errorf(m.node, "%s: global is missing: the number of work-items", m.what)
	} else if (local != 0 && local != c.Dims) || (offset != 0 && offset != c.Dims) {
		l.errorf(m.node, "%s: global, local and offset want the same number of dimensions", m.what)
	}
	kernel, args := kernelNamed(c.Kernel), l.list(m.get("args"))
	if kernel == nil {
		l.errorf(m.get("launch"), "launch %q: no such kernel; there are %s", c.Kernel, strings.Join(kernels.Names(), ", "))
		return
	}
	if len(args) != len(kernel.Args) {
		l.errorf(m.node, "%s: %s given, it takes %d: %s", m.what, count(len(args), "argument", "arguments"), len(kernel.Args), signature(kernel))
		return
	}
	for i, n := range args {
		c.Args = append(c.Args, l.readArg(n, fmt.Sprintf("%s: argument %d (%s)", m.what, i, kernel.Args[i].Name), &kernel.Args[i]))
	}
}

// readArg reads a kernel argument: a buffer's name or {buffer: ..., access,
// offset, size}; {local: bytes}; a number or {TYPE: number}.
func (l *loader) readArg(n ast.Node, what string, info *devices.ArgInfo) Arg {
	_, isMap := l.plain(n).(*ast.MappingNode)
	if !isMap {
		switch info.Kind {
		case devices.ArgValue:
			return l.plainValue(n, what, info)
		case devices.ArgLocal:
			l.errorf(n, "%s: want {local: BYTES}", what)
			return Arg{}
		}
		p := l.placeNamed(n, what)
		return Arg{Buffer: true, Place: p, Used: p.Range, Access: info.Access}
	}
	m := l.mapping(n, what)
	kind := devices.ArgValue
	switch {
	case m.has("local"):
		kind = devices.ArgLocal
	case m.has("buffer"):
		kind = devices.ArgBuffer
	}
	switch {
	case kind != info.Kind:
		l.errorf(n, "%s: the kernel wants a %v, not a %v", what, info.Kind, kind)
		return Arg{}
	case kind == devices.ArgLocal:
		defer m.done()
		return Arg{Local: l.natural(m, "local", l.scope, 1, 1)}
	case kind == devices.ArgBuffer:
		return l.readBufferArg(m, info)
	}
	value, text := l.typed(m, l.scope)
	if value != nil && info.Size != 0 && uint64(len(value)) != info.Size {
		l.errorf(n, "%s: the kernel wants a %s of %d bytes, not %d", what, info.Type, info.Size, len(value))
	}
	return Arg{Value: value, Text: text}
}

// plainValue reads a number of the type that the kernel declares.
func (l *loader) plainValue(n ast.Node, what string, info *devices.ArgInfo) Arg {
	text := l.text(n, what)
	if _, err := strconv.ParseFloat(text, 64); err != nil || (info.Type != "float" && info.Type != "double") {
		text = strconv.FormatInt(l.number(n, what, l.scope), 10)
	}
	value, err := encode(info.Type, text)
	if err != nil {
		l.errorf(n, "%s: %v", what, err)
	}
	return Arg{Value: value, Text: text}
}

func (l *loader) readBufferArg(m *mapping, info *devices.ArgInfo) Arg {
	a := Arg{Buffer: true, Place: l.placeNamed(m.get("buffer"), m.what), Access: info.Access, Stated: m.has("access")}
	offset, size := l.natural(m, "offset", l.scope, 0, 0), l.natural(m, "size", l.scope, 1, 0)
	a.Used = a.Place.Range
	if a.Place.Name != "" {
		a.Used = l.within(m, a.Place.Range, offset, size)
	}
	if a.Stated {
		switch m.oneOf("access", "read-write", "read", "write") {
		case "read":
			a.Access = mem.Read
		case "write":
			a.Access = mem.Write
		default:
			a.Access = mem.ReadWrite
		}
	}
	m.get("access")
	m.done()
	return a
}
