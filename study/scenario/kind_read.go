package scenario

import (
	"context"

	"godwit/internal/flat"
	"godwit/mem"
	"godwit/runtime"
)

// readKind is a read of a buffer, of adjacent bytes or of rows.
type readKind struct{ base }

func (readKind) shapes() []*shape {
	buffer := append(of("read", aWord, "a buffer"), keyBlocking)
	return []*shape{
		commandShape("read", "read", buffer, keysOfPlace),
		rows(commandShape("read of rows", "read", buffer, keysOfRows, box("", "in the buffer"), box("host-", "in the host's memory"))),
	}
}

func (readKind) parse(l *loader, m *mapping, c *command) {
	l.readPlace(m, c)
	c.Blocking = l.flag(m, "blocking")
	if !m.Has("queue") && len(l.out.Queues) > 2 && c.Place.Name != "" {
		c.Queue = l.homes.queueOf(l.out, c.Place)
	}
}

func (readKind) text(s *Scenario, c *command) string {
	return "read " + c.rowsText(" of ") + s.placeText(c.Place, c.Place.Range) + c.blockingText()
}

// gapByte is what the host's memory of a rectangular read holds before it: what
// lies between the rows must stay.
const gapByte = 0xcd

func (readKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	if r.s.isSVM(c.Place) {
		return q.EnqueueSVMRead(ctx, r.pointer(c.Place), r.reads[i], wait...)
	}
	b, off := r.object(c.Place)
	if c.Rect == nil {
		return q.EnqueueRead(ctx, b, off, r.reads[i], wait...)
	}
	return q.EnqueueReadRect(ctx, b, c.Rect.box(off), r.reads[i], c.Rect.otherBox(c.Rect.HostOffset), c.Rect.Region, wait...)
}

func (readKind) look(v *verifier, what string, c *command, seen []flat.Seen) {
	for w := range c.rows(c.Place.Range.Start, 0) {
		n := 0 // of what was found those that are of this row: both ascend
		for ; n < len(seen) && seen[n].Range.Start < w.Src+w.Size; n++ {
		}
		v.saw(what, c.Place.Buffer, mem.Range{Start: w.Dst, End: w.Dst + w.Size}, 0, w.Src, seen[:n])
		for len(seen) > 0 && seen[0].Range.End <= w.Src+w.Size {
			seen = seen[1:]
		}
	}
	v.res.BytesRead += c.readSize()
}
