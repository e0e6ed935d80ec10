package history

import (
	"fmt"
	"slices"
	"time"

	"godwit/mem"
	"godwit/migration"
	"godwit/runtime"
)

// Content size. Two size buffers that nothing else uses say how many bytes of the
// roots that name them matter.

const sizeBuffers = 2

// counted is how many bytes an opCount says.
func (op *operation) counted() uint64 { return uint64(op.Salt % 4500) }

// countOp draws the rest of such an operation.
func (g *generator) countOp(op *operation) {
	op.Ref = g.IntN(sizeBuffers)
	if op.Kind == opCountBy {
		op.Ref = g.IntN(sizeBuffers + 1)
		op.Dst = g.IntN(len(g.h.Views))
	}
}

// addSizes adds the size buffers where operations use any, of 8 and of 64 bytes. Until then -1-i
// stands for them in operation.More.
func (h *History) addSizes() {
	uses := func(op operation) bool {
		return op.Kind == opCount || op.Kind == opCountBy || slices.ContainsFunc(op.More, func(i int) bool { return i < 0 })
	}
	if !slices.ContainsFunc(h.Ops, uses) || h.Roots[len(h.Roots)-1].Kind == sizeRoot {
		return
	}
	for i := range sizeBuffers {
		h.Views = append(h.Views, viewSpec{Root: len(h.Roots), Size: 8 + 56*i})
		h.Roots = append(h.Roots, rootSpec{Size: 8 + 56*i, Kind: sizeRoot})
	}
	for k := range h.Ops {
		op := &h.Ops[k]
		if op.Kind == opCount {
			op.Dst, op.Size = h.sizeView(op.Ref), 8
		}
		for j, i := range op.More {
			if i < 0 {
				op.More[j] = h.sizeView(-1 - i)
			}
		}
	}
}

// sizeView is the view of all of size buffer i.
func (h *History) sizeView(i int) int { return len(h.Views) - sizeBuffers + i }

// viewOf is the view of all of a root.
func (r *replay) viewOf(root int) int {
	return slices.IndexFunc(r.h.Views, func(v viewSpec) bool { return v.Root == root && !v.Sub })
}

// whole is the buffer of all of a view's root.
func (r *replay) whole(view int) *runtime.Buffer {
	for i, v := range r.h.Views {
		if v.Root == r.h.Views[view].Root && !v.Sub {
			return r.views[i]
		}
	}
	return nil
}

// countBy replays an opCountBy.
func (r *replay) countBy(op *operation) error {
	if len(r.maps) > 0 || r.isSVM(r.h.Views[op.Dst].Root) {
		return nil
	}
	r.faults.enter(quiet)
	b, size, id := r.whole(op.Dst), (*runtime.Buffer)(nil), mem.BufferID(0)
	if op.Ref < sizeBuffers {
		size = r.views[r.h.sizeView(op.Ref)]
		id = size.ID()
	}
	if err := b.SetContentSizeBuffer(size); err != nil {
		return err
	}
	r.result.Ops["set content size buffer"]++
	r.log = append(r.log, entry{op: op})
	return r.account.countBy(b.ID(), id)
}

// countBy makes a size buffer that of a root; a number of none takes it away.
func (m *model) countBy(root, size int) {
	m.by[root] = -1
	if size >= 0 && size < sizeBuffers {
		m.by[root] = m.h.Views[m.h.sizeView(size)].Root
	}
	m.memory.CountBy(root, m.by[root])
}

// countLost reports whether what an operation reads has a count that is lost, or may be.
func (m *model) countLost(op *operation) bool {
	return slices.ContainsFunc(m.h.touches(op), func(t touch) bool {
		by := m.by[m.h.Views[t.view].Root]
		return t.mode.Reads() && by >= 0 && (m.lost[by][0] || m.doubt[by][0])
	})
}

// lateMoved is how many bytes were moved by steps that found out then how many.
// The trace may hear of a step's end a moment after the command that waited for
// it, so it asks until all have ended.
func (r *replay) lateMoved() (n uint64, err error) {
	type step struct {
		command uint64
		index   int
	}
	late := make(map[step]bool)
	for _, c := range r.rec.Commands() {
		for i, s := range c.Steps {
			if s.Late && !s.Point.IsZero() {
				late[step{c.ID, i}] = true
			}
		}
	}
	for r.ctx.Err() == nil {
		ended := 0
		n = 0
		for _, e := range r.rec.Completions() {
			if late[step{e.Command, e.Step}] {
				n += e.Moved.Size()
				ended++
			}
		}
		if ended == len(late) {
			return n, nil
		}
		if err := r.by.Pause(r.ctx, time.Millisecond); err != nil {
			break
		}
	}
	return n, fmt.Errorf("the ends of late copies are not in the trace: %w", r.ctx.Err())
}

// planned are the context's figures but for the bytes moved, which grow as late
// copies end.
func (r *replay) planned() migration.Stats {
	s := r.c.Stats()
	s.BytesMoved = 0
	return s
}
