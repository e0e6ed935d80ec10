package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/mem"
	"godwit/runtime"
)

// migrateKind says where buffers, or shared virtual memory, are to be.
type migrateKind struct{ base }

func (migrateKind) shapes() []*shape {
	return []*shape{commandShape("migrate", "migrate", of("migrate", listOf(aWord.or(object("place"))), "buffers"), []key{
		{"to", words("device", "host").or(listOf(aWord)), false, "host, or several devices; default the queue's device"},
		{"content", words("kept", "undefined"), false, "undefined brings none"},
	})}
}

func (migrateKind) parse(l *loader, m *mapping, c *command) {
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

func (migrateKind) text(s *Scenario, c *command) string {
	to, content := s.Queues[c.Queue].Device, ""
	if c.Host {
		to = "host"
	}
	if len(c.Onto) > 0 {
		to = strings.Join(c.Onto, ", ")
	}
	if c.Undefined {
		content = ", content undefined"
	}
	return fmt.Sprintf("migrate %s to %s%s", s.names(c.Places), to, content)
}

func (migrateKind) uses(_ *Scenario, c *command) (out []use) {
	mode := mem.Read
	if c.Undefined {
		mode = mem.Write
	}
	for _, p := range c.Places {
		out = append(out, use{buffer: p.Buffer, r: p.Range, mode: mode})
	}
	return out
}

func (k migrateKind) memories(s *Scenario, c *command) (out []mem.MemoryID) {
	switch {
	case c.Host:
		return []mem.MemoryID{mem.Host}
	case len(c.Onto) == 0:
		return k.base.memories(s, c)
	}
	for _, name := range c.Onto {
		out = append(out, s.memory(name))
	}
	return out
}

func (k migrateKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	var flags runtime.MigrateFlags
	if c.Host {
		flags |= runtime.MigrateToHost
	}
	if c.Undefined {
		flags |= runtime.ContentUndefined
	}
	var bufs []*runtime.Buffer
	var ranges []runtime.SVMRange
	for _, p := range c.Places {
		if r.s.isSVM(p) {
			ranges = append(ranges, runtime.SVMRange{Pointer: r.pointer(p), Size: p.Range.Size()})
			continue
		}
		b, _ := r.object(p)
		bufs = append(bufs, b)
	}
	switch {
	case len(ranges) > 0:
		return q.EnqueueSVMMigrate(ctx, ranges, flags, wait...)
	case len(c.Onto) > 0:
		return q.EnqueueMigrateTo(ctx, bufs, k.memories(r.s, c), wait...)
	}
	return q.EnqueueMigrate(ctx, bufs, flags, wait...)
}

func (migrateKind) refer(_ context.Context, ref *reference, c *command) error {
	c.undefine(ref.memory.Undefine)
	return nil
}

func (migrateKind) stamp(x *stamped, c *command, _ uint64) { c.undefine(x.undefine) }

// undefine calls f with what a migration leaves undefined.
func (c *command) undefine(f func(buffer int, r mem.Range)) {
	for _, p := range c.Places {
		if c.Undefined {
			f(p.Buffer, p.Range)
		}
	}
}
