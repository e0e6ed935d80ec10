package scenario

import (
	"context"
	"fmt"

	"godwit/internal/flat"
	"godwit/internal/suggest"
	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// mapKind maps a range for the host, which makes the name under as stand for it; unmapKind
// ends that.
type (
	mapKind   struct{ onHost }
	unmapKind struct{ onHost }
)

func (mapKind) shapes() []*shape {
	return []*shape{commandShape("map", "map", of("map", aWord, "a buffer"), []key{
		{"as", aWord, true, "a name for what is mapped"}, flagsKey(mapFlags, true), keyBlocking,
	}, keysOfPlace)}
}

func (unmapKind) shapes() []*shape {
	return []*shape{commandShape("unmap", "unmap", of("unmap", aWord, "a map's name"))}
}

func (mapKind) parse(l *loader, m *mapping, c *command) {
	before := l.faults
	c.Place = l.place(m, "map", "offset")
	name := l.expanded(m.get("as"), "map: as")
	mp := hostMapping{Name: name, Place: c.Place, Flags: runtime.MapFlags(l.flags(m, mapFlags)), Map: len(l.out.Commands), Unmap: -1, Line: c.Line}
	c.Blocking = l.flag(m, "blocking")
	const both = runtime.MapRead | runtime.MapWrite
	_, buffer := l.lookup(name)
	switch {
	case name == "":
		l.faults++
	case !nameRule.MatchString(name):
		l.errorf(m.get("as"), "map: as %q: a name is letters, digits and _, and begins with no digit", name)
	case buffer:
		l.errorf(m.get("as"), "map: as %q: a buffer has this name", name)
	case l.maps[name] > 0:
		l.errorf(m.get("as"), "map: as %q: the map of line %d has the name, and is not unmapped", name, l.out.Mappings[l.maps[name]-1].Line)
	}
	if mp.Flags&runtime.MapInvalidate != 0 && mp.Flags&both != 0 {
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
func (l *loader) mappingNamed(m *mapping, c *command) *hostMapping {
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
		if c.Kind == opUnmap {
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
	return suggest.Among("", out)
}

func (unmapKind) parse(l *loader, m *mapping, c *command) {
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
func (l *loader) onSVM(p place) bool { return l.out.Buffers[p.Buffer].SVM != nil }

func (mapKind) text(s *Scenario, c *command) string {
	m := &s.Mappings[c.Mapping]
	return fmt.Sprintf("map %s for %s as %s%s", s.placeText(c.Place, c.Place.Range), flagText(uint64(m.Flags), mapFlags), m.Name, c.blockingText())
}

func (unmapKind) text(s *Scenario, c *command) string { return "unmap " + s.Mappings[c.Mapping].Name }

// mode is what a map gives the host leave to do.
func (m *hostMapping) mode() mem.Mode {
	if m.writes {
		return mem.ReadWrite
	}
	return mem.Read
}

func (mapKind) uses(s *Scenario, c *command) []use {
	return c.useOfPlace(s.Mappings[c.Mapping].mode())
}

func (unmapKind) uses(s *Scenario, c *command) []use {
	return c.useOfPlace(s.Mappings[c.Mapping].mode())
}

func (mapKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (e runtime.Event, err error) {
	c := &r.s.Commands[i]
	mp, m := &r.s.Mappings[c.Mapping], &r.mappings[c.Mapping]
	if r.s.isSVM(mp.Place) {
		m.pointer = r.pointer(mp.Place)
		m.bytes, e, err = q.EnqueueSVMMap(ctx, m.pointer, mp.Place.Range.Size(), svmMapFlags(mp.Flags), wait...)
	} else {
		b, off := r.object(mp.Place)
		m.mapping, e, err = q.EnqueueMap(ctx, b, off, mp.Place.Range.Size(), mp.Flags, wait...)
		if err == nil {
			m.bytes = m.mapping.Bytes()
		}
	}
	return e, err
}

func (unmapKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	m := &r.mappings[c.Mapping]
	if r.s.isSVM(r.s.Mappings[c.Mapping].Place) {
		return q.EnqueueSVMUnmap(ctx, m.pointer, wait...)
	}
	return q.EnqueueUnmap(ctx, m.mapping, wait...)
}

// svmMapFlags are a map's flags for shared virtual memory.
func svmMapFlags(f runtime.MapFlags) (out svm.MapFlags) {
	for _, x := range []struct {
		from runtime.MapFlags
		to   svm.MapFlags
	}{{runtime.MapRead, runtime.SVMMapRead}, {runtime.MapWrite, runtime.SVMMapWrite}, {runtime.MapInvalidate, runtime.SVMMapWriteInvalidate}} {
		if f&x.from != 0 {
			out |= x.to
		}
	}
	return out
}

func (mapKind) refer(_ context.Context, ref *reference, c *command) error {
	m := &ref.memory
	ref.mapLimit[c.Mapping] = m.Limit(c.Place.Buffer)
	switch flags := ref.s.Mappings[c.Mapping].Flags; {
	case flags&runtime.MapInvalidate != 0:
		m.Undefine(c.Place.Buffer, c.Place.Range)
	case flags&runtime.MapWrite != 0: // what the unmap will write
		m.Keep(c.Place.Buffer, c.Place.Range)
	}
	return nil
}

func (mapKind) stamp(x *stamped, c *command, _ uint64) {
	if x.s.Mappings[c.Mapping].Flags&runtime.MapInvalidate != 0 {
		x.undefine(c.Place.Buffer, c.Place.Range)
	}
}

func (unmapKind) stamp(x *stamped, c *command, by uint64) {
	if m := &x.s.Mappings[c.Mapping]; m.writes {
		x.roots[m.Place.Buffer].Set(m.Place.Range, flat.Stamp{By: by})
	}
}

func (mapKind) look(v *verifier, what string, c *command, seen []flat.Seen) {
	if v.s.Mappings[c.Mapping].Flags&runtime.MapInvalidate == 0 {
		v.saw(what, c.Place.Buffer, c.Place.Range, 0, 0, seen)
	}
}
