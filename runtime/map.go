package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"godwit/mem"
	"godwit/svm"
)

// Maps. A mapped range is bytes of the host's own block of the buffer, so that
// nothing is copied but what the host lacks, and nothing at all where the device
// shares the host's memory. To the planner
//
//   - a map for reading is a read on the host,
//   - a map for writing waits like a read-write on the host, and one that
//     invalidates like a write, but neither changes the content: what the host
//     writes counts from the unmap on, so that a map that fails has lost nothing,
//   - an unmap of a read one ends a use of the host's bytes, so that writers there
//     wait for it,
//   - from a map for writing to its unmap the host's bytes of the range are its own:
//     no step goes over them (Planner.Mapped),
//   - an unmap of a written range is a write on the host, so that whatever read
//     the range in between, which OpenCL leaves undefined, is stale after it.
//
// A map that is known to have failed is unmapped by a command that writes
// nothing. An unmap enqueued before that fails with it, and so does what has been
// enqueued since and rests on the unmap; the content is then what it was before
// (Planner.CommitUnmap). A map that is given up before anybody got it (Abandon)
// needs no command: it has changed nothing, and it is a reader of the host's bytes
// at its own point already. So it ends in the planner, whatever drivers say (C11).
//
// A map of shared virtual memory, by a pointer or by a buffer over it, is the same with
// three things more. The user's view has rights only while it is mapped: the map's command
// gives them and the unmap's takes them, so both are host calls. A map for writing excludes
// every other of the same bytes, and the commands that use them. And it ends with the
// pointer, when that is freed (svm.go).
//
// Life of a mapping: made when the map is accepted, gone when its unmap is. It
// keeps the root alive. Records are reused with a generation.

// MapFlags say what a mapped range is for; the bits are OpenCL's.
type MapFlags = svm.MapFlags

// MapRead and MapWrite may be combined. MapInvalidate is for writing too, and
// brings no content: what the range holds when mapped is undefined.
const (
	MapRead       = svm.MapRead            // CL_MAP_READ
	MapWrite      = svm.MapWrite           // CL_MAP_WRITE
	MapInvalidate = svm.MapWriteInvalidate // CL_MAP_WRITE_INVALIDATE_REGION
)

// mayMap tests the flags of a map by themselves and against a buffer's.
func mayMap(f MapFlags, b Flags) error {
	if err := f.Check(); err != nil {
		return err
	}
	if f&MapRead != 0 {
		if err := b.HostReads(); err != nil {
			return err
		}
	}
	if f.Writes() {
		return b.HostWrites()
	}
	return nil
}

// ErrMap says that a range could not be mapped.
var ErrMap = mem.Sentinel("map failed", mem.MapFailure)

// Mapping is a range of a buffer in the host's memory, from the end of the map's
// event to the unmap. It is a small value, to be copied freely.
type Mapping struct {
	c      *Context
	first  *byte
	size   int
	record *mapRecord
	gen    uint32
}

// Bytes are the mapped range. They must not be touched before the map's event
// has ended nor after the unmap was enqueued, and not be written where the range
// was mapped for reading only.
func (m Mapping) Bytes() []byte { return unsafe.Slice(m.first, m.size) }

// IsZero reports whether m is no mapping.
func (m Mapping) IsZero() bool { return m.c == nil }

// mapRecord is what a Mapping names. Protected by Context.mu.
type mapRecord struct {
	root  *root
	r     mem.Range
	flags MapFlags
	gen   uint32
	point mem.Point // of the map

	// Of shared virtual memory: the host's rights, and whether the map was made by a pointer,
	// by which it is then ended.
	rights    *svm.Map
	byPointer bool
}

// mapRecords are a context's. Protected by Context.mu.
type mapRecords struct {
	all, free []*mapRecord
}

// live is the record of a mapping, or nil. Context.mu is held.
func (m Mapping) live() *mapRecord {
	if m.record == nil || m.record.gen != m.gen {
		return nil
	}
	return m.record
}

// excludes reports whether bytes of a range that are mapped are not to be mapped, or in shared
// virtual memory used, by anybody else, who writes them or not.
func (m *mapRecord) excludes(r mem.Range, writes bool) bool {
	if !m.r.Overlaps(r) {
		return false
	}
	if m.rights != nil {
		return writes || m.flags.Writes()
	}
	return writes && m.flags.Writes()
}

// EnqueueMap maps size bytes at off of b into the host's memory. The mapping may
// be used once the event has ended; other maps of the same bytes may exist,
// unless both are for writing, which fails with mem.ErrInvalidOperation. It also
// fails with that where b's flags deny the host what flags ask for, and with
// mem.ErrInvalidValue where flags contradict. A buffer released meanwhile exists
// until it is unmapped.
func (q *Queue) EnqueueMap(ctx context.Context, b *Buffer, off, size uint64, flags MapFlags, wait ...Event) (Mapping, Event, error) {
	u, err := q.resolve("map", b, off, size)
	if err != nil {
		return Mapping{}, Event{}, err
	}
	if err := mayMap(flags, b.view.Flags); err != nil {
		return Mapping{}, Event{}, fmt.Errorf("map of %v of buffer %s: %w", u.r, b.label(), err)
	}
	return q.enqueueMap(ctx, request{q: q, op: opMap, a: u, mapFlags: flags}, wait)
}

// enqueueMap submits a map, and with it that of the host's rights to shared virtual memory.
func (q *Queue) enqueueMap(ctx context.Context, req request, wait []Event) (Mapping, Event, error) {
	if s := req.a.buf.root.svm; s != nil {
		m, err := s.arena.Map(s.p+Pointer(req.a.r.Start), req.a.r.Size(), req.mapFlags)
		if err != nil {
			return Mapping{}, Event{}, fmt.Errorf("map of %s: %w", req.a.buf.label(), err)
		}
		req.op, req.rights, req.call = opSVMMap, m, func(context.Context) error { return m.Grant() }
	}
	e, err := q.submit(ctx, &req, &borrowed{wait: wait})
	if err != nil && req.rights != nil {
		err = errors.Join(err, req.rights.Drop("a map that was refused"))
	}
	return req.mapping, e, err
}

// EnqueueUnmap ends a mapping: its bytes are the runtime's again. What was mapped
// for writing is then valid on the host and nowhere else. It fails with
// mem.ErrInvalidValue where m is not mapped (any more) or another context's.
func (q *Queue) EnqueueUnmap(ctx context.Context, m Mapping, wait ...Event) (Event, error) {
	if err := q.made(); err != nil {
		return Event{}, fmt.Errorf("unmap: %w", err)
	}
	if m.c != q.c {
		return Event{}, fmt.Errorf("unmap on queue %s: the mapping is not of context %s: %w", q.name, q.c.name, mem.ErrInvalidValue)
	}
	return q.submit(ctx, &request{q: q, op: opUnmap, mapping: m}, &borrowed{wait: wait})
}

// Abandon gives up a mapping whose bytes nobody has touched or will: one that its
// caller takes back before anybody is given it. The content is what it was before
// the map, whose command may still run. Nothing is enqueued, so that no driver can
// refuse it. It fails with mem.ErrInvalidValue where m is not mapped (any more).
func (m Mapping) Abandon() error {
	if m.c == nil {
		return fmt.Errorf("no mapping to abandon: %w", mem.ErrInvalidValue)
	}
	if err := m.c.begin("abandon"); err != nil {
		return err
	}
	defer m.c.bufferEnded()
	defer m.c.unlock()
	r := m.live()
	if r == nil {
		return fmt.Errorf("abandon of %d bytes that are not mapped (any more): %w", m.size, mem.ErrInvalidValue)
	}
	var err error
	if r.rights != nil {
		err = r.rights.Drop("a map that was given up")
	}
	return errors.Join(err, m.c.endMap(r, mem.Point{}))
}

// Map is EnqueueMap and waits for its end under ctx (a blocking map). Where the
// command fails or ctx ends, nothing stays mapped, and the content is what it was;
// the error wraps ErrMap and the cause. A command whose ctx has ended may still run.
func (q *Queue) Map(ctx context.Context, b *Buffer, off, size uint64, flags MapFlags, wait ...Event) (Mapping, error) {
	m, e, err := q.EnqueueMap(ctx, b, off, size, flags, wait...)
	if err != nil {
		return Mapping{}, err
	}
	if err = e.Wait(ctx); err != nil {
		err = errors.Join(fmt.Errorf("map of %d bytes at %d of buffer %s: %w: %w", size, off, b.label(), ErrMap, err), m.Abandon())
		m = Mapping{}
	}
	return m, errors.Join(err, e.Release())
}

// Maps is how many mappings there are of b's root buffer (CL_MEM_MAP_COUNT).
func (b *Buffer) Maps() int {
	if b.made() != nil {
		return 0
	}
	c := b.c
	if err := c.call(); err != nil {
		return 0
	}
	defer c.unlock()
	return len(b.root.maps)
}

// collectMap checks a map against those there are, and lists its access. c.mu is
// held.
func (c *Context) collectMap(req *request) error {
	u, root := req.a, req.a.buf.root
	if s := root.svm; s != nil {
		if _, _, err := c.svmAt(s.p); err != nil { // freed meanwhile
			return fmt.Errorf("%v of buffer %s: %w", u.r, u.buf.label(), err)
		}
	}
	for _, m := range root.maps {
		if m.excludes(u.r, req.mapFlags.Writes()) {
			why := mem.ErrInvalidOperation
			if root.svm != nil {
				why = svm.ErrMapped
			}
			return fmt.Errorf("%v of buffer %s: %v is mapped, and they exclude each other: %w", u.r, u.buf.label(), m.r, why)
		}
	}
	if root.svm == nil {
		return c.access(req, u, req.mapFlags.Mode(), mem.Host)
	}
	c.scratch.accs = append(c.scratch.accs, mem.Access{Buffer: root.id, Range: u.r, Mode: req.mapFlags.Mode(), Memory: mem.Host})
	return c.mayReach(req, root)
}

// mayReach fails where a command is about a pointer that its queue's device cannot have.
func (c *Context) mayReach(req *request, r *root) error {
	if !req.byPointer {
		return nil
	}
	return c.mems[req.q.mem].svmDevice(r.svm.fine())
}

// collectUnmap finds the map, and lists what its end does. c.mu is held.
func (c *Context) collectUnmap(req *request) error {
	m := req.mapping.live()
	if req.byPointer {
		for _, o := range req.a.buf.root.maps { // the youngest
			if o.byPointer && o.r.Start == req.a.r.Start {
				m = o
			}
		}
		if m == nil {
			return fmt.Errorf("no map was made of byte %d of %s: %w", req.a.r.Start, req.a.buf.label(), svm.ErrMapped)
		}
	}
	if m == nil {
		return fmt.Errorf("%d bytes that are not mapped (any more): %w", req.mapping.size, mem.ErrInvalidValue)
	}
	req.mapped = m
	if rights := m.rights; rights != nil {
		by := "EnqueueSVMUnmap on queue " + req.q.name
		req.op, req.call = opSVMUnmap, func(context.Context) error { return rights.Drop(by) }
	}
	c.collectEnd(m, true)
	return c.mayReach(req, m.root)
}

// collectEnd lists what the end of a map does: what was mapped for writing is written on the
// host, unless the map is known to have failed. The command waits for the map, whose failure
// is its own; for one for reading where it says so. c.mu is held.
func (c *Context) collectEnd(m *mapRecord, waits bool) {
	s, ended := &c.scratch, m.point.Reached()
	if m.flags.Writes() && (!ended || m.point.Succeeded()) {
		s.accs = append(s.accs, mem.Access{Buffer: m.root.id, Range: m.r, Mode: mem.Write, Memory: mem.Host})
	}
	if !ended && (waits || m.flags.Writes()) {
		s.user = append(s.user, mem.Wait{Point: m.point, Kind: mem.Data})
	}
}

// viewMap finds the bytes of a map whose storage is there. c.mu is held.
func (c *Context) viewMap(req *request) (err error) {
	var bytes []byte
	r, in := req.a.buf.root, req.a.r
	if s := r.svm; s != nil {
		bytes, err = s.arena.User(s.p+Pointer(in.Start), in.Size())
	} else {
		bytes, err = c.host.View(r.onHost(), in.Start, in.Size())
	}
	if err != nil {
		return fmt.Errorf("map of %v of buffer %s: %w: %w", in, r.label(), ErrMap, err)
	}
	req.mapping = Mapping{c: c, first: unsafe.SliceData(bytes), size: len(bytes)}
	return nil
}

// beginMap records an accepted map. c.mu is held.
func (c *Context) beginMap(req *request, p mem.Point) {
	t, r := &c.maps, req.a.buf.root
	if len(t.free) == 0 {
		m := new(mapRecord)
		t.all, t.free = append(t.all, m), append(t.free, m)
	}
	m := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	*m = mapRecord{root: r, r: req.a.r, flags: req.mapFlags, gen: m.gen, point: p, rights: req.rights, byPointer: req.byPointer}
	r.maps = append(r.maps, m)
	r.views++
	if m.flags.Writes() {
		if err := c.planner.Mapped(r.id, m.r, p); err != nil {
			panic(fmt.Sprintf("runtime: a map that the planner does not take: %v", err))
		}
	}
	req.mapping.record, req.mapping.gen = m, m.gen
}

// endMap forgets a map, which a command ends with point p; the zero Point is no command's.
// c.mu is held.
func (c *Context) endMap(m *mapRecord, p mem.Point) error {
	r, err := m.root, error(nil)
	switch {
	case m.flags.Writes():
		err = c.planner.Unmapped(r.id, m.r, m.point)
	case !p.IsZero(): // its bytes are in use until then
		err = c.planner.Reads(r.id, mem.Host, m.r, p)
	}
	if err != nil {
		panic(fmt.Sprintf("runtime: a map that the planner does not know: %v", err))
	}
	i := slices.Index(r.maps, m)
	r.maps = slices.Delete(r.maps, i, i+1)
	*m = mapRecord{gen: m.gen + 1}
	c.maps.free = append(c.maps.free, m)
	return c.unview(r)
}

// endMaps is endMap for all maps of a root. c.mu is held.
func (c *Context) endMaps(r *root, p mem.Point) (err error) {
	for len(r.maps) > 0 {
		err = errors.Join(err, c.endMap(r.maps[0], p))
	}
	return err
}

// checkMaps tests that every mapping is one of its root's, once, and is excluded by no other.
// c.mu is held.
func (c *Context) checkMaps() error {
	live := 0
	for _, r := range c.roots {
		for i, m := range r.maps {
			live++
			if m.root != r || !slices.Contains(c.maps.all, m) {
				return fmt.Errorf("buffer %s: %v is mapped, of no record", r.label(), m.r)
			}
			for _, o := range r.maps[:i] {
				if o == m || o.excludes(m.r, m.flags.Writes()) {
					return fmt.Errorf("buffer %s: %v and %v are mapped at once", r.label(), o.r, m.r)
				}
			}
		}
	}
	if n := len(c.maps.free); live+n != len(c.maps.all) {
		return fmt.Errorf("%d mappings: %d of buffers, %d free", len(c.maps.all), live, n)
	}
	return nil
}
