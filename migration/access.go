package migration

import (
	"cmp"
	"fmt"
	"slices"

	"godwit/mem"
)

// few accesses are compared each with each; more are sorted.
const few = 8

// accept checks the command's accesses, names memories by their stores, and
// leaves in dst.Accesses the same bytes with no overlap within one buffer and
// memory. Where there are more than few, or bytes may ride along, those of one
// buffer and memory are in ascending order.
func (p *Planner) accept(dst *Plan, accs []mem.Access) error {
	writers, memories, counts := 0, false, false
	for i, a := range accs {
		b, err := p.buffer(a.Buffer)
		if err != nil {
			return fmt.Errorf("access %d: %w", i, err)
		}
		if a.Memory, err = p.store(a.Memory); err != nil {
			return fmt.Errorf("access %d of %s: %w", i, bufferName(a.Buffer), err)
		}
		switch size := b.content.Size(); {
		case a.Range.Empty():
			return fmt.Errorf("access %d of %s: range %v holds no byte: %w", i, bufferName(a.Buffer), a.Range, mem.ErrInvalidValue)
		case a.Range.End > size:
			return fmt.Errorf("access %d of %s: range %v reaches past the end of its %d bytes: %w", i, bufferName(a.Buffer), a.Range, size, mem.ErrInvalidValue)
		case a.Mode > mem.Write:
			return fmt.Errorf("access %d of %s: %v is not a mode: %w", i, bufferName(a.Buffer), a.Mode, mem.ErrInvalidValue)
		}
		if a.Mode.Writes() {
			writers++
		}
		counts = counts || b.count != 0
		memories = memories || i > 0 && a.Memory != dst.Accesses[0].Memory
		dst.Accesses = append(dst.Accesses, a)
	}
	if overlapping(dst.Accesses) || p.aligned && len(accs) > 1 {
		for i := range dst.Accesses { // each as it was given
			a := &dst.Accesses[i]
			dst.lacks = dst.lacks || !p.buffers[uint32(a.Buffer)].at(a.Memory).covers(a.Range)
		}
		dst.combine()
	}
	if memories || counts {
		slices.SortStableFunc(dst.Accesses, func(x, y mem.Access) int { return p.turn(x) - p.turn(y) })
	}
	if memories && writers > 1 {
		return dst.oneWriter()
	}
	return nil
}

// turn is when an access is planned: what the host reads first, so that it can go on from there
// to the other memories, and of that first the size buffers, so that what they bring need not
// come again for the counts' sake.
func (p *Planner) turn(a mem.Access) int {
	switch {
	case a.Memory != mem.Host:
		return 2
	case len(p.buffers[uint32(a.Buffer)].serves) == 0:
		return 1
	}
	return 0
}

// overlapping reports whether two accesses of one buffer and memory may share a
// byte: exactly where there are few, else also where they are not in order.
func overlapping(accs []mem.Access) bool {
	if len(accs) > few {
		for i := 1; i < len(accs); i++ {
			if a, b := &accs[i-1], &accs[i]; place(*a, *b) > 0 || place(*a, *b) == 0 && a.Range.End > b.Range.Start {
				return true
			}
		}
		return false
	}
	for i := range accs {
		for j := range i {
			if a, b := &accs[i], &accs[j]; a.Buffer == b.Buffer && a.Memory == b.Memory && a.Range.Overlaps(b.Range) {
				return true
			}
		}
	}
	return false
}

// place orders accesses by buffer and memory.
func place(a, b mem.Access) int {
	return cmp.Or(cmp.Compare(a.Buffer, b.Buffer), cmp.Compare(a.Memory, b.Memory))
}

// bound is an end of an access: how many readers and writers begin (or, below
// zero, end) at an offset.
type bound struct {
	at               mem.Access // Buffer and Memory count
	off              uint64
	readers, writers int8
}

// combine makes the accesses of one buffer and memory disjoint and ascending:
// each byte is used in the one way that covers all the ways in which it was.
func (d *Plan) combine() {
	d.bounds = d.bounds[:0]
	for _, a := range d.Accesses {
		var r, w int8
		if a.Mode.Reads() {
			r = 1
		}
		if a.Mode.Writes() {
			w = 1
		}
		d.bounds = append(d.bounds, bound{a, a.Range.Start, r, w}, bound{a, a.Range.End, -r, -w})
	}
	slices.SortFunc(d.bounds, func(a, b bound) int {
		return cmp.Or(place(a.at, b.at), cmp.Compare(a.off, b.off))
	})
	d.Accesses = d.Accesses[:0]
	readers, writers := 0, 0
	for i := range d.bounds {
		b := &d.bounds[i]
		if i > 0 && readers+writers > 0 && d.bounds[i-1].off < b.off {
			d.span(b.at, mem.Range{Start: d.bounds[i-1].off, End: b.off}, readers > 0, writers > 0)
		}
		readers, writers = readers+int(b.readers), writers+int(b.writers)
	}
}

// span appends one disjoint access, or lengthens the last.
func (d *Plan) span(at mem.Access, r mem.Range, reads, writes bool) {
	mode := mem.Read
	switch {
	case reads && writes:
		mode = mem.ReadWrite
	case writes:
		mode = mem.Write
	}
	if n := len(d.Accesses); n > 0 {
		last := &d.Accesses[n-1]
		if place(*last, at) == 0 && last.Range.End == r.Start && last.Mode == mode {
			last.Range.End = r.End
			return
		}
	}
	d.Accesses = append(d.Accesses, mem.Access{Buffer: at.Buffer, Memory: at.Memory, Range: r, Mode: mode})
}

// oneWriter refuses a command that writes the same bytes on two memories: there
// would be no telling which of them is the content.
func (d *Plan) oneWriter() error {
	d.bounds = d.bounds[:0]
	for _, a := range d.Accesses {
		if a.Mode.Writes() {
			d.bounds = append(d.bounds, bound{at: a, off: a.Range.Start})
		}
	}
	slices.SortFunc(d.bounds, func(a, b bound) int {
		return cmp.Or(cmp.Compare(a.at.Buffer, b.at.Buffer), cmp.Compare(a.off, b.off), cmp.Compare(a.at.Memory, b.at.Memory))
	})
	var top mem.Access // reaches furthest of those before
	for i, b := range d.bounds {
		if i > 0 && top.Buffer == b.at.Buffer && top.Range.Overlaps(b.at.Range) {
			return fmt.Errorf("%s: bytes %v are written on memories %d and %d by one command: %w", bufferName(top.Buffer),
				top.Range.Intersect(b.at.Range), top.Memory, b.at.Memory, mem.ErrInvalidOperation)
		}
		if i == 0 || top.Buffer != b.at.Buffer || b.at.Range.End > top.Range.End {
			top = b.at
		}
	}
	return nil
}
