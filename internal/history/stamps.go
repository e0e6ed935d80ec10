package history

import (
	"fmt"

	"godwit/internal/flat"
	"godwit/mem"
)

// stamped is the roots by stamps, for devices that keep no bytes: who was the last to write
// each byte, if the operations that were accepted take effect in their order. What is
// known at all the flat memory of bytes says.
type stamped struct {
	*model
	roots []flat.Stamps
}

func newStamped(m *model) *stamped {
	s := &stamped{m, make([]flat.Stamps, len(m.h.Roots))}
	for i, r := range m.h.Roots {
		if r.content() {
			s.roots[i].Set(mem.Range{End: uint64(r.Size)}, flat.Stamp{By: uint64(m.ids[i]), Arg: flat.Created})
		}
	}
	return s
}

// compare tests what the command of an operation has found. It returns how many bytes are
// known.
func (s *stamped) compare(x *entry, seen []flat.Seen) (n int, err error) {
	look := func(view, off, size int, arg int32, at int) {
		root, r := s.place(view, off, size)
		for run, known := range s.memory.Known(root, r, s.memory.Limit(root)) {
			if known && err == nil {
				err = s.roots[root].Compare(run, arg, uint64(at)+run.Start-r.Start, seen)
				n += int(run.Size())
			}
		}
	}
	switch op := x.op; op.Kind {
	case opRead, opReadRect:
		for _, w := range s.h.rows(op) {
			look(op.Dst, w.dst, w.size, 0, w.src)
		}
	case opMap:
		if op.old() {
			look(op.Dst, op.DstOff, op.Size, 0, 0)
		}
	case opMix:
		look(op.Dst, op.DstOff, op.Size, 0, op.DstOff)
		look(op.Src, op.SrcOff, op.Size, 2, op.SrcOff)
	case opReverse:
		look(op.Src, op.SrcOff, op.Size, 2, op.SrcOff)
	}
	if err != nil {
		err = fmt.Errorf("what it found: %w", err)
	}
	return n, err
}

// apply does what an accepted operation does.
func (s *stamped) apply(x *entry) {
	op := x.op
	if op.Kind == opRenew { // of a root, not of a view
		if r := s.h.Roots[op.Dst]; r.Kind == lentRoot {
			s.roots[op.Dst].Set(mem.Range{End: uint64(r.Size)}, flat.Stamp{By: uint64(x.id), Arg: flat.Created})
		}
		return
	}
	root, r := s.place(op.Dst, op.DstOff, op.Size)
	switch op.Kind {
	case opWrite, opWriteRect, opCount:
		for w := range s.rows(op) {
			s.roots[root].Set(mem.Range{Start: w.Dst, End: w.Dst + w.Size}, flat.Stamp{By: x.command, Off: w.Src})
		}
	case opCopy, opCopyRect:
		src := &s.roots[s.h.Views[op.Src].Root]
		for w := range s.rows(op) {
			s.roots[root].CopyFrom(src, mem.Range{Start: w.Src, End: w.Src + w.Size}, w.Dst)
		}
	case opFill:
		s.roots[root].Set(r, flat.Stamp{By: x.command})
	case opUnmap:
		if op.mapWrites() {
			s.roots[root].Set(r, flat.Stamp{By: x.command})
		}
	case opProduce, opMix, opReverse:
		s.roots[root].Set(r, flat.Stamp{By: x.command, Off: uint64(op.DstOff)})
	}
}
