package metamorphic

import "godwit/runtime"

// createSVM makes a buffer over shared virtual memory of its own.
func (r *replay) createSVM(root int, size uint64) (*runtime.Buffer, error) {
	p, err := r.c.SVMAlloc(size, 0, 0)
	if err != nil {
		return nil, err
	}
	bytes, err := r.c.SVMBytes(p, size)
	if err != nil {
		return nil, err
	}
	if r.svm == nil {
		r.svm = make(map[int]runtime.Pointer)
	}
	r.svm[root] = p
	return r.c.CreateBuffer(size, runtime.UseHostPtr, bytes)
}

// pointer is off of a view as an address, where it has one.
func (r *replay) pointer(view, off int) (runtime.Pointer, bool) {
	v := r.h.Views[view%len(r.h.Views)]
	p, ok := r.svm[v.Root]
	return p + runtime.Pointer(v.Origin+off), ok
}

// bySVM gives every other operation that can be one on pointers to the context
// as such; ok is false for all others.
func (r *replay) bySVM(q *runtime.Queue, op *Op, got []byte, wait []runtime.Event) (e runtime.Event, ok bool, err error) {
	dst, ok := r.pointer(op.Dst, op.DstOff)
	if !ok || op.ID%2 == 0 {
		return e, false, nil
	}
	switch op.Kind {
	case Write:
		e, err = q.EnqueueSVMWrite(r.ctx, dst, pattern(op.Size, op.Salt), wait...)
	case Read:
		e, err = q.EnqueueSVMRead(r.ctx, dst, got, wait...)
	case Fill:
		e, err = q.EnqueueSVMFill(r.ctx, dst, []byte{byte(op.Salt)}, uint64(op.Size), wait...)
	case Copy:
		src, has := r.pointer(op.Src, op.SrcOff)
		if !has {
			return e, false, nil
		}
		e, err = q.EnqueueSVMMemcpy(r.ctx, dst, src, uint64(op.Size), wait...)
	default:
		return e, false, nil
	}
	return e, true, err
}
