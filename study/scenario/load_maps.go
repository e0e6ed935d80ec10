package scenario

import (
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/mem"
	"godwit/runtime"
)

// Maps, and what the host does with what it has mapped; shared virtual memory's
// coming and going; user events.

// readMap reads a map, which makes the name under as stand for what it maps.
func (l *loader) readMap(m *mapping, c *Command) {
	before := l.faults
	c.Place = l.place(m, "map", "offset")
	name := l.expanded(m.get("as"), "map: as")
	mp := Mapping{Name: name, Place: c.Place, Flags: runtime.MapFlags(l.flags(m, mapFlags)), Map: len(l.out.Commands), Unmap: -1, Line: c.Line}
	c.Blocking = l.flag(m, "blocking")
	const both = runtime.MapRead | runtime.MapWrite
	_, buffer := l.lookup(name)
	switch {
	case name == "":
		l.errorf(m.Node, "map: as is missing: a name for what is mapped")
	case !nameRule.MatchString(name):
		l.errorf(m.get("as"), "map: as %q: a name is letters, digits and _, and begins with no digit", name)
	case buffer:
		l.errorf(m.get("as"), "map: as %q: a buffer has this name", name)
	case l.maps[name] > 0:
		l.errorf(m.get("as"), "map: as %q: the map of line %d has the name, and is not unmapped", name, l.out.Mappings[l.maps[name]-1].Line)
	}
	switch {
	case mp.Flags == 0 && !m.Has("flags"):
		l.errorf(m.Node, "map: flags are missing: want some of %s", mapFlags)
	case mp.Flags&runtime.MapInvalidate != 0 && mp.Flags&both != 0:
		l.errorf(m.get("flags"), "map: flags: write-invalidate beside others: it brings no content, and they want it")
	}
	if l.faults > before {
		if name != "" && l.maps[name] == 0 {
			l.maps[name] = -1 // uses of it are no further faults
		}
		return
	}
	mp.writes = mp.Flags&(runtime.MapWrite|runtime.MapInvalidate) != 0
	mp.Place.Name = name
	c.Mapping = len(l.out.Mappings)
	l.out.Mappings = append(l.out.Mappings, mp)
	l.maps[name] = c.Mapping + 1
}

// mappingNamed finds what is mapped under the name that the command gives.
func (l *loader) mappingNamed(m *mapping, c *Command) *Mapping {
	key := string(c.Kind)
	name := l.expanded(m.get(key), key)
	if name == "" {
		l.faults++
		return nil
	}
	switch i := l.maps[name]; {
	case i > 0:
		c.Mapping = i - 1
		return &l.out.Mappings[i-1]
	case i < 0: // its map was at fault
		l.faults++
		if c.Kind == Unmap {
			delete(l.maps, name)
		}
		return nil
	}
	l.errorf(m.get(key), "%s: nothing is mapped as %q here; there is %s", key, name, l.mapNames())
	return nil
}

func (l *loader) mapNames() string {
	var out []string
	for i := range l.out.Mappings {
		if mp := &l.out.Mappings[i]; mp.Unmap < 0 {
			out = append(out, mp.Name)
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (l *loader) readUnmap(m *mapping, c *Command) {
	mp := l.mappingNamed(m, c)
	if mp == nil {
		return
	}
	c.Place = mp.Place
	l.spend(len(l.out.Mappings) - c.Mapping)
	for i := c.Mapping + 1; l.onSVM(mp.Place) && i < len(l.out.Mappings); i++ {
		if o := &l.out.Mappings[i]; o.Unmap < 0 && o.Place.Buffer == mp.Place.Buffer && o.Place.Range.Start == mp.Place.Range.Start {
			l.errorf(m.Node, "unmap: %s was mapped after %s, at the same address: OpenCL unmaps the youngest map of a pointer; unmap %s first", o.Name, mp.Name, o.Name)
			return
		}
	}
	mp.Unmap = len(l.out.Commands)
	delete(l.maps, mp.Name)
	if n := len(mp.Uses); n > 0 {
		c.Order = append(c.Order, mp.Uses[n-1])
	}
}

// onSVM reports whether a place is in shared virtual memory, by whatever name.
func (l *loader) onSVM(p Place) bool { return l.out.Buffers[p.Buffer].SVM != nil }

// readHostUse reads a use of memory by the host: of what it has mapped, or of
// fine-grained shared virtual memory.
func (l *loader) readHostUse(m *mapping, c *Command) {
	key := string(c.Kind)
	before := l.faults
	name := l.expanded(m.get(key), key)
	of, ok := l.lookup(name)
	if ok && l.isSVM(of) && l.out.Buffers[of.Buffer].fine() {
		c.Place = l.place(m, key, "offset")
	} else if mp := l.mappingNamed(m, c); mp != nil {
		if c.Kind == HostWrite && !mp.writes {
			l.errorf(m.get(key), "host-write: %s is mapped for reading only, in line %d", name, mp.Line)
		}
		offset, size := l.natural(m, "offset", l.scope, 0, 0), l.natural(m, "size", l.scope, 1, 0)
		c.Place = mp.Place
		c.Place.Range = l.within(m, mp.Place, offset, size)
		c.Order = append(c.Order, mp.Map)
		if n := len(mp.Uses); n > 0 {
			c.Order[0] = mp.Uses[n-1]
		}
		mp.Uses = append(mp.Uses, len(l.out.Commands))
	}
	if c.Kind == HostRead || l.faults > before {
		return
	}
	if c.Data = l.data(m, l.scope); c.Data == nil && l.faults == before {
		l.errorf(m.Node, "host-write: content is missing: want one of %s", contentKeys)
	} else if c.Data != nil && c.Data.size > c.Place.Range.Size() {
		l.errorf(m.Node, "host-write: the content, %s, has %d bytes, the place only %d", c.Data, c.Data.size, c.Place.Range.Size())
	}
}

// svmNamed finds the block of shared virtual memory named under key; live or
// not.
func (l *loader) svmNamed(m *mapping, key, name string) int {
	i := l.buffer(name)
	if name != "" && (i < 0 || l.out.Buffers[i].SVM == nil) {
		l.errorf(m.get(key), "%s: no shared virtual memory is named %q; there is %s", key, name, l.svmNames())
		return -1
	}
	return i
}

// readAlloc reads the allocation, again, of shared virtual memory that was freed.
func (l *loader) readAlloc(m *mapping, c *Command) {
	i := l.svmNamed(m, "alloc", l.expanded(m.get("alloc"), "alloc"))
	if i < 0 {
		return
	}
	b := l.out.Buffers[i]
	if b.SVM.Freed < 0 {
		l.errorf(m.get("alloc"), "alloc: %s is allocated; free it first", b.Name)
		return
	}
	again := *b.SVM
	again.Born, again.Freed = len(l.out.Commands), -1
	b.SVM = &again
	c.Alloc = len(l.out.Buffers)
	c.Place = Place{Buffer: c.Alloc, View: -1, Range: mem.Range{End: b.Size}, Name: b.Name}
	l.addRoot(m.Node, b)
}

func (l *loader) readFree(m *mapping, c *Command) {
	for _, n := range l.list(m.get("free")) {
		i := l.svmNamed(m, "free", l.expanded(n, "free"))
		if i < 0 {
			continue
		}
		b := &l.out.Buffers[i]
		if b.SVM.Freed >= 0 {
			l.errorf(n, "free: %s: %s", b.Name, l.freedText(b))
			continue
		}
		b.SVM.Freed = len(l.out.Commands)
		c.Places = append(c.Places, Place{Buffer: i, View: -1, Range: mem.Range{End: b.Size}, Name: b.Name})
		for j := range l.out.Mappings {
			if mp := &l.out.Mappings[j]; mp.Unmap < 0 && mp.Place.Buffer == i {
				l.errorf(n, "free: %s is mapped as %s, in line %d: unmap it first", b.Name, mp.Name, mp.Line)
			}
		}
	}
	if len(l.list(m.get("free"))) == 0 {
		l.errorf(m.Node, "free: nothing is named")
	}
}

// freedText says which command freed a block.
func (l *loader) freedText(b *Buffer) string {
	if b.SVM.Freed < len(l.out.Commands) {
		return "it was freed in line " + lineText(l.out.Commands[b.SVM.Freed].Line)
	}
	return "it is there twice"
}

// readStatus reads with which status a user event fails.
func (l *loader) readStatus(n ast.Node, c *Command) {
	before := l.faults
	v := l.number(n, "set: status", l.scope)
	if (v >= 0 || v < math.MinInt32) && l.faults == before {
		l.errorf(n, "set: status is %d: want a negative one, such as an OpenCL error's", v)
		return
	}
	c.Status = runtime.ExecStatus(v)
	if l.track.failed == 0 {
		l.track.failed = c.Line
	}
}

// readSet reads the end of a user event.
func (l *loader) readSet(m *mapping, c *Command) {
	name := l.expanded(m.get("set"), "set")
	w, ok := l.ids[name]
	switch {
	case name == "":
		l.faults++
	case !ok || w.event < 0:
		l.errorf(m.get("set"), "set %q: no user event has this name; declare it under events", name)
	case l.out.Events[w.event].Set >= 0:
		l.errorf(m.get("set"), "set %q: it was set in line %d: a user event is set once", name, l.out.Commands[l.out.Events[w.event].Set].Line)
	default:
		c.Event, c.Status = w.event, runtime.Complete
		if n := m.get("status"); n != nil {
			l.readStatus(n, c)
		}
		l.out.Events[w.event].Set = len(l.out.Commands)
	}
}
