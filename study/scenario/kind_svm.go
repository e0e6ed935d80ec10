package scenario

import (
	"context"
	"fmt"

	"godwit/mem"
	"godwit/runtime"
)

// allocKind allocates shared virtual memory that was freed again; freeKind frees it, in a
// queue or by the host at once.
type (
	allocKind struct{ base }
	freeKind  struct{ base }
)

func (allocKind) shapes() []*shape {
	return []*shape{{name: "alloc", what: "alloc", keys: of("alloc", aWord, "shared virtual memory that was freed")}}
}

func (freeKind) shapes() []*shape {
	blocks := of("free", someWords, "shared virtual memory")
	return []*shape{
		commandShape("free", "free", blocks, []key{{"now", words("false"), false, "by the host at once"}}),
		{name: "free at once", what: "free", keys: append(blocks, key{"now", words("true"), true, "by the host at once"})},
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

func (allocKind) parse(l *loader, m *mapping, c *command) {
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
	c.Place = place{Buffer: c.Alloc, View: -1, Range: mem.Range{End: b.Size}, Name: b.Name}
	l.addRoot(m.Node, b)
}

func (freeKind) parse(l *loader, m *mapping, c *command) {
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
		c.Places = append(c.Places, place{Buffer: i, View: -1, Range: mem.Range{End: b.Size}, Name: b.Name})
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
func (l *loader) freedText(b *bufferDecl) string {
	if b.SVM.Freed < len(l.out.Commands) {
		return fmt.Sprint("it was freed in line ", l.out.Commands[b.SVM.Freed].Line)
	}
	return "it is there twice"
}

func (allocKind) text(_ *Scenario, c *command) string { return "alloc " + c.Place.Name }

func (freeKind) text(s *Scenario, c *command) string {
	if c.Now {
		return "free " + s.names(c.Places) + " at once"
	}
	return "free " + s.names(c.Places)
}

func (allocKind) enqueue(_ context.Context, r *runner, i int, _ *runtime.Queue, _ []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	return runtime.Event{}, r.alloc(c.Alloc, c.Line)
}

func (freeKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (e runtime.Event, err error) {
	c := &r.s.Commands[i]
	var pointers []runtime.Pointer
	for _, p := range c.Places {
		pointers = append(pointers, r.pointer(p))
	}
	if !c.Now {
		return q.EnqueueSVMFree(ctx, pointers, wait...)
	}
	for _, w := range wait { // the host has done with it
		if err := w.Wait(ctx); err != nil {
			return e, err
		}
	}
	for _, p := range pointers {
		if err := r.ctx.SVMFree(p); err != nil {
			return e, err
		}
	}
	return e, nil
}
