package runtime

import (
	"context"
	"encoding/binary"
	"fmt"

	"godwit/devices"
	"godwit/mem"
	"godwit/migration"
)

// EnqueueCopyContent is EnqueueCopy of those of size bytes that count: where src has a
// size buffer (SetContentSizeBuffer), bytes of dst from its count on stay as they are;
// unless dst has a size buffer too, and they lie beyond dst's own count: those are not kept,
// as by anybody who writes there. That is how PoCL copies such buffers. Without one, or where that was never written, it
// is EnqueueCopy.
func (q *Queue) EnqueueCopyContent(ctx context.Context, src, dst *Buffer, srcOff, dstOff, size uint64, wait ...Event) (Event, error) {
	return q.enqueueCopy(ctx, src, dst, srcOff, dstOff, size, true, wait)
}

// collectCounted lists the accesses of a copy of what counts: it reads the count on the
// host, and need not write all of its destination. c.mu is held.
func (c *Context) collectCounted(req *request) error {
	size := req.a.buf.root.count
	segments, err := c.planner.Segments(size.id)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if s.Version == 0 && s.Range.Start < migration.CountSize { // never written: all of it counts
			req.counted = false
			return c.access(req, req.b, mem.Write, req.q.mem)
		}
	}
	c.scratch.accs = append(c.scratch.accs, mem.Access{Buffer: size.id, Range: mem.Range{End: migration.CountSize}, Mode: mem.Read, Memory: mem.Host})
	return c.access(req, req.b, mem.ReadWrite, req.q.mem)
}

// countedCopy is how much of a copy there is to do, found out when it runs.
type countedCopy struct {
	count []byte // on the host
	base  uint64 // of the copy's first byte in its source
	size  uint64
}

var _ devices.Late = (*countedCopy)(nil)

// countIn is a size buffer's count, in the host's memory. c.mu is held.
func (c *Context) countIn(size *root) ([]byte, error) {
	b, err := c.host.View(size.onHost(), 0, migration.CountSize)
	if err != nil {
		return nil, fmt.Errorf("count in buffer %s: %w", size.label(), err)
	}
	return b, nil
}

// lateOf is the scratch command's, of a copy of what counts whose storage is there. c.mu
// is held.
func (c *Context) lateOf(req *request) (devices.Late, error) {
	b, err := c.countIn(req.a.buf.root.count)
	if err != nil {
		return nil, err
	}
	return &countedCopy{count: b, base: req.a.r.Start, size: req.size}, nil
}

// Part implements devices.Late.
func (k *countedCopy) Part() mem.Range {
	n := binary.NativeEndian.Uint64(k.count)
	return mem.Range{End: min(max(n, k.base)-k.base, k.size)}
}

// Moved implements devices.Late.
func (k *countedCopy) Moved() {}
