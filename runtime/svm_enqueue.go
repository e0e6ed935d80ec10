package runtime

import (
	"context"
	"errors"
	"fmt"

	"godwit/mem"
)

// The EnqueueSVM methods have the errors of all Enqueue methods (enqueue.go), and
// svm.ErrNotSVM and svm.ErrFreed where a pointer is none (any more),
// mem.ErrInvalidOperation where the queue's device cannot use the memory, and
// svm.ErrMapped where the host has mapped bytes that the command is to use.

// Flags of SVM maps; they are OpenCL's.
const (
	SVMMapRead            = MapRead
	SVMMapWrite           = MapWrite
	SVMMapWriteInvalidate = MapInvalidate
)

// svmUse finds the bytes that a command is to use.
func (q *Queue) svmUse(what string, p Pointer, size uint64) (use, error) {
	if err := q.made(); err != nil {
		return use{}, err
	}
	if err := q.c.call(); err != nil {
		return use{}, fmt.Errorf("%s on queue %s: %w", what, q.name, err)
	}
	defer q.c.unlock()
	u, err := q.c.svmRange(p, size)
	if err != nil {
		return use{}, fmt.Errorf("%s on queue %s: %w", what, q.name, err)
	}
	return u, nil
}

// svmRange finds size bytes at p, or where size is 0 all of its block. c.mu is
// held.
func (c *Context) svmRange(p Pointer, size uint64) (use, error) {
	r, off, err := c.svmAt(p)
	if err != nil {
		return use{}, err
	}
	u := use{buf: r.svm.buf, r: mem.Range{End: r.size}}
	if size != 0 {
		if u.r, err = mem.SpanIn(off, size, r.size); err != nil {
			return use{}, fmt.Errorf("%d bytes at %v, byte %d of %s: %w", size, p, off, r.label(), err)
		}
	}
	return u, nil
}

// wantBytes fails where there are none.
func wantBytes(what string, size uint64) error {
	if size == 0 {
		return fmt.Errorf("%s of 0 bytes: it must be one at least: %w", what, mem.ErrInvalidValue)
	}
	return nil
}

// EnqueueSVMMemcpy copies size bytes from src to dst on the queue's device. It
// fails with mem.ErrOverlap where the two share a byte.
func (q *Queue) EnqueueSVMMemcpy(ctx context.Context, dst, src Pointer, size uint64, wait ...Event) (Event, error) {
	if err := wantBytes("svm memcpy", size); err != nil {
		return Event{}, err
	}
	from, err := q.svmUse("svm memcpy source", src, size)
	if err != nil {
		return Event{}, err
	}
	to, err := q.svmUse("svm memcpy destination", dst, size)
	if err != nil {
		return Event{}, err
	}
	return q.copyUses(ctx, from, to, false, wait)
}

// EnqueueSVMWrite copies data, which must stay as it is until the event ends, to
// dst on the queue's device: clEnqueueSVMMemcpy with a source in host memory.
func (q *Queue) EnqueueSVMWrite(ctx context.Context, dst Pointer, data []byte, wait ...Event) (Event, error) {
	return q.svmHost(ctx, "svm write", opWrite, dst, data, wait)
}

// EnqueueSVMRead copies the bytes at src to data, which is the runtime's until
// the event ends: clEnqueueSVMMemcpy with a destination in host memory.
func (q *Queue) EnqueueSVMRead(ctx context.Context, src Pointer, data []byte, wait ...Event) (Event, error) {
	return q.svmHost(ctx, "svm read", opRead, src, data, wait)
}

func (q *Queue) svmHost(ctx context.Context, what string, op opcode, p Pointer, data []byte, wait []Event) (Event, error) {
	if err := wantBytes(what, uint64(len(data))); err != nil {
		return Event{}, err
	}
	u, err := q.svmUse(what, p, uint64(len(data)))
	if err != nil {
		return Event{}, err
	}
	if other, ok := u.buf.root.svm.arena.PointerTo(data); ok {
		return Event{}, fmt.Errorf("%s with data at %v, shared virtual memory itself: use EnqueueSVMMemcpy: %w", what, other, mem.ErrInvalidValue)
	}
	return q.submit(ctx, &request{q: q, op: op, a: u, data: data, size: uint64(len(data))}, &borrowed{wait: wait})
}

// EnqueueSVMFill fills size bytes at p with repetitions of pattern, whose length
// is 1, 2, 4, ... or 128 bytes and divides p and size.
func (q *Queue) EnqueueSVMFill(ctx context.Context, p Pointer, pattern []byte, size uint64, wait ...Event) (Event, error) {
	if err := wantBytes("svm fill", size); err != nil {
		return Event{}, err
	}
	if err := checkFill(pattern, uint64(p), size); err != nil {
		return Event{}, err
	}
	u, err := q.svmUse("svm fill", p, size)
	if err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &request{q: q, op: opFill, a: u, data: pattern, size: size}, &borrowed{wait: wait})
}

// EnqueueSVMMap lets the host touch size bytes at p, once the event has ended,
// until the unmap is enqueued; the slice shows them. A map for writing and another of
// the same bytes exclude each other (svm.ErrMapped), until the unmap of one is enqueued. mem.ErrInvalidValue: size is 0, the
// bytes leave their block, flags are none or contradict. A map whose command
// fails gives no rights, and is unmapped all the same.
func (q *Queue) EnqueueSVMMap(ctx context.Context, p Pointer, size uint64, flags MapFlags, wait ...Event) ([]byte, Event, error) {
	m, e, err := q.mapPointer(ctx, p, size, flags, wait)
	return m.Bytes(), e, err
}

// SVMMap is EnqueueSVMMap and waits for its end under ctx (a blocking map). Where
// the command fails or ctx ends, nothing stays mapped, and the content is what it
// was; the event is the command's all the same, and the caller's to Release, where
// it is not zero.
func (q *Queue) SVMMap(ctx context.Context, p Pointer, size uint64, flags MapFlags, wait ...Event) ([]byte, Event, error) {
	m, e, err := q.mapPointer(ctx, p, size, flags, wait)
	if err != nil {
		return nil, Event{}, err
	}
	if err = e.Wait(ctx); err != nil {
		return nil, e, errors.Join(fmt.Errorf("%w: %w", ErrMap, err), m.Abandon())
	}
	return m.Bytes(), e, nil
}

func (q *Queue) mapPointer(ctx context.Context, p Pointer, size uint64, flags MapFlags, wait []Event) (Mapping, Event, error) {
	if err := flags.Check(); err != nil {
		return Mapping{}, Event{}, err
	}
	if err := wantBytes("svm map", size); err != nil {
		return Mapping{}, Event{}, err
	}
	u, err := q.svmUse("svm map", p, size)
	if err != nil {
		return Mapping{}, Event{}, err
	}
	return q.enqueueMap(ctx, request{q: q, op: opSVMMap, a: u, mapFlags: flags, byPointer: true}, wait)
}

// EnqueueSVMUnmap ends the youngest map that EnqueueSVMMap or SVMMap made of p; those
// of a buffer over it end by their Mapping. The host's rights end
// with the command, however that ends, so that host calls it waits for may still
// touch the bytes; commands enqueued from now on may use them. What was mapped for
// writing is then valid on the host and nowhere else. It fails with svm.ErrMapped where there is
// no such map.
func (q *Queue) EnqueueSVMUnmap(ctx context.Context, p Pointer, wait ...Event) (Event, error) {
	u, err := q.svmUse("svm unmap", p, 1)
	if err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &request{q: q, op: opSVMUnmap, a: u, byPointer: true}, &borrowed{wait: wait})
}

// SVMRange is size bytes at Pointer; size 0 is all of the block.
type SVMRange struct {
	Pointer Pointer
	Size    uint64
}

// EnqueueSVMMigrate brings ranges to the queue's device or the host, as
// EnqueueMigrate does buffers.
func (q *Queue) EnqueueSVMMigrate(ctx context.Context, ranges []SVMRange, flags MigrateFlags, wait ...Event) (Event, error) {
	if len(ranges) == 0 {
		return Event{}, fmt.Errorf("svm migrate of no ranges: %w", mem.ErrInvalidValue)
	}
	uses := make([]use, len(ranges))
	for i, r := range ranges {
		var err error
		if uses[i], err = q.svmUse("svm migrate", r.Pointer, r.Size); err != nil {
			return Event{}, err
		}
	}
	return q.migrate(ctx, opSVMMigrate, uses, flags, wait)
}

// EnqueueSVMFree frees blocks of shared virtual memory once the command has run.
// From now on no enqueue takes the pointers; the host may use what it may use
// until then. Their maps end with the command: to buffers over them, what was mapped
// for writing is valid on the host, and lost where the command fails. Where it does,
// because of its wait list, they are freed all the same. mem.ErrInvalidValue: there are none, one is null, inside a block,
// or there twice.
func (q *Queue) EnqueueSVMFree(ctx context.Context, pointers []Pointer, wait ...Event) (Event, error) {
	if len(pointers) == 0 {
		return Event{}, fmt.Errorf("svm free of no pointers: %w", mem.ErrInvalidValue)
	}
	uses := make([]use, len(pointers))
	for i, p := range pointers {
		u, err := q.svmUse("svm free", p, 0)
		if err != nil {
			return Event{}, err
		}
		if s := u.buf.root.svm; s.p != p {
			return Event{}, fmt.Errorf("svm free of %v, inside the block at %v: give the pointer that was allocated: %w", p, s.p, mem.ErrInvalidValue)
		}
		for _, o := range uses[:i] {
			if o.buf == u.buf {
				return Event{}, fmt.Errorf("svm free of %v twice: %w", p, mem.ErrInvalidValue)
			}
		}
		uses[i] = u
	}
	by := "EnqueueSVMFree on queue " + q.name
	free := func(context.Context) (err error) {
		for _, u := range uses {
			err = errors.Join(err, u.buf.root.svm.free(by))
		}
		return err
	}
	return q.submit(ctx, &request{q: q, op: opSVMFree, call: free}, &borrowed{wait: wait, uses: uses})
}

// collectFree lists what the free of pointers does, which ends their maps. c.mu is held.
func (c *Context) collectFree(in *borrowed) error {
	for _, u := range in.uses {
		if err := u.buf.live(); err != nil {
			return err
		}
		for _, m := range u.buf.root.maps {
			c.collectEnd(m, false)
		}
	}
	return nil
}
