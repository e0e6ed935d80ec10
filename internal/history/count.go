package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit/mem"
	"godwit/migration"
	"godwit/runtime"
)

// Content size. Two size buffers that nothing else uses say how many bytes of the
// roots that name them matter.

// opCount writes size buffer Ref; opCountBy makes it the one of Dst's root, or takes
// that away where Ref is none of them. Neither happens while anything is mapped:
// a copy to the host that a larger count asks for would wait for the unmap.
const (
	opCount   kind = "count"
	opCountBy kind = "count-by"
)

const sizeBuffers = 2

// sizeOf is the size of size buffer i: the count is its first 8 bytes.
func sizeOf(i int) uint64 { return uint64(8 + 56*i) }

// counted is how many bytes a Count says.
func (op *operation) counted() uint64 { return uint64(op.Salt % 4500) }

// countOp draws the rest of such an operation.
func (g *generator) countOp(op *operation) {
	op.Ref = g.IntN(sizeBuffers)
	if op.Kind == opCountBy {
		op.Ref = g.IntN(sizeBuffers + 1)
		op.Dst = g.IntN(len(g.h.Views))
	}
}

// countState is a run's size buffers, made when they are first needed.
type countState struct {
	sizes [sizeBuffers]*runtime.Buffer
}

func (r *replay) sizeBuffer(i int) (*runtime.Buffer, error) {
	if r.sizes[i] == nil {
		b, err := r.c.CreateBuffer(sizeOf(i), 0, nil)
		if err != nil {
			return nil, err
		}
		r.sizes[i] = b
		if err := r.account.create(b.ID(), sizeOf(i), false); err != nil {
			return nil, err
		}
	}
	return r.sizes[i], nil
}

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

// counting replays an opCount or an opCountBy.
func (r *replay) counting(q *queue, op *operation) error {
	if len(r.maps) > 0 {
		return nil
	}
	var size *runtime.Buffer
	var err error
	r.faults.enter(quiet)
	if op.Ref < sizeBuffers {
		if size, err = r.sizeBuffer(op.Ref); err != nil {
			return err
		}
	}
	if op.Kind == opCount {
		return r.writeCount(q, op, size)
	}
	if r.isSVM(r.h.Views[op.Dst].Root) {
		return nil
	}
	b, id := r.whole(op.Dst), mem.BufferID(0)
	if size != nil {
		id = size.ID()
	}
	if err := b.SetContentSizeBuffer(size); err != nil {
		return err
	}
	r.result.Ops["set content size buffer"]++
	r.log = append(r.log, entry{op: op})
	return r.account.countBy(b.ID(), id)
}

func (r *replay) writeCount(q *queue, op *operation, size *runtime.Buffer) error {
	wait := r.waits(op)
	r.faults.enter(running)
	e, err := q.EnqueueWrite(r.call, size, 0, binary.NativeEndian.AppendUint64(nil, op.counted()), wait...)
	accs := mem.Access{Buffer: size.ID(), Range: mem.Range{End: 8}, Mode: mem.Write, Memory: q.Memory()}
	e, err = r.took("write of a count", e, err, accs)
	if done, err := r.turnedDown(op, err); done || err != nil {
		return err
	}
	r.account.setCount(size.ID(), op.counted())
	return r.accepted(entry{op: op, event: e, waits: wait})
}

func (r *replay) releaseSizes() error {
	var errs []error
	for _, b := range r.sizes {
		if b != nil {
			errs = append(errs, b.Release())
		}
	}
	return errors.Join(errs...)
}

// counts is what the model knows of counts that the flat memory does not.
type counts struct {
	by         []int // by root: its size buffer; -1 is none
	lostCounts [sizeBuffers]bool
}

func newCounts(h *History) counts { return counts{by: slices.Repeat([]int{-1}, len(h.Roots))} }

// applyCount does what an opCount or an opCountBy does, or one that failed. Who succeeds
// though the count is lost needed no copy: to them all bytes count.
func (m *model) applyCount(op *operation, failed bool) {
	switch op.Kind {
	case opCount:
		size := len(m.h.Roots) + op.Ref
		binary.NativeEndian.PutUint64(m.memory.Set(size, mem.Range{End: 8}), op.counted())
		if m.lostCounts[op.Ref] = failed; failed {
			m.memory.Uncount(size)
		}
	case opCountBy:
		m.countBy(m.h.Views[op.Dst].Root, op.Ref)
	}
}

// countBy makes a size buffer that of a root; a number of none takes it away.
func (m *model) countBy(root, size int) {
	if size < 0 || size >= sizeBuffers {
		m.by[root] = -1
		m.memory.CountBy(root, -1)
		return
	}
	m.by[root] = size
	m.memory.CountBy(root, len(m.h.Roots)+size)
}

// countLost reports whether what an operation reads has a lost count.
func (m *model) countLost(op *operation) bool {
	lost := func(view int) bool {
		if view < 0 {
			return false
		}
		by := m.by[m.h.Views[view].Root]
		return by >= 0 && m.lostCounts[by]
	}
	return op.old() && lost(op.Dst) || op.paired() && lost(op.Src) || slices.ContainsFunc(op.More, lost)
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

// sizeIDs are the size buffers that there are; 0 where one was never made.
func (r *replay) sizeIDs() []mem.BufferID {
	out := make([]mem.BufferID, sizeBuffers)
	for i, b := range r.sizes {
		if b != nil {
			out[i] = b.ID()
		}
	}
	return out
}
