package runtime

import (
	"context"
	"errors"
	"fmt"

	"godwit/mem"
	"godwit/svm"
)

// The EnqueueSVM methods have the errors of all Enqueue methods (enqueue.go), and
// svm.ErrNotSVM and svm.ErrFreed where a pointer is none (any more),
// mem.ErrInvalidOperation where the queue's device cannot use the memory, and
// svm.ErrMapped where the host has mapped bytes that the command is to use.

// Flags of SVM maps; they are OpenCL's.
const (
	SVMMapRead            = svm.MapRead
	SVMMapWrite           = svm.MapWrite
	SVMMapWriteInvalidate = svm.MapWriteInvalidate
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
	if from.buf.root == to.buf.root && from.r.Overlaps(to.r) {
		return Event{}, fmt.Errorf("svm memcpy of %d bytes from %v to %v: they share %v of %s: %w", size, src, dst, from.r.Intersect(to.r), to.buf.root.label(), mem.ErrOverlap)
	}
	return q.submit(ctx, &request{q: q, op: opCopy, a: from, b: to, size: size}, &borrowed{wait: wait})
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
	n := uint64(len(pattern))
	if n > 128 || !mem.IsPow2(n) {
		return Event{}, fmt.Errorf("svm fill with a pattern of %d bytes: it must have 1, 2, 4, ... or 128: %w", n, mem.ErrInvalidValue)
	}
	if size == 0 || size%n != 0 || uint64(p)%n != 0 {
		return Event{}, fmt.Errorf("svm fill of %d bytes at %v with a pattern of %d: both must be multiples of it, and some bytes: %w", size, p, n, mem.ErrInvalidValue)
	}
	u, err := q.svmUse("svm fill", p, size)
	if err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &request{q: q, op: opFill, a: u, data: pattern, size: size}, &borrowed{wait: wait})
}

// EnqueueSVMMap lets the host touch size bytes at p, once the event has ended,
// until the unmap is enqueued; the slice shows them. See package svm for which
// maps may exist at once (svm.ErrMapped). mem.ErrInvalidValue: size is 0, the
// bytes leave their block, flags are none or contradict. A map whose command
// fails gives no rights, and is unmapped all the same.
func (q *Queue) EnqueueSVMMap(ctx context.Context, p Pointer, size uint64, flags svm.MapFlags, wait ...Event) ([]byte, Event, error) {
	bytes, _, e, err := q.mapSVM(ctx, p, size, flags, false, wait)
	return bytes, e, err
}

// SVMMap is EnqueueSVMMap and waits for its end under ctx (a blocking map). Where
// the command fails or ctx ends, nothing stays mapped, and the content is what it
// was; the event is the command's all the same, and the caller's to Release, where
// it is not zero.
func (q *Queue) SVMMap(ctx context.Context, p Pointer, size uint64, flags svm.MapFlags, wait ...Event) ([]byte, Event, error) {
	bytes, m, e, err := q.mapSVM(ctx, p, size, flags, false, wait)
	if err != nil {
		return nil, Event{}, err
	}
	if err = e.Wait(ctx); err != nil {
		return nil, e, errors.Join(fmt.Errorf("%w: %w", ErrMap, err), q.c.abandonSVM(m))
	}
	return bytes, e, nil
}

// mapSVM maps a pointer, or asBuffer, for whoever keeps the *svm.Map, a buffer over it.
func (q *Queue) mapSVM(ctx context.Context, p Pointer, size uint64, flags svm.MapFlags, asBuffer bool, wait []Event) ([]byte, *svm.Map, Event, error) {
	if err := flags.Check(); err != nil {
		return nil, nil, Event{}, err
	}
	if err := wantBytes("svm map", size); err != nil {
		return nil, nil, Event{}, err
	}
	u, err := q.svmUse("svm map", p, size)
	if err != nil {
		return nil, nil, Event{}, err
	}
	a := u.buf.root.svm.arena
	bytes, err := a.User(p, size)
	if err != nil {
		return nil, nil, Event{}, err
	}
	record := a.Map
	if asBuffer {
		record = a.MapHeld
	}
	m, err := record(p, size, flags)
	if err != nil {
		return nil, nil, Event{}, err
	}
	grant := func(context.Context) error { return m.Grant() }
	e, err := q.submit(ctx, &request{q: q, op: opSVMMap, a: u, svmMap: m, asBuffer: asBuffer, call: grant}, &borrowed{wait: wait})
	if err != nil {
		return nil, nil, Event{}, errors.Join(err, m.Drop("a map that was refused"))
	}
	return bytes, m, e, nil
}

// EnqueueSVMUnmap ends the youngest map that EnqueueSVMMap or SVMMap made of p; those
// of a buffer over it end by their Mapping. The host's rights end
// with the command, however that ends, so that host calls it waits for may still
// touch the bytes; commands enqueued from now on may use them. What was mapped for
// writing is then valid on the host and nowhere else. It fails with svm.ErrMapped where there is
// no such map.
func (q *Queue) EnqueueSVMUnmap(ctx context.Context, p Pointer, wait ...Event) (Event, error) {
	return q.unmapSVM(ctx, p, false, wait, func(a *svm.Arena) (*svm.Map, error) { return a.TakeUnmap(p) })
}

// unmapSVM ends the map at p that take finds.
func (q *Queue) unmapSVM(ctx context.Context, p Pointer, asBuffer bool, wait []Event, take func(*svm.Arena) (*svm.Map, error)) (Event, error) {
	u, err := q.svmUse("svm unmap", p, 1)
	if err != nil {
		return Event{}, err
	}
	m, err := take(u.buf.root.svm.arena)
	if err != nil {
		return Event{}, err
	}
	u.r.End = u.r.Start + m.Range().Size()
	leave := &leaving{m, "EnqueueSVMUnmap on queue " + q.name}
	e, err := q.submit(ctx, &request{q: q, op: opSVMUnmap, a: u, svmMap: m, asBuffer: asBuffer, call: leave.drop}, &borrowed{wait: wait})
	if err != nil {
		m.Keep()
		return Event{}, err
	}
	end, err := e.Point()
	if err != nil {
		return Event{}, err
	}
	if done, _ := end.Notify(leave); done {
		leave.PointReached(end, nil)
	}
	return e, nil
}

// leaving is a map whose unmap was accepted: it is dropped by the command, or
// where that fails before it runs, at its end.
type leaving struct {
	m  *svm.Map
	by string
}

func (l *leaving) drop(context.Context) error { return l.m.Drop(l.by) }

// PointReached implements mem.Waiter.
func (l *leaving) PointReached(mem.Point, error) {
	_ = l.m.Drop(l.by) // nobody to tell: the command has failed
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
	if flags&^(MigrateToHost|ContentUndefined) != 0 {
		return Event{}, fmt.Errorf("svm migrate flags %#x: unknown bits: %w", uint8(flags), mem.ErrInvalidValue)
	}
	uses := make([]use, len(ranges))
	for i, r := range ranges {
		var err error
		if uses[i], err = q.svmUse("svm migrate", r.Pointer, r.Size); err != nil {
			return Event{}, err
		}
	}
	return q.submit(ctx, &request{q: q, op: opSVMMigrate, to: flags}, &borrowed{wait: wait, svm: uses})
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
	f := &freeing{"EnqueueSVMFree on queue " + q.name, nil}
	for _, u := range uses {
		f.roots = append(f.roots, u.buf.root.svm)
	}
	e, err := q.submit(ctx, &request{q: q, op: opSVMFree, call: f.free}, &borrowed{wait: wait, svm: uses})
	if err != nil {
		return Event{}, err
	}
	end, err := e.Point()
	if err != nil {
		return Event{}, err
	}
	if done, _ := end.Notify(f); done {
		f.PointReached(end, nil)
	}
	return e, nil
}

// freeing are pointers whose free was accepted: freed by the command, or where that
// fails before it runs, at its end.
type freeing struct {
	by    string
	roots []*svmRoot
}

func (f *freeing) free(context.Context) (err error) {
	for _, s := range f.roots {
		err = errors.Join(err, s.free(f.by))
	}
	return err
}

// PointReached implements mem.Waiter.
func (f *freeing) PointReached(mem.Point, error) {
	_ = f.free(context.Background()) // nobody to tell: the command has failed
}

// collectSVM lists the accesses of the commands that are only for shared virtual
// memory. c.mu is held.
func (c *Context) collectSVM(req *request, in *borrowed) error {
	m := req.q.mem
	switch req.op {
	case opSVMMap, opSVMUnmap:
		if err := req.a.buf.live(); err != nil {
			return err
		}
		if !req.asBuffer {
			if err := c.mems[m].svmDevice(req.a.buf.root.svm.fine()); err != nil {
				return err
			}
		}
		if mode, ok := c.svmMapMode(req); ok {
			c.scratch.accs = append(c.scratch.accs, mem.Access{Buffer: req.a.buf.root.id, Range: req.a.r, Mode: mode, Memory: mem.Host})
		}
	case opSVMFree:
		for _, u := range in.svm {
			if err := u.buf.live(); err != nil {
				return err
			}
			c.collectMapped(u.buf.root)
		}
	case opSVMMigrate:
		mode := mem.Read
		if req.to&ContentUndefined != 0 {
			mode = mem.Write
		}
		if req.to&MigrateToHost != 0 {
			m = mem.Host
		}
		for _, u := range in.svm {
			if err := c.access(req, u, mode, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// svmMapMode is what a map or unmap does on the host: as for buffers (map.go). ok
// is false where it does nothing. c.mu is held.
func (c *Context) svmMapMode(req *request) (mode mem.Mode, ok bool) {
	f := req.svmMap.Flags()
	switch {
	case req.op == opSVMUnmap:
		p := req.a.buf.root.svm.mapped(req.svmMap)
		return mem.Write, f.Writes() && (!p.Reached() || p.Succeeded())
	case f&svm.MapWriteInvalidate != 0:
		return mem.Write, true
	case f.Writes():
		return mem.ReadWrite, true
	}
	return mem.Read, true
}

// svmWaits are an unmap's waits besides the planner's: the map, whose failure is
// the unmap's, unless it is known. c.mu is held.
func (c *Context) svmWaits(req *request) {
	p := req.a.buf.root.svm.mapped(req.svmMap)
	if !p.Reached() || (len(c.scratch.accs) > 0 && !p.Succeeded()) {
		c.scratch.user = append(c.scratch.user, mem.Wait{Point: p, Kind: mem.Data})
	}
}

// acceptedSVM records what follows from an accepted command. c.mu is held.
func (c *Context) acceptedSVM(req *request, in *borrowed, p mem.Point) error {
	var errs []error
	switch req.op {
	case opSVMMap:
		s := req.a.buf.root.svm
		s.maps = append(s.maps, svmMapping{req.svmMap, p})
		if req.svmMap.Flags().Writes() {
			errs = append(errs, c.planner.Mapped(req.a.buf.root.id, req.a.r, p))
		}
	case opSVMUnmap:
		errs = append(errs, c.unmappedSVM(req.a.buf.root, req.svmMap))
		if !req.svmMap.Flags().Writes() { // its bytes are in use until then
			errs = append(errs, c.planner.Reads(req.a.buf.root.id, mem.Host, req.a.r, p))
		}
	case opSVMFree:
		for _, u := range in.svm {
			for _, m := range u.buf.root.svm.maps {
				_ = m.m.Leave() // the free ends it, or has: what is enqueued from now on comes after that
				if !m.m.Flags().Writes() {
					errs = append(errs, c.planner.Reads(u.buf.root.id, mem.Host, u.buf.root.svm.rangeOf(m.m), p))
				}
			}
			errs = append(errs, c.endMaps(u.buf.root), c.dropSVM(u.buf.root, p))
		}
	}
	return errors.Join(errs...)
}
