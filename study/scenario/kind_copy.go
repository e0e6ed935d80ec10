package scenario

import (
	"context"
	"fmt"

	"godwit/mem"
	"godwit/runtime"
)

// copyKind is a copy between buffers, of adjacent bytes or of rows.
type copyKind struct{ base }

func (copyKind) shapes() []*shape {
	buffer, to := of("copy", aWord, "a buffer"), key{"to", aWord, true, "the destination"}
	return []*shape{
		commandShape("copy", "copy", buffer, []key{to, {"to-offset", aNumber, false, "bytes"}}, keysOfPlace),
		rows(commandShape("copy of rows", "copy", buffer, []key{to}, keysOfRows, box("", "in the source"), box("to-", "in the destination"))),
	}
}

func (copyKind) parse(l *loader, m *mapping, c *command) {
	if !m.Has("to") {
		return
	}
	before := l.faults
	if m.hasRows() {
		c.Rect, c.Place, c.To = l.rect(m, "copy", "to-")
	} else {
		c.Place, c.To = l.flatCopy(m)
	}
	if l.faults > before {
		return
	}
	if l.isSVM(c.Place) != l.isSVM(c.To) {
		l.errorf(m.Node, "copy: of %s and %s one is shared virtual memory, the other a buffer: OpenCL copies between two of a kind; make a buffer over it", c.Place.Name, c.To.Name)
	}
}

// flatCopy reads a copy of adjacent bytes.
func (l *loader) flatCopy(m *mapping) (from, to place) {
	before := l.faults
	from = l.place(m, "copy", "offset")
	to = l.placeNamed(m.get("to"), "copy: to")
	offset := l.natural(m, "to-offset", 0, 0)
	if l.faults > before {
		return from, to
	}
	if size := from.Range.Size(); !m.Has("size") && to.Range.Size() < size {
		l.errorf(m.Node, "copy: %s has %d bytes, %s only %d; give a size", from.Name, size, to.Name, to.Range.Size())
		return from, to
	}
	to.Range = l.within(m, to, offset, from.Range.Size())
	if l.faults == before && to.Buffer == from.Buffer && to.Range.Overlaps(from.Range) {
		l.errorf(m.Node, "copy: source %v and destination %v of %s overlap", from.Range, to.Range, l.out.Buffers[to.Buffer].Name)
	}
	return from, to
}

func (copyKind) text(s *Scenario, c *command) string {
	return fmt.Sprintf("copy %s%s → %s", c.rowsText(" of "), s.placeText(c.Place, c.Place.Range), s.placeText(c.To, c.To.Range))
}

func (copyKind) uses(_ *Scenario, c *command) []use {
	return append(c.useOfPlace(mem.Read), use{c.To.Buffer, c.To.Range, mem.Write, c.Rect, true})
}

func (copyKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	if r.s.isSVM(c.Place) {
		return q.EnqueueSVMMemcpy(ctx, r.pointer(c.To), r.pointer(c.Place), c.Place.Range.Size(), wait...)
	}
	b, off := r.object(c.Place)
	to, toOff := r.object(c.To)
	if c.Rect != nil {
		return q.EnqueueCopyRect(ctx, b, to, c.Rect.box(off), c.Rect.otherBox(toOff), c.Rect.Region, wait...)
	}
	return q.EnqueueCopy(ctx, b, to, off, toOff, c.Place.Range.Size(), wait...)
}

func (copyKind) refer(_ context.Context, ref *reference, c *command) error {
	ref.memory.Copy(c.To.Buffer, c.Place.Buffer, c.rows(c.To.Range.Start, c.Place.Range.Start))
	return nil
}

func (copyKind) stamp(x *stamped, c *command, _ uint64) {
	for w := range c.rows(c.To.Range.Start, c.Place.Range.Start) {
		from := mem.Range{Start: w.Src, End: w.Src + w.Size}
		x.roots[c.To.Buffer].CopyFrom(&x.roots[c.Place.Buffer], from, w.Dst)
		if limit := max(x.limit(c.Place.Buffer), w.Src); limit < from.End {
			x.undefine(c.To.Buffer, mem.Range{Start: limit, End: from.End}.Shift(w.Dst-w.Src))
		}
	}
}
