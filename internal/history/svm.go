package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// Roots over shared virtual memory, and commands by pointers. A command goes by
// pointers where its queue's device can, its roots have them and its ID is odd.

// opChase is opMix with pointers that the kernel finds in memory.
const opChase kind = "chase"

// slots is how many pairs of pointers a replay has in the table; a pair has
// slotSize bytes.
const (
	slots    = 8
	slotSize = 16
)

// svmState is what a replay has of shared virtual memory.
type svmState struct {
	anySVM, anyFine bool              // some device has it
	pointers        []runtime.Pointer // by root: 0 where it lies over none
	stale           []bool            // by root: its pointer is freed
	unmaps          [][]runtime.Event // by root: of its maps: the host touches the bytes until then
	freed           []runtime.Pointer // to be freed at the end: maps are left
	table           runtime.Pointer   // pairs of pointers for chase
	tableBuf        *runtime.Buffer   // over the table
	firstSlot       int               // this replay's own
}

// furnishSVM asks each device what it can by having it do it, and makes the
// table.
func (r *replay) furnishSVM() (err error) {
	n := len(r.queues) / 2 // two queues for each device
	for i, q := range r.queues[:n] {
		if q.svm, err = r.can(q, 0); err != nil {
			return err
		}
		if q.fine, err = r.can(q, runtime.SVMFineGrain); err != nil {
			return err
		}
		r.queues[n+i].svm, r.queues[n+i].fine = q.svm, q.fine
		r.anySVM, r.anyFine = r.anySVM || q.svm, r.anyFine || q.fine
	}
	if !r.anySVM {
		return nil
	}
	const size = 4 * slots * slotSize
	if r.table, err = r.c.SVMAlloc(size, 0, 0); err != nil {
		return err
	}
	bytes, err := r.c.SVMBytes(r.table, size)
	if err != nil {
		return err
	}
	if r.tableBuf, err = r.c.CreateBuffer(size, runtime.UseHostPtr, bytes); err != nil {
		return err
	}
	return r.account.create(r.tableBuf.ID(), size, false)
}

// can tries a command on shared virtual memory with such flags.
func (r *replay) can(q *queue, flags runtime.SVMFlags) (bool, error) {
	p, err := r.c.SVMAlloc(64, 0, flags)
	if errors.Is(err, mem.ErrInvalidOperation) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e, err := r.persist(func() (runtime.Event, error) { return q.EnqueueSVMFill(r.call, p, []byte{1}, 64) })
	if err == nil {
		_ = e.Wait(r.ctx) // flaky devices: that it was accepted is enough
		err = e.Release()
	} else if errors.Is(err, mem.ErrInvalidOperation) {
		return false, r.c.SVMFree(p)
	}
	return true, errors.Join(err, r.c.SVMFree(p))
}

// createSVM makes a buffer over shared virtual memory of its own.
func (r *replay) createSVM(root int, size uint64, flags runtime.SVMFlags) (*runtime.Buffer, error) {
	p, err := r.c.SVMAlloc(size, 0, flags)
	if err != nil {
		return nil, err
	}
	bytes, err := r.c.SVMBytes(p, size)
	if err != nil {
		return nil, err
	}
	b, err := r.c.CreateBuffer(size, runtime.UseHostPtr, bytes)
	if err != nil {
		return nil, errors.Join(err, r.c.SVMFree(p))
	}
	r.pointers[root] = p
	return b, nil
}

// alias makes a buffer over a part of a root's shared virtual memory.
func (r *replay) alias(v viewSpec) (*runtime.Buffer, error) {
	bytes, err := r.c.SVMBytes(r.pointers[v.Root]+runtime.Pointer(v.Origin), uint64(v.Size))
	if err != nil {
		return nil, err
	}
	return r.c.CreateBuffer(uint64(v.Size), runtime.UseHostPtr, bytes)
}

// freeSVM frees a root's shared virtual memory: by a command, at once where no
// unmap was ever enqueued, or at the end where maps are left, since a free would
// end them.
func (r *replay) freeSVM(q *queue, root int, used bool) error {
	p, wait, stale := r.pointers[root], r.unmaps[root], r.stale[root]
	r.pointers[root], r.unmaps[root], r.stale[root] = 0, nil, false
	if p == 0 {
		return nil
	}
	if stale {
		return nil
	}
	switch {
	case used || q == nil && len(wait) > 0:
		r.freed = append(r.freed, p)
		return nil
	case len(wait) > 0 || q != nil && uint64(p)>>8%2 == 0:
		e, err := r.persist(func() (runtime.Event, error) { return q.EnqueueSVMFree(r.call, []runtime.Pointer{p}, wait...) })
		_, err = r.took("svm-free", e, err)
		return err
	}
	return r.c.SVMFree(p)
}

// freePointer frees a root's pointer when nothing is held back any more, and with it
// ends the maps of the root, as unmaps would before which the host writes nothing.
func (r *replay) freePointer(q *queue, op *operation) error {
	root := op.Dst
	p := r.pointers[root]
	if p == 0 || r.stale[root] || !q.svm {
		return nil
	}
	if err := errors.Join(r.setAll(), r.becalm()); err != nil {
		return err
	}
	var ended, left []*openMap
	for _, m := range r.maps {
		if r.h.Views[m.op.Dst].Root == root && !m.gone {
			ended = append(ended, m)
		} else {
			left = append(left, m)
		}
	}
	var accs []mem.Access
	for _, m := range ended {
		if m.op.mapWrites() && m.event.Err() == nil {
			accs = append(accs, m.use)
		}
	}
	x := entry{freed: true}
	if r.faults == nil || op.Salt%2 == 0 {
		e, err := r.persist(func() (runtime.Event, error) { return q.EnqueueSVMFree(r.call, []runtime.Pointer{p}) })
		if x.event, err = r.took("svm-free under a buffer", e, err, accs...); err != nil {
			return err
		}
		if x.command, err = e.Command(); err != nil {
			return err
		}
		if _ = e.Wait(r.ctx); r.ctx.Err() != nil { // how it ended, the verdict asks
			return r.ctx.Err()
		}
		r.thens[x.command] = func() {
			for _, m := range ended {
				if m.op.mapWrites() {
					r.account.unmapped(m.use)
				}
			}
		}
	} else if err := r.c.SVMFree(p); err != nil {
		return err
	}
	r.maps, r.stale[root] = left, true
	for _, m := range ended {
		free := *m.op
		free.ID, free.Kind = op.ID, opUnmap
		x := x
		x.op, x.mapped, x.epoch = &free, m.event, r.epoch
		r.log = append(r.log, x)
	}
	return nil
}

// guarded tests that the host has no rights to coarse-grained memory of which nothing is mapped.
func (r *replay) guarded() error {
	for root, p := range r.pointers {
		mapped := slices.ContainsFunc(r.maps, func(m *openMap) bool { return r.h.Views[m.op.Dst].Root == root })
		if p == 0 || mapped || r.stale[root] || r.isFine(root) {
			continue
		}
		bytes, err := r.c.SVMBytes(p, 1)
		if err != nil {
			return err
		}
		var got byte
		if err = r.c.SVMGuard(func() { got = bytes[0] }); !errors.Is(err, svm.ErrFault) {
			return fmt.Errorf("buffer %d: the host has read %d where nothing is mapped: %w", root, got, err)
		}
	}
	return nil
}

// isSVM and isFine report what a root really lies over here.
func (r *replay) isSVM(root int) bool { return r.pointers[root] != 0 }
func (r *replay) isFine(root int) bool {
	return r.isSVM(root) && r.h.Roots[root].Kind == fineRoot
}

func (r *replay) inPlace(m mem.MemoryID) bool {
	d, err := r.c.Device(m)
	return err == nil && d.Info().SVM.InPlace
}

// queueFor is the queue of an operation: the next whose device has fine-grained
// memory where it needs that.
func (r *replay) queueFor(op *operation) *queue {
	for i := range r.queues {
		q := r.queues[(op.Queue+i)%len(r.queues)]
		fine := r.isFine(r.h.Views[op.Dst].Root) || op.paired() && r.isFine(r.h.Views[op.Src].Root)
		if !fine || q.fine {
			return q
		}
	}
	return r.queues[op.Queue%len(r.queues)]
}

// pointer is off of a view as an address, where this command on q is to go by
// addresses.
func (r *replay) pointer(q *queue, op *operation, view, off int) (runtime.Pointer, bool) {
	v := r.h.Views[view]
	p := r.pointers[v.Root]
	return p + runtime.Pointer(v.Origin+off), p != 0 && !r.stale[v.Root] && q.svm && op.ID%2 != 0
}

// bySVM gives an operation that goes by pointers to the context as such; ok is
// false for all others, launches with pointers as arguments among them.
func (r *replay) bySVM(q *queue, op *operation, got []byte, wait []runtime.Event) (e runtime.Event, ok bool, err error) {
	dst, ok := r.pointer(q, op, op.Dst, op.DstOff)
	if !ok {
		return e, false, nil
	}
	name := "svm-" + string(op.Kind)
	switch op.Kind {
	case opWrite:
		e, err = q.EnqueueSVMWrite(r.call, dst, op.content(), wait...)
	case opRead:
		e, err = q.EnqueueSVMRead(r.call, dst, got, wait...)
	case opFill:
		e, err = q.EnqueueSVMFill(r.call, dst, op.fill(), uint64(op.Size), wait...)
	case opMigrate:
		if len(op.More) > 0 {
			return e, false, nil
		}
		dst, _ = r.pointer(q, op, op.Dst, 0)
		ranges := []runtime.SVMRange{{Pointer: dst, Size: uint64(r.h.Views[op.Dst].Size)}}
		e, err = q.EnqueueSVMMigrate(r.call, ranges, op.migrateFlags(), wait...)
		name = "svm-" + op.migrateName()
	case opMap:
		e, err = r.mapOpen(q, op, true, wait)
		return e, true, err
	case opCopy, opMix:
		src, has := r.pointer(q, op, op.Src, op.SrcOff)
		switch {
		case !has:
			return e, false, nil
		case op.Kind == opCopy:
			e, err = q.EnqueueSVMMemcpy(r.call, dst, src, uint64(op.Size), wait...)
		case op.ID%4 == 1 || r.faults != nil: // the table must hold what was written
			return e, false, nil
		default:
			e, err = r.chase(q, op, dst, src, wait)
			return e, true, err
		}
	default:
		return e, false, nil
	}
	e, err = r.took(name, e, err, r.uses(q, op)...)
	return e, true, err
}

// chase is opMix by a kernel that finds its pointers in the table.
func (r *replay) chase(q *queue, op *operation, dst, src runtime.Pointer, wait []runtime.Event) (runtime.Event, error) {
	slot := r.firstSlot + op.ID%slots
	at := mem.Range{Start: uint64(slot * slotSize), End: uint64(slot*slotSize + slotSize)}
	pair := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(dst)), uint64(src))
	m := q.Memory()
	if r.inPlace(m) {
		m = mem.Host
	}
	e, err := q.EnqueueSVMWrite(r.call, r.table+runtime.Pointer(at.Start), pair)
	_, err = r.took("svm-write", e, err, mem.Access{Buffer: r.tableBuf.ID(), Range: at, Mode: mem.Write, Memory: m})
	if err != nil {
		return e, err
	}
	size := uint64(op.Size)
	e, err = q.EnqueueLaunch(r.call, runtime.Launch{
		Kernel: r.kernel[opChase], Global: []uint64{size}, Local: localSize(size),
		Args: []runtime.Arg{runtime.SVMIn(r.table).Range(at.Start, slotSize), runtime.Uint32(uint32(2 * slot)), runtime.Uint32(op.Salt)},
		SVM:  []runtime.Arg{runtime.SVMInOut(dst).Range(0, size), runtime.SVMIn(src).Range(0, size)},
	}, wait...)
	accs := append(r.uses(q, op), mem.Access{Buffer: r.tableBuf.ID(), Range: at, Mode: mem.Read, Memory: m})
	return r.took("launch with exec info", e, err, accs...)
}
