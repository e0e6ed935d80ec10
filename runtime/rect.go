package runtime

import (
	"context"
	"fmt"
	"math/bits"

	"godwit/devices"
	"godwit/mem"
	"godwit/migration"
)

// Rectangles. A rectangular command uses exactly the bytes of its rows, and the
// planner is told of them row by row: nothing between two rows is brought,
// ordered or invalidated. That costs an access for each row, so there is a limit
// (RectRows): of more rows, as many as needed are taken together with the bytes
// between them, which are then read where the rows are read, and read and kept
// where the rows are written (a promise to write all of them would be false).
// More bytes may move then, and a failure loses what lies between (an exception to
// C9); bytes already lost there make the command be planned row by row after all, so that it never
// fails for their sake. Rows that touch count as one.

// RectRows is the most rows of a rectangle that are planned one by one.
const RectRows = 1024

// Box says where a region lies in a buffer or in host memory, in bytes, rows and
// slices. Its first byte is at Origin[0] + Origin[1]*Row + Origin[2]*Slice.
type Box struct {
	Origin     [3]uint64 // bytes, rows, slices
	Row, Slice uint64    // pitches in bytes; 0 is as many as the region has in a row, or in a slice
}

// bounded is a Box with its pitches filled in, and its extent.
type bounded struct {
	first, span uint64 // the first byte, and how far from there the last one's end is
	row, slice  uint64
}

// bound checks a box against OpenCL's rules for a region.
func (b *Box) bound(what string, region [3]uint64) (bounded, error) {
	if region[0] == 0 || region[1] == 0 || region[2] == 0 {
		return bounded{}, fmt.Errorf("%s: region %v: no side may be 0: %w", what, region, mem.ErrInvalidValue)
	}
	o := bounded{row: b.Row, slice: b.Slice}
	if o.row == 0 {
		o.row = region[0]
	}
	rows, ok := mulAdd(region[1], o.row, 0)
	if o.slice == 0 {
		o.slice = rows
	}
	switch {
	case o.row < region[0]:
		return bounded{}, fmt.Errorf("%s: row pitch %d: rows have %d bytes: %w", what, o.row, region[0], mem.ErrInvalidValue)
	case !ok || o.slice < rows || o.slice%o.row != 0:
		return bounded{}, fmt.Errorf("%s: slice pitch %d: it must be a multiple of the row pitch %d, at least for the %d rows of a slice: %w",
			what, o.slice, o.row, region[1], mem.ErrInvalidValue)
	}
	first, ok1 := mulAdd(b.Origin[1], o.row, b.Origin[0])
	first, ok2 := mulAdd(b.Origin[2], o.slice, first)
	span, ok3 := devices.RectSpan(region, o.row, o.slice)
	if !ok1 || !ok2 || !ok3 || first+span < span {
		return bounded{}, fmt.Errorf("%s: region %v at %v: its offsets overflow 64 bits: %w", what, region, b.Origin, mem.ErrInvalidValue)
	}
	o.first, o.span = first, span
	return o, nil
}

// Extent is how many bytes a region of host memory reaches to, from the first that is counted. It
// fails as EnqueueReadRect does.
func (b Box) Extent(region [3]uint64) (bytes uint64, err error) {
	o, err := b.bound("host memory", region)
	return o.first + o.span, err
}

// mulAdd is a*b + c; ok is false where that does not fit.
func mulAdd(a, b, c uint64) (sum uint64, ok bool) {
	hi, lo := bits.Mul64(a, b)
	sum, carry := bits.Add64(lo, c, 0)
	return sum, hi == 0 && carry == 0
}

// EnqueueReadRect copies a region of b, where at says, to where host says in
// data, by way of the queue's device. Other bytes of data stay as they are; all
// of it is the runtime's until the event ends. Besides the errors of all
// Enqueue methods, mem.ErrInvalidValue where the region has a side of 0 bytes,
// a pitch is too short (or a slice no whole number of rows), or the region leaves
// the buffer or data.
func (q *Queue) EnqueueReadRect(ctx context.Context, b *Buffer, at Box, data []byte, host Box, region [3]uint64, wait ...Event) (Event, error) {
	req := request{q: q, op: opReadRect, data: data}
	if err := q.hostRect("read", b, &at, &host, region, &req); err != nil {
		return Event{}, err
	}
	if err := b.view.Flags.HostReads(); err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &req, &borrowed{wait: wait})
}

// EnqueueWriteRect copies a region of data, where host says, to where at says in
// b. data must stay as it is until the event ends. Errors are EnqueueReadRect's.
func (q *Queue) EnqueueWriteRect(ctx context.Context, b *Buffer, at Box, data []byte, host Box, region [3]uint64, wait ...Event) (Event, error) {
	req := request{q: q, op: opWriteRect, data: data}
	if err := q.hostRect("write", b, &at, &host, region, &req); err != nil {
		return Event{}, err
	}
	if err := b.view.Flags.HostWrites(); err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &req, &borrowed{wait: wait})
}

// hostRect fills in the request of a read or write.
func (q *Queue) hostRect(what string, b *Buffer, at, host *Box, region [3]uint64, req *request) error {
	dev, err := at.bound(what, region)
	if err != nil {
		return err
	}
	if req.a, err = q.resolve(what, b, dev.first, dev.span); err != nil {
		return err
	}
	h, err := host.bound("host memory", region)
	if err != nil {
		return err
	}
	if _, err := mem.SpanIn(h.first, h.span, uint64(len(req.data))); err != nil {
		return fmt.Errorf("%s: host memory: %w", what, err)
	}
	req.off = h.first
	req.rect = devices.Rect{Region: region, SrcRow: dev.row, SrcSlice: dev.slice, DstRow: h.row, DstSlice: h.slice}
	if req.op == opWriteRect {
		req.rect = devices.Rect{Region: region, SrcRow: h.row, SrcSlice: h.slice, DstRow: dev.row, DstSlice: dev.slice}
	}
	return nil
}

// EnqueueCopyRect copies a region of src to dst, on the queue's device. Besides
// the errors of EnqueueReadRect, mem.ErrOverlap where a byte is both source and
// destination, and mem.ErrInvalidValue where src and dst are one buffer and the
// pitches differ.
func (q *Queue) EnqueueCopyRect(ctx context.Context, src, dst *Buffer, from, to Box, region [3]uint64, wait ...Event) (Event, error) {
	s, err := from.bound("copy source", region)
	if err != nil {
		return Event{}, err
	}
	d, err := to.bound("copy destination", region)
	if err != nil {
		return Event{}, err
	}
	req := request{q: q, op: opCopyRect}
	if req.a, err = q.resolve("copy source", src, s.first, s.span); err != nil {
		return Event{}, err
	}
	if req.b, err = q.resolve("copy destination", dst, d.first, d.span); err != nil {
		return Event{}, err
	}
	if src == dst && (s.row != d.row || s.slice != d.slice) {
		return Event{}, fmt.Errorf("copy within buffer %s with pitches %d, %d and %d, %d: they must be equal: %w", src.label(), s.row, s.slice, d.row, d.slice, mem.ErrInvalidValue)
	}
	req.rect = devices.Rect{Region: region, SrcRow: s.row, SrcSlice: s.slice, DstRow: d.row, DstSlice: d.slice}
	if err := req.apart(); err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &req, &borrowed{wait: wait})
}

// apart fails where a copy of a rectangle has bytes that are both source and destination.
func (req *request) apart() error {
	if req.op != opCopyRect || req.a.buf.root != req.b.buf.root {
		return nil
	}
	r := &req.rect
	x, y := rowsOf(req.a.r.Start, r.Region, r.SrcRow, r.SrcSlice), rowsOf(req.b.r.Start, r.Region, r.DstRow, r.DstSlice)
	if shared := x.meet(y); !shared.Empty() {
		return fmt.Errorf("copy of %v within buffer %s: source and destination share %v: %w", r.Region, req.a.buf.root.label(), shared, mem.ErrOverlap)
	}
	return nil
}

// rows are the bytes of a rectangle: count[1] times count[0] runs of size bytes,
// ascending and apart.
type rows struct {
	start, size  uint64
	count, pitch [2]uint64
}

// rowsOf makes runs that touch one.
func rowsOf(start uint64, region [3]uint64, row, slice uint64) rows {
	r := rows{start, region[0], [2]uint64{region[1], region[2]}, [2]uint64{row, slice}}
	if r.count[0] == 1 || r.pitch[0] == r.size {
		r.size *= r.count[0]
		r.count[0] = 1
		if r.count[1] == 1 || r.pitch[1] == r.size {
			r.size *= r.count[1]
			r.count[1] = 1
		}
	}
	return r
}

// len is the number of runs; it fits, as each has a byte of some memory.
func (r *rows) len() uint64 { return r.count[0] * r.count[1] }

// at is run number i.
func (r *rows) at(i uint64) mem.Range {
	start := r.start + i%r.count[0]*r.pitch[0] + i/r.count[0]*r.pitch[1]
	return mem.Range{Start: start, End: start + r.size}
}

// meet returns bytes that are in both, or an empty range. It takes time in
// proportion to the rows, none where the extents do not meet.
func (r *rows) meet(o rows) mem.Range {
	n, m := r.len(), o.len()
	if !(mem.Range{Start: r.start, End: r.at(n - 1).End}).Overlaps(mem.Range{Start: o.start, End: o.at(m - 1).End}) {
		return mem.Range{}
	}
	for i, j := uint64(0), uint64(0); i < n && j < m; {
		x, y := r.at(i), o.at(j)
		switch {
		case x.Overlaps(y):
			return x.Intersect(y)
		case x.End <= y.Start:
			i++
		default:
			j++
		}
	}
	return mem.Range{}
}

// rectAccess adds the accesses of a rectangle, which starts at the start of u.
// c.mu is held.
func (c *Context) rectAccess(req *request, u use, row, slice uint64, mode mem.Mode) error {
	s := &c.scratch
	m, err := c.locate(req, u, req.q.mem)
	if err != nil {
		return err
	}
	a := mem.Access{Buffer: u.buf.root.id, Mode: mode, Memory: m}
	r := rowsOf(u.r.Start, req.rect.Region, row, slice)
	n, group := r.len(), uint64(1)
	for i := uint64(0); i < n && u.buf.root.svm != nil; i++ {
		a.Range = r.at(i)
		if err := noConflict(u.buf.root, &a); err != nil {
			return err
		}
	}
	if n > RectRows && !req.exact {
		group = (n + RectRows - 1) / RectRows
		req.coarse = true
		if a.Mode == mem.Write {
			a.Mode = mem.ReadWrite
		}
	}
	if n > group && u.buf.root.byRange && a.Memory != mem.Host { // no access says what is needed in one block
		s.span(migration.Span{Buffer: a.Buffer, Memory: a.Memory, Range: c.reached(req, u, a.Memory)})
	}
	for i := uint64(0); i < n; i += group {
		a.Range = mem.Range{Start: r.at(i).Start, End: r.at(min(i+group, n) - 1).End}
		s.accs = append(s.accs, a)
	}
	return nil
}

// rectCommand fills the scratch command. c.mu is held.
func (c *Context) rectCommand(req *request, m mem.MemoryID) {
	cmd := &c.scratch.cmd
	cmd.Op, cmd.Rect = devices.OpCopyRect, req.rect
	switch req.op {
	case opReadRect:
		c.place(&cmd.Src, req.a, m)
		cmd.Dst.Bytes, cmd.Dst.Off = req.data, req.off
	case opWriteRect:
		cmd.Src.Bytes, cmd.Src.Off = req.data, req.off
		c.place(&cmd.Dst, req.a, m)
	default:
		c.place(&cmd.Src, req.a, m)
		c.place(&cmd.Dst, req.b, m)
	}
}
