package migration

import (
	"fmt"
	"slices"
	"sync/atomic"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// Content size (PoCL's cl_pocl_content_size): a buffer may name a size buffer,
// whose first 8 bytes say how many of its bytes matter. Only those are copied.
//
// What the count is, nobody knows when a command is planned: it may be the
// result of a kernel that has not run. So a step is planned over its full range
// and carries a Late: the size buffer, the version of the count that was the
// latest then, and the steps that bring the count to the host. The step reads it
// when it runs, as Data after those, and counts as a reader of these 8 bytes of
// the host's store: whatever changes them waits for it.
//
// Bytes beyond the count are undefined, so the whole of a step's range becomes
// valid at its destination, but partly: up to what its carried says. Such a
// memory is as good as any other while the count keeps its version. With the
// next version it is no holder any more, what the old count did not carry being
// stale there, and the next step brings only what is beyond that.

// CountSize is how many bytes at the start of a size buffer hold the count, a
// uint64 in the host's byte order.
const CountSize = 8

var countRange = mem.Range{End: CountSize}

// carriedTo is how far a step brought a range: bytes of the buffer below it are at
// the destination. It is 0 until the step has succeeded. Safe for use from many
// goroutines.
type carriedTo struct{ end atomic.Uint64 }

// Late is what a step of a buffer with a size buffer needs when it runs.
type Late struct {
	// Count is the size buffer; 0 where every byte of the step counts.
	Count mem.BufferID
	// Version is that of the count, which the host's store of Count holds when
	// the step's waits have been reached.
	Version mem.Version
	// After are the steps of the same plan that bring the count to the host, to
	// be waited for as Data. It lies in the plan.
	After []int

	full       mem.Range
	held, made *carriedTo
	counted    int // its count in Plan.counted; -1 where every byte counts
}

// Resolve returns the part of the step's range that has to be moved, given the
// count; it may be empty. Call it once the step's waits have succeeded.
func (l *Late) Resolve(count uint64) mem.Range {
	r := l.full
	if l.held != nil {
		r.Start = min(max(r.Start, l.held.end.Load()), r.End)
	}
	if l.Count != 0 {
		r.End = max(min(r.End, count), r.Start)
	}
	return r
}

// Landed says that the step has succeeded with that count. Call it before its
// point is reached, and not where it fails.
func (l *Late) Landed(count uint64) {
	if l.made != nil {
		if l.held != nil {
			count = max(count, l.held.end.Load())
		}
		l.made.end.Store(count)
	}
	l.held = nil // so that these do not make a list
}

// counted is a count that a plan's steps read.
type counted struct {
	size     mem.BufferID
	version  mem.Version // 0: never written, or being written by the host, so that every byte counts
	from, to int         // the steps that bring it, in Plan.countSteps
}

// SetContentSize makes size the size buffer of a buffer; 0 takes it away. It
// fails, and changes nothing, with mem.ErrInvalidBuffer where there is no such
// buffer, mem.ErrInvalidSize where the size buffer has fewer than CountSize
// bytes, and mem.ErrInvalidValue where a size buffer would have a size buffer.
func (p *Planner) SetContentSize(id, size mem.BufferID) error {
	b, err := p.buffer(id)
	if err != nil {
		return err
	}
	if size != 0 {
		s, err := p.buffer(size)
		switch {
		case err != nil:
			return fmt.Errorf("size buffer of %s: %w", bufferName(id), err)
		case s.content.Size() < CountSize:
			return fmt.Errorf("size buffer of %s: %s has %d bytes, a count takes %d: %w",
				bufferName(id), bufferName(size), s.content.Size(), CountSize, mem.ErrInvalidSize)
		case id == size:
			return fmt.Errorf("size buffer of %s: it cannot count its own bytes: %w", bufferName(id), mem.ErrInvalidValue)
		case s.count != 0 || len(b.serves) > 0:
			return fmt.Errorf("size buffer of %s: %s: a size buffer has no size buffer: %w", bufferName(id), bufferName(size), mem.ErrInvalidValue)
		}
		s.serves = append(s.serves, id)
	}
	p.uncount(id, b)
	b.count = size
	b.recount()
	p.edits++
	return nil
}

// uncount takes one mention of a buffer from its size buffer.
func (p *Planner) uncount(id mem.BufferID, b *buffer) {
	if b.count == 0 {
		return
	}
	s := p.buffers[uint32(b.count)]
	if i := slices.Index(s.serves, id); i >= 0 {
		s.serves = slices.Delete(s.serves, i, i+1)
	}
	b.count = 0
}

// recounted makes the count that a size buffer holds another one.
func (p *Planner) recounted(s *buffer) {
	for _, id := range s.serves {
		p.buffers[uint32(id)].recount()
	}
}

// errBeyond is the cause of poison where all whole copies were lost and then the
// count changed.
var errBeyond = fmt.Errorf("bytes beyond an earlier count were on memories that have lost them: %w", mem.ErrDependency)

// recount takes the memories that hold bytes partly from the valid ones.
func (b *buffer) recount() {
	var poison *loss
	for i := range b.stores {
		s := &b.stores[i]
		if s.held == nil {
			continue
		}
		for r, c := range s.held.All() {
			if *c == nil {
				continue
			}
			b.content.Update(r, func(_ mem.Range, v content) content {
				if !v.valid.Has(s.memory) {
					return v
				}
				if v.valid = v.valid.Without(s.memory); v.valid.Empty() {
					if poison == nil || poison.Version != v.version {
						poison = &loss{Version: v.version, Cause: errBeyond}
					}
					v.poison = poison
				}
				return v
			})
		}
	}
}

// hold notes that a store has r up to c; nil where it has all or nothing of it.
func (s *store) hold(r mem.Range, c *carriedTo) {
	if s.held == nil {
		if c == nil {
			return
		}
		m := rangemap.Make[*carriedTo](s.hazards.Size(), nil)
		s.held = &m
	}
	s.held.Set(r, c)
}

// forget makes no store hold r partly: its content is new.
func (b *buffer) forget(r mem.Range) {
	for i := range b.stores {
		b.stores[i].hold(r, nil)
	}
}

// whole reports whether some store but m's holds all that m's does of r, none of
// it partly.
func (b *buffer) whole(r mem.Range, valid mem.MemorySet, m mem.MemoryID) bool {
	for i := range b.stores {
		s := &b.stores[i]
		if s.memory != m && valid.Has(s.memory) && !s.partly(r) {
			return true
		}
	}
	return false
}

// lacks reports whether bytes that an access reads have to come.
func (b *buffer) lacks(a *mem.Access) bool {
	for r, v := range b.content.In(a.Range) {
		if v.valid.Empty() || v.valid.Has(a.Memory) {
			continue
		}
		if !b.hostWrites(a.Memory) || b.anyUnmapped(r) {
			return true
		}
	}
	return false
}

// bringCount plans the steps that bring a count to the host, where an access of
// a buffer that has one reads bytes that are to come.
func (p *Planner) bringCount(dst *Plan, b *buffer, a *mem.Access) error {
	size := b.count
	if !a.Mode.Reads() || dst.countOf(size) >= 0 || !b.lacks(a) {
		return nil
	}
	s, n := p.buffers[uint32(size)], counted{size: size, from: len(dst.countSteps)}
	written := !s.countMapped()
	var lost *loss
	for _, v := range s.content.In(countRange) {
		if v.poison != nil {
			lost = v.poison
		}
		n.version, written = max(n.version, v.version), written && v.version > 0
	}
	if written && lost != nil {
		return &LostError{Buffer: size, What: fmt.Sprintf("the count is of version %d", lost.Version), Poison: *lost}
	}
	if written {
		p.stageCount(dst, s, size)
		for i := range dst.Steps {
			if st := &dst.Steps[i]; st.Buffer == size && st.To == mem.Host && st.Range.Overlaps(countRange) {
				dst.countSteps = append(dst.countSteps, i)
			}
		}
	} else {
		n.version = 0
	}
	n.to = len(dst.countSteps)
	dst.counted = append(dst.counted, n)
	return nil
}

// stageCount plans what is missing on the host of a count's bytes, but for what
// a step of the plan brings already.
func (p *Planner) stageCount(dst *Plan, s *buffer, size mem.BufferID) {
	a := mem.Access{Buffer: size, Range: countRange, Memory: mem.Host}
	at := s.at(mem.Host)
	if at == nil || at.n == 0 {
		all := mem.Range{End: s.content.Size()}
		if w := (Want{Buffer: size, Memory: mem.Host, Range: all, Span: all}); !slices.Contains(dst.Storage, w) {
			dst.Storage = append(dst.Storage, w)
		}
	}
	dst.open(&a)
	for part, v := range s.content.In(countRange) {
		if v.valid.Has(mem.Host) {
			continue
		}
		r := part
		for off := r.Start; off < r.End; off = r.Start {
			r.End = part.End
			brought := false
			for i := range dst.Steps {
				st := &dst.Steps[i]
				if st.Buffer != size || st.To != mem.Host || st.Range.End <= off {
					continue
				}
				if st.Range.Start <= off {
					r.Start, brought = min(st.Range.End, r.End), true
					break
				}
				r.End = min(r.End, st.Range.Start)
			}
			if !brought {
				p.bring(dst, s, at, &a, &run{r, v.valid, v.version, v.version})
				r.Start = r.End
			}
			r.End = part.End
		}
	}
}

// countOf is the place of a size buffer in d.counted, or -1.
func (d *Plan) countOf(size mem.BufferID) int {
	return slices.IndexFunc(d.counted, func(c counted) bool { return c.size == size })
}

// gateLate makes a step's Late where it needs one, appends the waits of its
// count, and ends the range where its destination holds the bytes up to another
// point.
func (p *Planner) gateLate(dst *Plan, st *Step, b *buffer, to *store) {
	late := Late{counted: -1}
	if to != nil && to.held != nil {
		c := to.held.Get(st.Range.Start)
		late.held = c.Value
		st.Range.End = min(st.Range.End, c.Range.End)
	}
	if b.count != 0 {
		if i := dst.countOf(b.count); dst.counted[i].version > 0 {
			late.counted = i
			p.gateCount(dst, st, b.count)
		}
	}
	if late.counted >= 0 || late.held != nil {
		st.Late = &late
	}
}

// gateCount appends the waits for what the host holds of a count.
func (p *Planner) gateCount(dst *Plan, st *Step, size mem.BufferID) {
	s := p.buffers[uint32(size)]
	host := s.at(mem.Host)
	if host == nil {
		return
	}
	for r, v := range s.content.In(countRange) {
		if !v.valid.Has(mem.Host) {
			continue // a step brings it
		}
		for _, h := range host.hazards.In(r) {
			dst.arena = host.data(dst.arena, int(st.from), h, &p.stepWaits)
		}
	}
}

// heldTo is up to where the destination holds a step's bytes, nil where nothing says so: all that
// may differ between steps of one buffer in a plan.
func (l *Late) heldTo() *carriedTo {
	if l == nil {
		return nil
	}
	return l.held
}

// finishLate fills in what is known only with the whole plan.
func (d *Plan) finishLate(st *Step) {
	l := st.Late
	l.full = st.Range
	if l.counted >= 0 {
		c := d.counted[l.counted]
		l.Count, l.Version, l.After = c.size, c.version, d.countSteps[c.from:c.to:c.to]
		l.made = new(carriedTo)
	}
}

// commitLate is the part of CommitStep for buffers that have, or had, a size
// buffer.
func (p *Planner) commitLate(st *Step, b *buffer, to *store, at mem.Point) {
	if st.Late == nil {
		to.hold(st.Range, nil)
		return
	}
	to.hold(st.Range, st.Late.made)
	b.partly = b.partly || st.Late.made != nil
	if st.Late.Count != 0 {
		p.buffers[uint32(st.Late.Count)].at(mem.Host).read(countRange, at)
	}
}
