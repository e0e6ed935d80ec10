package scenario

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"

	"godwit/internal/flat"
	"godwit/mem"
	"godwit/runtime"
)

// Verification. Nothing is copied for it: what a read yielded is compared with
// the reference run's memory when that has come to the same command, and given
// up; at the end every root is read piece by piece from where its latest content
// is, and each piece compared.

// pieceSize is how much is read at once at the end, in bytes.
const pieceSize = 4 << 20

// verify compares with the reference run and checks the expectations.
func (r *runner) verify(ctx context.Context, res *Result) (err error) {
	if !r.opt.Plain {
		if err := r.bounds(ctx, res); err != nil {
			return err
		}
	}
	if !r.stamps() {
		res.NotCompared = r.blind()
	}
	v := &verifier{runner: r, res: res, queues: make(map[mem.MemoryID]*runtime.Queue)}
	if res.Stamps = r.stamps(); res.Stamps {
		v.by = r.newStamped()
	} else if res.NotCompared == "" {
		if v.ref, err = newReference(ctx, r.s, r.at); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.ref.close()) }()
	}
	if v.ref != nil || v.by != nil {
		if err := v.compareAll(ctx); err != nil {
			return err
		}
		res.Verified = len(res.Mismatches) == 0
	}
	for i := range r.s.Expect {
		if r.opt.Plain || r.s.Times > 0 {
			break // they are of a run of one time, with its trace
		}
		e := &r.s.Expect[i]
		if v.ref == nil && v.by == nil && (e.Place != nil || e.Moved != nil && r.s.counts()) { // nor are there counts
			continue
		}
		got, err := v.check(ctx, e)
		if err != nil {
			return err
		}
		res.Expect = append(res.Expect, expectedResult{Line: e.Line, Text: e.Text, Met: got == "", Got: got})
	}
	return nil
}

// blind says why no content can be compared, or "".
func (r *runner) blind() string {
	for _, d := range r.s.Devices {
		if d.Driver == "null" {
			return fmt.Sprintf("device %s moves nothing (driver null)", d.Name)
		}
	}
	return ""
}

// verifier is the state of a verification.
type verifier struct {
	*runner
	res    *Result
	ref    *reference  // nil where no content can be compared
	by     *stamped    // in its place, where devices keep no bytes
	found  []flat.Seen // of these, by the last piece of content
	queues map[mem.MemoryID]*runtime.Queue
	piece  []byte
	spare  *runtime.Buffer // for what the host may not read
}

// compareAll runs the reference and compares every read, and every root at the
// end.
func (v *verifier) compareAll(ctx context.Context) error {
	s := v.s
	for i := range s.Commands {
		if err := ctx.Err(); err != nil {
			return err
		}
		step := v.step
		if v.by != nil {
			step = v.stepByStamps
		}
		v.forget(s.roundOf(i, false))
		if err := step(ctx, i); err != nil {
			return err
		}
		v.forget(s.roundOf(i, true))
		v.progress("reference", i+1, len(s.Commands))
	}
	for i := range s.Buffers {
		for _, p := range v.reachable(i) {
			d := &difference{}
			if err := v.content(ctx, p, func(off uint64, got []byte) {
				if from := p.Range.Start + off; v.by != nil {
					v.saw("buffer "+p.Name+" at the end", i, mem.Range{Start: from, End: from + uint64(len(got))}, 0, 0, v.found)
				} else {
					v.compareWith(d, off, got, i, from, v.ref.memory.Limit(i))
				}
			}); err != nil {
				return err
			}
			v.res.report("buffer "+p.Name+" at the end", d)
		}
	}
	return nil
}

// forget takes the content of a graph's transients away, where a round of it begins or ends.
func (v *verifier) forget(g *graphDecl) {
	if g == nil {
		return
	}
	for _, b := range g.Transients {
		all := mem.Range{End: v.s.Buffers[b].Size}
		if v.by != nil {
			v.by.undefine(b, all)
		} else {
			v.ref.memory.Undefine(b, all)
		}
	}
}

// step runs command i in the reference run, and compares what it has read.
func (v *verifier) step(ctx context.Context, i int) error {
	if err := v.ref.step(ctx, v.s, i, v.failed[i] != nil); err != nil {
		return err
	}
	if v.reads[i] != nil && v.failed[i] == nil {
		v.compareRead(i, &v.s.Commands[i])
		v.reads[i] = nil
	}
	return nil
}

// compareRead compares what command i has read.
func (v *verifier) compareRead(i int, c *command) {
	d, got := &difference{}, v.reads[i]
	v.res.BytesRead += c.readSize()
	limit := v.ref.limit(c)
	if c.Rect == nil {
		v.compareWith(d, 0, got, c.Place.Buffer, c.Place.Range.Start, limit)
	} else {
		at, n := uint64(0), c.Rect.Region[0]
		gap := bytes.Repeat([]byte{gapByte}, int(min(c.Rect.HostSize, 4096)))
		gaps := func(end uint64) { // nothing between the rows is touched
			for ; at < end; at += min(end-at, uint64(len(gap))) {
				part := got[at:min(end, at+uint64(len(gap)))]
				d.compare(at, part, gap[:len(part)])
			}
		}
		c.Rect.rows(func(from, to uint64) {
			gaps(to)
			v.compareWith(d, to, got[to:to+n], c.Place.Buffer, c.Place.Range.Start+from, limit)
			at = to + n
		})
		d.compared -= c.Rect.HostSize - c.readSize() // gaps are not content
	}
	v.res.report(fmt.Sprintf("#%d %s", i+1, v.s.text(c)), d)
}

// compareWith compares a piece at off with what the reference run has from a place of
// a buffer on, as far as that is known.
func (v *verifier) compareWith(d *difference, off uint64, got []byte, buffer int, from, limit uint64) {
	m := &v.ref.memory
	for r, known := range m.Known(buffer, mem.Range{Start: from, End: from + uint64(len(got))}, limit) {
		if at := r.Start - from; known {
			d.compare(off+at, got[at:at+r.Size()], m.Bytes(buffer, r))
		} else {
			d.compared += r.Size()
			d.undefined += r.Size()
		}
	}
}

// readSize is how many bytes a read command reads.
func (c *command) readSize() uint64 {
	if c.Rect != nil {
		return c.Rect.Region[0] * c.Rect.Region[1] * c.Rect.Region[2]
	}
	return c.Place.Range.Size()
}

// reachable lists the places that hold what is left of a root at the end: all of
// it, or of shared virtual memory that was freed, what buffers over it show.
func (r *runner) reachable(i int) (out []place) {
	b := &r.s.Buffers[i]
	if b.SVM == nil || b.SVM.Freed < 0 {
		return []place{{Buffer: i, View: -1, Range: mem.Range{End: b.Size}, Name: b.Name}}
	}
	for j, v := range r.s.Views {
		if v.Over && v.Buffer == i {
			out = append(out, place{Buffer: i, View: j, Range: v.Range, Name: v.Name})
		}
	}
	return out
}

// content gives f the latest content of a place, in pieces, each read from a
// memory that holds it, so that nothing moves for it. What nobody has written is
// left out, or where the reference run says otherwise reported.
func (v *verifier) content(ctx context.Context, p place, f func(off uint64, got []byte)) (err error) {
	size := uint64(pieceSize)
	if v.by != nil {
		size = stampedPiece
	}
	if size = min(size, p.Range.Size()); uint64(len(v.piece)) < size {
		if v.by == nil {
			v.piece = make([]byte, size)
		} else if v.piece, err = v.blank.Bytes(size); err != nil {
			return err
		}
	}
	for segment, valid := range together(v.where(p)) {
		m, _ := valid.First()
		for at := segment.Start; at < segment.End; at += size {
			r := mem.Range{Start: at, End: min(at+size, segment.End)}
			got := v.piece[:r.Size()]
			if err := ctx.Err(); err != nil {
				return err
			}
			if valid.Empty() {
				v.unwritten(p.Buffer, r, got)
			} else if err := v.readPiece(ctx, p, r, m, got); err != nil {
				return fmt.Errorf("reading %s at the end: %w", p.Name, err)
			}
			f(r.Start-p.Range.Start, got)
		}
	}
	return nil
}

// where yields the ranges of a place with the memories that hold their latest content; of a run
// without a trace all of it comes to the host.
func (v *verifier) where(p place) iter.Seq2[mem.Range, mem.MemorySet] {
	return func(yield func(mem.Range, mem.MemorySet) bool) {
		if v.x == nil {
			yield(p.Range, mem.SetOf(mem.Host))
			return
		}
		for r, c := range v.x.ledger.Segments(v.ids[p.Buffer], p.Range) {
			if !yield(r, c.Valid) {
				return
			}
		}
	}
}

// together has neighbours of segments be one, as long as one memory holds them all, so that they are read at once.
func together(segments iter.Seq2[mem.Range, mem.MemorySet]) iter.Seq2[mem.Range, mem.MemorySet] {
	return func(yield func(mem.Range, mem.MemorySet) bool) {
		var run mem.Range
		var valid mem.MemorySet
		for r, v := range segments {
			if both := valid.Intersect(v); run.End == r.Start && !both.Empty() {
				run.End, valid = r.End, both
				continue
			}
			if run.Size() > 0 && !yield(run, valid) {
				return
			}
			run, valid = r, v
		}
		if run.Size() > 0 {
			yield(run, valid)
		}
	}
}

// unwritten fills got, which stands for bytes that nobody wrote here, with what the
// reference run has not: where that knows them, it is a difference.
func (v *verifier) unwritten(buffer int, r mem.Range, got []byte) {
	if v.by != nil {
		v.found = nil
		return
	}
	copy(got, v.ref.memory.Bytes(buffer, r))
	for i := range got {
		got[i] = ^got[i]
	}
}

// readPiece reads a range of a place's root from memory m.
func (v *verifier) readPiece(ctx context.Context, p place, r mem.Range, m mem.MemoryID, got []byte) (err error) {
	var e runtime.Event
	piece := p
	piece.Range = r
	svm := v.s.isSVM(p)
	hidden := !svm && v.s.access(p).HostReads() != nil
	if hidden {
		m = mem.Host
	}
	q, err := v.queue(m)
	if err != nil {
		return err
	}
	switch {
	case svm:
		e, err = q.EnqueueSVMRead(ctx, v.pointer(piece), got)
	case hidden:
		e, err = v.readHidden(ctx, q, piece, got)
	default:
		b, off := v.object(piece)
		e, err = q.EnqueueRead(ctx, b, off, got)
	}
	if err != nil {
		return err
	}
	if v.by != nil {
		n, err := e.Command()
		if err = errors.Join(err, e.Wait(ctx)); err == nil {
			v.found = v.model.world.Seen(n)
		}
		return errors.Join(err, e.Release())
	}
	return errors.Join(e.Wait(ctx), e.Release())
}

// readHidden reads what the host may not read by way of a copy.
func (v *verifier) readHidden(ctx context.Context, q *runtime.Queue, p place, got []byte) (runtime.Event, error) {
	if v.spare == nil || v.spare.Size() < p.Range.Size() {
		b, err := v.ctx.CreateNamedBuffer("verify", min(uint64(len(v.piece)), v.s.Buffers[p.Buffer].Size), 0, nil)
		if err != nil {
			return runtime.Event{}, err
		}
		v.spare = b
		v.views = append(v.views, b) // to be released with them
	}
	b, off := v.object(p)
	e, err := q.EnqueueCopy(ctx, b, v.spare, off, 0, p.Range.Size())
	if err == nil {
		err = e.Release()
	}
	if err != nil {
		return runtime.Event{}, err
	}
	return q.EnqueueRead(ctx, v.spare, 0, got)
}

// queue is the queue that reads from a memory.
func (v *verifier) queue(m mem.MemoryID) (*runtime.Queue, error) {
	if q := v.queues[m]; q != nil {
		return q, nil
	}
	q, err := v.ctx.NewQueue(v.devs[v.names[m]], runtime.QueueOptions{Name: "verify"})
	if err == nil {
		v.queues[m] = q
	}
	return q, err
}

// check returns what was found where an expectation is not met, else "".
func (v *verifier) check(ctx context.Context, e *expectation) (string, error) {
	res := v.res
	switch {
	case e.Moved != nil && res.BytesMoved != *e.Moved:
		return fmt.Sprintf("%d bytes moved", res.BytesMoved), nil
	case e.Minimal && res.BytesMoved != res.BytesLowerBound:
		return fmt.Sprintf("%d bytes moved, the lower bound is %d", res.BytesMoved, res.BytesLowerBound), nil
	case e.Percent != nil && float64(res.BytesCapacity)*100 > float64(res.BytesCapacityBound)*float64(*e.Percent):
		return fmt.Sprintf("%s, at least %s", sizeText(res.BytesCapacity), sizeText(res.BytesCapacityBound)), nil
	case e.Copies != nil && uint64(len(res.Copies)) != *e.Copies:
		return fmt.Sprintf("%d copies", len(res.Copies)), nil
	case len(e.Fails) > 0:
		for _, i := range e.Fails {
			if v.failed[i] == nil {
				return fmt.Sprintf("#%d %s ended well", i+1, v.s.text(&v.s.Commands[i])), nil
			}
		}
		return "", nil
	case len(e.Only) > 0:
		return v.checkOnly(e), nil
	case e.Place == nil:
		return "", nil
	}
	return v.checkContent(ctx, e)
}

// checkContent compares a place with what is expected there.
func (v *verifier) checkContent(ctx context.Context, e *expectation) (string, error) {
	p := *e.Place
	var sum hash.Hash
	var want []byte
	d := &difference{}
	switch {
	case e.SHA256 != "":
		sum = sha256.New()
	case e.Data != nil:
		want = e.Data.Bytes(p.Range.Size(), v.at)
	}
	err := v.content(ctx, p, func(off uint64, got []byte) {
		switch {
		case sum != nil:
			sum.Write(got)
		case want != nil:
			d.compare(off, got, want[off:])
		default:
			v.compareWith(d, off, got, p.Buffer, p.Range.Start+off, v.ref.memory.Limit(p.Buffer))
		}
	})
	switch {
	case err != nil:
		return "", err
	case sum != nil:
		if got := hex.EncodeToString(sum.Sum(nil)); got != e.SHA256 {
			return "SHA-256 " + got, nil
		}
	case d.places > 0:
		return fmt.Sprintf("differs in %s, the first at %d: 0x%02x", count(int(d.places), "place", "places"), d.first, d.got), nil
	}
	return "", nil
}

// checkOnly wants every copy inside one of the places.
func (v *verifier) checkOnly(e *expectation) string {
	for _, c := range v.res.Copies {
		moved := mem.Range{Start: c.Offset, End: c.Offset + c.Bytes}
		inside := false
		for _, p := range e.Only {
			inside = inside || (v.s.Buffers[p.Buffer].Name == c.Buffer && p.Range.Contains(moved))
		}
		if !inside {
			return fmt.Sprintf("%s%v moved for #%d", c.Buffer, moved, c.Command)
		}
	}
	return ""
}

// difference collects in which bytes content is not what it should be. It is
// given pieces with ascending offsets.
type difference struct {
	compared, undefined uint64 // bytes
	wrong, places       uint64 // bytes, and runs of them
	first               uint64 // offset of the first
	got, want           byte   // there
	next                uint64 // where the last run ends
}

// compare compares a piece at off with what is wanted, which is at least as long.
func (d *difference) compare(off uint64, got, want []byte) {
	d.compared += uint64(len(got))
	if bytes.Equal(got, want[:len(got)]) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			d.differs(off+uint64(i), got[i], want[i])
		}
	}
}

func (d *difference) differs(at uint64, got, want byte) {
	if d.wrong == 0 {
		d.first, d.got, d.want = at, got, want
	}
	if d.wrong == 0 || d.next != at {
		d.places++
	}
	d.wrong++
	d.next = at + 1
}

// report counts what was compared, and says where it differs.
func (r *Result) report(what string, d *difference) {
	r.BytesCompared += d.compared - d.undefined
	r.BytesUndefined += d.undefined
	if d.wrong > 0 {
		r.Mismatches = append(r.Mismatches, fmt.Sprintf("%s: %s of the bytes differ from the reference run, the first at %d: 0x%02x and not 0x%02x", what, sizeText(d.wrong), d.first, d.got, d.want))
	}
}
