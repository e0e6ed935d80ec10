package runtime

import (
	"context"
	"errors"
	"fmt"
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
// Life of a mapping: made when the map is accepted, gone when its unmap is. It
// keeps the root alive. Records are in a table and reused with a generation.

// MapFlags say what a mapped range is for; the bits are OpenCL's.
type MapFlags uint8

// MapRead and MapWrite may be combined. MapInvalidate is for writing too, and
// brings no content: what the range holds when mapped is undefined.
const (
	MapRead       MapFlags = 1 << 0 // CL_MAP_READ
	MapWrite      MapFlags = 1 << 1 // CL_MAP_WRITE
	MapInvalidate MapFlags = 1 << 2 // CL_MAP_WRITE_INVALIDATE_REGION
)

func (f MapFlags) writes() bool { return f&(MapWrite|MapInvalidate) != 0 }

// mode is what a map does on the host.
func (f MapFlags) mode() mem.Mode {
	switch {
	case f&MapInvalidate != 0:
		return mem.Write
	case f&MapWrite != 0:
		return mem.ReadWrite
	}
	return mem.Read
}

// check tests flags by themselves and against a buffer's.
func (f MapFlags) check(b Flags) error {
	if f == 0 || f&^(MapRead|MapWrite|MapInvalidate) != 0 || (f&MapInvalidate != 0 && f != MapInvalidate) {
		return fmt.Errorf("map flags %#x: read, write, both, or invalidate alone: %w", uint8(f), mem.ErrInvalidValue)
	}
	if f&MapRead != 0 {
		if err := b.HostReads(); err != nil {
			return err
		}
	}
	if f.writes() {
		return b.HostWrites()
	}
	return nil
}

// ErrMap says that a range could not be mapped.
var ErrMap = mem.Sentinel("map failed", mem.MapFailure)

// Mapping is a range of a buffer in the host's memory, from the end of the map's
// event to the unmap. It is a small value, to be copied freely.
type Mapping struct {
	c     *Context
	first *byte
	size  int
	idx   uint32
	gen   uint32
	svm   *svm.Map // of a buffer over shared virtual memory, in place of idx and gen
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
	next  uint32    // of the root's list, or of the free ones: index + 1
	point mem.Point // of the map
}

// mapTable holds the records. Protected by Context.mu.
type mapTable struct {
	records []mapRecord
	free    uint32 // first free record + 1
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
	if err := flags.check(b.view.Flags); err != nil {
		return Mapping{}, Event{}, fmt.Errorf("map of %v of buffer %s: %w", u.r, b.label(), err)
	}
	if b.root.svm != nil {
		return q.mapAlias(ctx, u, flags, wait)
	}
	req := request{q: q, op: opMap, a: u, mapFlags: flags}
	e, err := q.submit(ctx, &req, &borrowed{wait: wait})
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
	if m.svm != nil {
		return q.unmapAlias(ctx, m, wait)
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
	if m.svm != nil {
		if err := m.c.abandonSVM(m.svm); err != nil {
			return fmt.Errorf("abandon: %w: %w", mem.ErrInvalidValue, err)
		}
		return nil
	}
	if err := m.c.call(); err != nil {
		return err
	}
	defer m.c.bufferEnded()
	defer m.c.unlock()
	if m.c.closed {
		return fmt.Errorf("abandon of %d bytes: context %s: %w", m.size, m.c.name, errContextClosed)
	}
	r := m.c.maps.find(m)
	if r == nil {
		return fmt.Errorf("abandon of %d bytes that are not mapped (any more): %w", m.size, mem.ErrInvalidValue)
	}
	if r.flags.writes() {
		m.c.hostWrote(r.root, r.r, r.point)
	}
	return m.c.endMapping(r, m.idx)
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
	n := 0
	for i := b.root.maps; i != 0; i = c.maps.records[i-1].next {
		n++
	}
	return n
}

// find returns the record of a mapping, or nil.
func (t *mapTable) find(m Mapping) *mapRecord {
	if uint64(m.idx) >= uint64(len(t.records)) {
		return nil
	}
	if r := &t.records[m.idx]; r.gen == m.gen && r.root != nil {
		return r
	}
	return nil
}

// collectMap checks a map against those there are, and lists its access. c.mu is
// held.
func (c *Context) collectMap(req *request) error {
	u := req.a
	if req.mapFlags.writes() {
		for i := u.buf.root.maps; i != 0; i = c.maps.records[i-1].next {
			if m := &c.maps.records[i-1]; m.flags.writes() && m.r.Overlaps(u.r) {
				return fmt.Errorf("map of %v of buffer %s for writing: %v is mapped for writing: %w", u.r, u.buf.label(), m.r, mem.ErrInvalidOperation)
			}
		}
	}
	return c.access(req, u, req.mapFlags.mode(), mem.Host)
}

// collectUnmap lists an unmap's access. c.mu is held.
func (c *Context) collectUnmap(req *request) error {
	m := c.maps.find(req.mapping)
	if m == nil {
		return fmt.Errorf("unmap on queue %s: %d bytes that are not mapped (any more): %w", req.q.name, req.mapping.size, mem.ErrInvalidValue)
	}
	req.mapped = m
	if m.flags.writes() && (!m.point.Reached() || m.point.Succeeded()) {
		c.scratch.accs = append(c.scratch.accs, mem.Access{Buffer: m.root.id, Range: m.r, Mode: mem.Write, Memory: mem.Host})
	}
	return nil
}

// mapWaits are an unmap's waits besides the planner's: the map, whose failure is
// the unmap's, unless it is known. c.mu is held.
func (c *Context) mapWaits(req *request) {
	p := req.mapped.point
	if !p.Reached() || (len(c.scratch.accs) > 0 && !p.Succeeded()) {
		c.scratch.user = append(c.scratch.user, mem.Wait{Point: p, Kind: mem.Data})
	}
}

// viewMap finds the bytes of a map whose storage is there. c.mu is held.
func (c *Context) viewMap(req *request) error {
	r := req.a.buf.root
	bytes, err := c.host.View(r.onHost(), req.a.r.Start, req.a.r.Size())
	if err != nil {
		return fmt.Errorf("map of %v of buffer %s: %w: %w", req.a.r, r.label(), ErrMap, err)
	}
	req.mapping = Mapping{c: c, first: unsafe.SliceData(bytes), size: len(bytes)}
	return nil
}

// mapped records an accepted map. c.mu is held.
func (c *Context) mapped(req *request, p mem.Point) {
	t, r := &c.maps, req.a.buf.root
	i := t.free
	if i == 0 {
		t.records = append(t.records, mapRecord{})
		i = uint32(len(t.records))
	} else {
		t.free = t.records[i-1].next
	}
	m := &t.records[i-1]
	*m = mapRecord{root: r, r: req.a.r, flags: req.mapFlags, gen: m.gen, next: r.maps, point: p}
	r.maps = i
	r.views++
	if req.mapFlags.writes() {
		c.hostWrites(r, m.r, p)
	}
	req.mapping.idx, req.mapping.gen = i-1, m.gen
}

// unmapped forgets a mapping whose unmap was accepted. c.mu is held.
func (c *Context) unmapped(req *request, p mem.Point) error {
	m := req.mapped
	if m.flags.writes() {
		c.hostWrote(m.root, m.r, m.point)
	} else {
		if err := c.planner.Reads(m.root.id, mem.Host, m.r, p); err != nil {
			panic(fmt.Sprintf("runtime: a mapped range that the planner does not know: %v", err))
		}
	}
	return c.endMapping(m, req.mapping.idx)
}

// endMapping frees record number idx of a mapping. c.mu is held.
func (c *Context) endMapping(m *mapRecord, idx uint32) error {
	t, r, i := &c.maps, m.root, idx+1
	at := &r.maps
	for *at != i {
		at = &t.records[*at-1].next
	}
	*at = m.next
	*m = mapRecord{gen: m.gen + 1, next: t.free}
	t.free = i
	if r.views--; r.views == 0 {
		return c.drop(r)
	}
	return nil
}

// hostWrites tells the planner of a map for writing that was accepted to end at
// the point. c.mu is held.
func (c *Context) hostWrites(r *root, bytes mem.Range, at mem.Point) {
	if err := c.planner.Mapped(r.id, bytes, at); err != nil {
		panic(fmt.Sprintf("runtime: a map that the planner does not take: %v", err))
	}
}

// hostWrote tells the planner that the map for writing of that point has ended. c.mu is
// held.
func (c *Context) hostWrote(r *root, bytes mem.Range, at mem.Point) {
	if err := c.planner.Unmapped(r.id, bytes, at); err != nil {
		panic(fmt.Sprintf("runtime: a map that the planner does not know: %v", err))
	}
}

// checkMaps tests that every mapping is in its root's list once. c.mu is held.
func (c *Context) checkMaps() error {
	t, listed, live := &c.maps, 0, 0
	for _, r := range c.roots {
		for i := r.maps; i != 0; i = t.records[i-1].next {
			if listed++; listed > len(t.records) || t.records[i-1].root != r {
				return fmt.Errorf("buffer %s: its list of mappings is broken at %d", r.label(), i-1)
			}
		}
	}
	for i := range t.records {
		if t.records[i].root != nil {
			live++
		}
	}
	free := 0
	for i := t.free; i != 0 && free <= len(t.records); i = t.records[i-1].next {
		free++
	}
	if live != listed || live+free != len(t.records) {
		return fmt.Errorf("%d mappings: %d live, %d listed by buffers, %d free", len(t.records), live, listed, free)
	}
	return nil
}
