package scenario

import (
	"context"
	"fmt"

	"godwit/internal/flat"
	"godwit/runtime"
)

// fillKind is a fill of a buffer with a pattern.
type fillKind struct{ base }

func (fillKind) shapes() []*shape {
	return []*shape{commandShape("fill", "fill", of("fill", aWord, "a buffer"), []key{
		{"pattern", aNumber.or(object("pattern")), true, "a byte, {TYPE: NUMBER} or {hex: DIGITS}"},
	}, keysOfPlace)}
}

func (fillKind) parse(l *loader, m *mapping, c *command) {
	c.Place = l.place(m, "fill", "offset")
	if n := m.get("pattern"); n == nil {
		return
	} else if c.Pattern, c.Text = l.pattern(n, "fill: pattern"); c.Pattern != nil && c.Place.Range.Size()%uint64(len(c.Pattern)) != 0 {
		l.errorf(m.Node, "fill: %d bytes are not a multiple of the pattern's %d", c.Place.Range.Size(), len(c.Pattern))
	}
}

func (fillKind) text(s *Scenario, c *command) string {
	return fmt.Sprintf("fill %s with %s", s.placeText(c.Place, c.Place.Range), c.Text)
}

func (fillKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	if r.s.isSVM(c.Place) {
		return q.EnqueueSVMFill(ctx, r.pointer(c.Place), c.Pattern, c.Place.Range.Size(), wait...)
	}
	b, off := r.object(c.Place)
	return q.EnqueueFill(ctx, b, c.Pattern, off, c.Place.Range.Size(), wait...)
}

func (fillKind) refer(_ context.Context, ref *reference, c *command) error {
	ref.memory.Fill(c.Place.Buffer, c.Place.Range, c.Pattern)
	return nil
}

func (fillKind) stamp(x *stamped, c *command, by uint64) {
	x.roots[c.Place.Buffer].Set(c.Place.Range, flat.Stamp{By: by})
}
