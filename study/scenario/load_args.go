package scenario

import (
	"github.com/goccy/go-yaml/ast"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// dims reads one to three numbers under key.
func (l *loader) dims(m *mapping, key string, least int64) (out [3]uint64, dims int) {
	list := l.list(m.get(key))
	if len(list) > 3 {
		l.errorf(m.get(key), "%s: %s: want 1 to 3 numbers, not %d", m.What, key, len(list))
		return out, 0
	}
	for i, n := range list {
		v := l.number(n, m.What+": "+key)
		if v < least {
			l.errorf(n, "%s: %s is %d: want at least %d", m.What, key, v, least)
			continue
		}
		out[i] = uint64(v)
	}
	return out, len(list)
}

// readIndirect reads what a kernel reaches by pointers in memory: a block's name,
// or {svm: NAME, at, offset, size, access}.
func (l *loader) readIndirect(n ast.Node, what string) argument {
	info := devices.ArgInfo{Name: what, Kind: devices.ArgBuffer, Access: mem.ReadWrite}
	if _, isMap := l.plain(n).(*ast.MappingNode); isMap {
		m := l.mapping(n, what, "reached")
		if !m.Has("svm") {
			return argument{}
		}
		return l.readBufferArg(m, &info)
	}
	p := l.placeNamed(n, what)
	if p.Name != "" && !l.isSVM(p) {
		l.errorf(n, "%s: %s is a buffer: no pointer leads there; there is %s", what, p.Name, l.svmNames())
	}
	return argument{Buffer: true, Place: p, Used: p.Range, Access: info.Access}
}

// checkArg holds what a kernel does to an argument against the flags of what it
// is given.
func (l *loader) checkArg(n ast.Node, what string, a *argument) {
	if a.Place.Name == "" {
		return
	}
	switch flags := l.out.access(a.Place); {
	case a.Access.Writes() && flags&runtime.ReadOnly != 0:
		l.errorf(n, "%s: the kernel writes it, and %s is read-only", what, a.Place.Name)
	case a.Access == mem.Read && flags&runtime.WriteOnly != 0:
		l.errorf(n, "%s: the kernel reads it, and %s is write-only", what, a.Place.Name)
	}
}

// readArg reads a kernel argument: a buffer's name or {buffer: ..., access,
// offset, size}; {local: bytes}; a number or {TYPE: number}.
func (l *loader) readArg(n ast.Node, what string, info *devices.ArgInfo) argument {
	_, isMap := l.plain(n).(*ast.MappingNode)
	if !isMap {
		switch info.Kind {
		case devices.ArgValue:
			value, text := l.numberOf(info.Type, n, what, l.text(n, what))
			return argument{Value: value, Text: text}
		case devices.ArgLocal:
			l.errorf(n, "%s: want {local: BYTES}", what)
			return argument{}
		}
		p := l.placeNamed(n, what)
		a := argument{Buffer: true, Place: p, Used: p.Range, Access: info.Access}
		l.checkArg(n, what, &a)
		return a
	}
	m := l.mapping(n, what, "argument")
	kind := devices.ArgValue
	switch {
	case m.Has("local"):
		kind = devices.ArgLocal
	case m.Has("buffer"), m.Has("svm"):
		kind = devices.ArgBuffer
	}
	switch {
	case kind != info.Kind:
		l.errorf(n, "%s: the kernel wants a %v, not a %v", what, info.Kind, kind)
		return argument{}
	case kind == devices.ArgLocal:
		return argument{Local: l.natural(m, "local", 1, 1)}
	case kind == devices.ArgBuffer:
		return l.readBufferArg(m, info)
	}
	value, text := l.typed(m)
	if value != nil && info.Size != 0 && uint64(len(value)) != info.Size {
		l.errorf(n, "%s: the kernel wants a %s of %d bytes, not %d", what, info.Type, info.Size, len(value))
	}
	return argument{Value: value, Text: text}
}

// readBufferArg reads a buffer, or a pointer of shared virtual memory, with what
// the launch really uses of it.
func (l *loader) readBufferArg(m *mapping, info *devices.ArgInfo) argument {
	a := argument{Buffer: true, Access: info.Access, Stated: m.Has("access")}
	key := "buffer"
	if m.Has("svm") {
		key = "svm"
		a.Place, a.At = l.pointerPlace(m, key)
	} else {
		a.Place = l.placeNamed(m.get(key), m.What)
	}
	before := l.faults
	if a.Place.Name != "" && l.isSVM(a.Place) != (key == "svm") {
		what := "a buffer: give it as buffer"
		if key == "buffer" {
			what = "shared virtual memory: give it as svm"
		}
		l.errorf(m.get(key), "%s: %s is %s", m.What, a.Place.Name, what)
	}
	offset, size := l.natural(m, "offset", 0, 0), l.natural(m, "size", 1, 0)
	a.Used = a.Place.Range
	if a.Place.Name != "" && l.faults == before && (m.Has("offset") || m.Has("size")) {
		a.Ranged = true
		from := a.Place
		from.Range.Start += min(a.At, from.Range.Size())
		a.Used = l.within(m, from, offset, size)
	}
	if a.Stated {
		switch m.oneOf("access", "read-write") {
		case "read":
			a.Access = mem.Read
		case "write":
			a.Access = mem.Write
		default:
			a.Access = mem.ReadWrite
		}
	}
	m.get("access")
	if l.faults == before {
		l.checkArg(m.Node, m.What, &a)
	}
	return a
}
