package scenario

import (
	"context"
	"fmt"

	"godwit/internal/flat"
	"godwit/mem"
	"godwit/runtime"
)

// writeKind is a write of content into a buffer, of adjacent bytes or of rows.
type writeKind struct{ base }

func (writeKind) shapes() []*shape {
	buffer := append(of("write", aWord, "a buffer"), keyBlocking)
	return []*shape{
		commandShape("write", "write", buffer, keysOfPlace, keysOfData),
		rows(commandShape("write of rows", "write", buffer, keysOfRows, box("", "in the buffer"), box("host-", "in the host's memory"), keysOfData)),
	}
}

func (writeKind) parse(l *loader, m *mapping, c *command) {
	before := l.faults
	l.readPlace(m, c)
	c.Blocking = l.flag(m, "blocking")
	l.readContent(m, c, before)
}

// readContent reads what a command writes, which must fit where the command's place was no
// fault since before.
func (l *loader) readContent(m *mapping, c *command, before int) {
	c.Data = l.data(m)
	switch size := c.hostBytes(); {
	case l.faults > before:
	case c.Data == nil:
		l.errorf(m.Node, "%s: content is missing: want one of %s", c.Kind, contentKeys)
	case c.Data.size > size:
		l.errorf(m.Node, "%s: the content, %s, has %d bytes, the place only %d", c.Kind, c.Data, c.Data.size, size)
	}
}

func (writeKind) text(s *Scenario, c *command) string {
	return fmt.Sprintf("write %s%s: %s%s", c.rowsText(" to "), s.placeText(c.Place, c.Place.Range), c.Data, c.blockingText())
}

func (writeKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	data := r.data[i]
	if c.Data.pointers != nil { // of what is allocated by now
		data = c.Data.Bytes(c.hostBytes(), r.at)
	}
	if r.s.isSVM(c.Place) {
		return q.EnqueueSVMWrite(ctx, r.pointer(c.Place), data, wait...)
	}
	b, off := r.object(c.Place)
	if c.Rect != nil {
		return q.EnqueueWriteRect(ctx, b, c.Rect.box(off), data, c.Rect.otherBox(c.Rect.HostOffset), c.Rect.Region, wait...)
	}
	return q.EnqueueWrite(ctx, b, off, data, wait...)
}

func (writeKind) stamp(x *stamped, c *command, by uint64) {
	for w := range c.rows(c.Place.Range.Start, 0) {
		x.roots[c.Place.Buffer].Set(mem.Range{Start: w.Dst, End: w.Dst + w.Size}, flat.Stamp{By: by, Off: w.Src})
	}
}
