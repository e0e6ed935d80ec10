package scenario

import (
	"context"
	"fmt"

	"godwit/mem"
	"godwit/runtime"
)

// hostUse is a use of memory by the host: of what it has mapped, or of fine-grained shared
// virtual memory. The runtime knows nothing of it.
type (
	hostUse       struct{ base }
	hostWriteKind struct{ hostUse }
	hostReadKind  struct{ hostUse }
)

func (hostWriteKind) shapes() []*shape {
	return []*shape{commandShape("host-write", "host-write", of("host-write", aWord, "a map's name"), keysOfPlace, keysOfData)}
}

func (hostReadKind) shapes() []*shape {
	return []*shape{commandShape("host-read", "host-read", of("host-read", aWord, "a map's name"), keysOfPlace)}
}

func (hostUse) parse(l *loader, m *mapping, c *command) {
	key := string(c.Kind)
	name := l.expanded(m.get(key), key)
	of, ok := l.lookup(name)
	if ok && l.isSVM(of) && l.out.Buffers[of.Buffer].fine() {
		c.Place = l.place(m, key, "offset")
	} else if mp := l.mappingNamed(m, c); mp != nil {
		if c.Kind == opHostWrite && !mp.writes {
			l.errorf(m.get(key), "host-write: %s is mapped for reading only, in line %d", name, mp.Line)
		}
		offset, size := l.natural(m, "offset", 0, 0), l.natural(m, "size", 1, 0)
		c.Place = mp.Place
		c.Place.Range = l.within(m, mp.Place, offset, size)
		c.Order = append(c.Order, mp.Map)
		if n := len(mp.Uses); n > 0 {
			c.Order[0] = mp.Uses[n-1]
		}
		mp.Uses = append(mp.Uses, len(l.out.Commands))
	}
}

func (k hostWriteKind) parse(l *loader, m *mapping, c *command) {
	before := l.faults
	if k.hostUse.parse(l, m, c); l.faults == before {
		l.readContent(m, c, before)
	}
}

func (hostWriteKind) text(s *Scenario, c *command) string {
	return fmt.Sprintf("host writes %s: %s", s.hostPlaceText(c), c.Data)
}

func (hostReadKind) text(s *Scenario, c *command) string { return "host reads " + s.hostPlaceText(c) }

// hostPlaceText names what the host uses: memory, or a part of what it has mapped.
func (s *Scenario) hostPlaceText(c *command) string {
	if c.Mapping < 0 {
		return s.placeText(c.Place, c.Place.Range)
	}
	m := &s.Mappings[c.Mapping]
	if c.Place.Range == m.Place.Range {
		return m.Name
	}
	start := m.Place.Range.Start
	return m.Name + rangeText(mem.Range{Start: c.Place.Range.Start - start, End: c.Place.Range.End - start})
}

func (hostUse) memories(*Scenario, *command) []mem.MemoryID { return nil }

// enqueue has the host use memory in the queue's order, as soon as what it waits for has ended.
func (hostUse) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	size := c.Place.Range.Size()
	var bytes []byte
	if c.Mapping >= 0 {
		off := c.Place.Range.Start - r.s.Mappings[c.Mapping].Place.Range.Start
		bytes = r.mappings[c.Mapping].bytes[off : off+size]
	} else {
		var err error
		if bytes, err = r.ctx.SVMBytes(r.pointer(c.Place), size); err != nil {
			return runtime.Event{}, err
		}
	}
	to, from := bytes, []byte(nil)
	if r.stamps() && (c.Kind == opHostRead || size > mostCount) {
		to = nil
	} else if c.Kind == opHostWrite {
		from = c.Data.Bytes(size, r.at)
	} else {
		r.reads[i] = make([]byte, size)
		to, from = r.reads[i], bytes
	}
	return q.EnqueueHostCall(ctx, func(context.Context) error {
		return r.ctx.SVMGuard(func() { copy(to, from) })
	}, wait...)
}
