package runtime

import (
	"encoding/binary"
	"fmt"
	"math"

	"godwit/devices"
	"godwit/mem"
	"godwit/migration"
)

// SetContentSizeBuffer makes size the size buffer of b (PoCL's
// cl_pocl_content_size): the uint64 in the host's byte order at its start says how many
// bytes of b matter, and only those are copied from memory to memory. Bytes from
// there on are undefined for whoever reads them where they were not written; the
// memory that wrote them last keeps them, and they come when a later count
// includes them. A count larger than b means all of it, as does a size buffer
// that was never written. nil takes the size buffer away.
//
// It holds for commands enqueued from here on, and for sub-buffers of b: the
// count counts from the start of b. Enqueueing does not wait to learn the count:
// it is that of the last command before which writes the size buffer, wherever
// it runs, and copies read it when they run. Where that command fails, they do.
// While the host has the count mapped for writing, from the enqueue of the map to
// that of the unmap, all bytes count.
// Size may be the size buffer of several buffers, and be released before them.
//
// It fails, and changes nothing, with mem.ErrInvalidBuffer where one of the two
// was released or is a sub-buffer, mem.ErrInvalidContext where they are of
// different contexts, mem.ErrInvalidSize where size has fewer than 8 bytes,
// mem.ErrInvalidValue where a size buffer would have a size buffer, or be its
// own, and mem.ErrInvalidOperation where one of the two is over shared virtual
// memory, which stays out of migration.
func (b *Buffer) SetContentSizeBuffer(size *Buffer) error {
	if err := b.made(); err != nil {
		return err
	}
	c := b.c
	if size != nil {
		switch {
		case size.root == nil:
			return fmt.Errorf("size buffer of %s: %w", b.label(), size.made())
		case size.c != c:
			return fmt.Errorf("size buffer of %s: buffer %s is of context %s, not %s: %w", b.label(), size.label(), size.c.name, c.name, mem.ErrInvalidContext)
		}
	}
	if err := c.call(); err != nil {
		return err
	}
	defer c.bufferEnded()
	defer c.unlock()
	if err := b.countable(); err != nil {
		return err
	}
	if size == nil {
		return c.uncount(b.root)
	}
	if err := size.countable(); err != nil {
		return fmt.Errorf("size buffer of %s: %w", b.label(), err)
	}
	if err := c.planner.SetContentSize(b.root.id, size.root.id); err != nil {
		return err
	}
	old := b.root.count
	b.root.count = size.root
	size.root.views++
	if old != nil {
		return c.unview(old)
	}
	return nil
}

// countable fails where b can neither have nor be a size buffer. c.mu is held.
func (b *Buffer) countable() error {
	switch err := b.live(); {
	case err != nil:
		return err
	case b.view.Sub:
		return fmt.Errorf("buffer %s is a sub-buffer: size buffers are between whole ones: %w", b.label(), mem.ErrInvalidBuffer)
	case b.root.svm != nil:
		return fmt.Errorf("buffer %s is over shared virtual memory: %w", b.label(), mem.ErrInvalidOperation)
	}
	return nil
}

// uncount takes a root's size buffer away. c.mu is held.
func (c *Context) uncount(r *root) error {
	if r.count == nil {
		return nil
	}
	size := r.count
	r.count = nil
	if err := c.planner.SetContentSize(r.id, 0); err != nil {
		return err
	}
	return c.unview(size)
}

// lateCopy is a step that finds out how many bytes to move when it runs.
type lateCopy struct {
	c     *Context        // immutable
	late  *migration.Late // immutable; its methods are called by one goroutine after the other
	base  uint64          // immutable: the offset of the step's first byte
	bytes []byte          // immutable: of the count, on the host; nil where all count
	count uint64          // read by Part, as part is, before the step's point is reached
	part  mem.Range       // of the buffer: what the step moves
}

var _ devices.Late = (*lateCopy)(nil)

// late makes a step's lateCopy, and adds its waits to those of the step. c.mu is
// held.
func (c *Context) late(st *migration.Step, waits []mem.Wait) (*lateCopy, []mem.Wait, error) {
	l := &lateCopy{c: c, late: st.Late, base: st.Range.Start}
	if st.Late.Count == 0 {
		return l, waits, nil
	}
	var err error
	if l.bytes, err = c.countIn(c.roots[st.Late.Count]); err != nil {
		return nil, nil, err
	}
	if len(st.Late.After) > 0 {
		s := &c.scratch
		s.waits = append(s.waits[:0], waits...)
		for _, i := range st.Late.After {
			s.waits = append(s.waits, mem.Wait{Point: s.points[i], Kind: mem.Data})
		}
		waits = s.waits
	}
	return l, waits, nil
}

// Part implements devices.Late: the count is on the host by now.
func (l *lateCopy) Part() mem.Range {
	l.count = math.MaxUint64
	if l.bytes != nil {
		l.count = binary.NativeEndian.Uint64(l.bytes)
	}
	l.part = l.late.Resolve(l.count)
	return mem.Range{Start: l.part.Start - l.base, End: l.part.End - l.base}
}

// Moved implements devices.Late.
func (l *lateCopy) Moved() {
	l.late.Landed(l.count)
	l.c.lateMoved.Add(l.part.Size())
}
