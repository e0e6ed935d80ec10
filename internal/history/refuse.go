package history

import (
	"errors"
	"fmt"

	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// refusal is a call that must fail in a certain way.
type refusal struct {
	name string
	want error
	call func(q *queue, op *operation, b *runtime.Buffer) error
}

// refusals are the calls that an opRefuse draws from; op has a range of b. The first is for one
// that has a rectangle.
func (r *replay) refusals() []refusal {
	pattern := []byte{1, 2, 3}
	return []refusal{
		{"rectangle onto itself", mem.ErrOverlap, func(q *queue, op *operation, b *runtime.Buffer) error {
			_, err := q.EnqueueCopyRect(r.ctx, r.views[op.Src], b, op.srcBox(), op.dstBox(), op.region())
			return err
		}},
		{"write past the end", mem.ErrInvalidValue, func(q *queue, op *operation, b *runtime.Buffer) error {
			_, err := q.EnqueueWrite(r.ctx, b, uint64(op.DstOff), make([]byte, b.Size()-uint64(op.DstOff)+1))
			return err
		}},
		{"read of nothing", mem.ErrInvalidValue, func(q *queue, op *operation, b *runtime.Buffer) error {
			_, err := q.EnqueueRead(r.ctx, b, uint64(op.DstOff), nil)
			return err
		}},
		{"copy onto itself", mem.ErrOverlap, func(q *queue, op *operation, b *runtime.Buffer) error {
			_, err := q.EnqueueCopy(r.ctx, b, b, uint64(op.DstOff), uint64(op.DstOff), uint64(op.Size))
			return err
		}},
		{"fill with three bytes", mem.ErrInvalidValue, func(q *queue, op *operation, b *runtime.Buffer) error {
			_, err := q.EnqueueFill(r.ctx, b, pattern, uint64(op.DstOff), uint64(op.Size))
			return err
		}},
		{"rows longer than their pitch", mem.ErrInvalidValue, func(q *queue, op *operation, b *runtime.Buffer) error {
			_, err := q.EnqueueWriteRect(r.ctx, b, runtime.Box{Row: uint64(op.Size)}, make([]byte, op.Size+1), runtime.Box{}, [3]uint64{uint64(op.Size) + 1, 1, 1})
			return err
		}},
		{"launch without its arguments", mem.ErrKernelArgs, func(q *queue, _ *operation, b *runtime.Buffer) error {
			if !r.h.launches() {
				return mem.ErrKernelArgs // there are no kernels
			}
			_, err := q.EnqueueLaunch(r.ctx, runtime.Launch{Kernel: r.kernel[opMix], Global: []uint64{1}, Args: []runtime.Arg{runtime.Buf(b)}})
			return err
		}},
		{"map with no flags", mem.ErrInvalidValue, func(q *queue, op *operation, b *runtime.Buffer) error {
			_, _, err := q.EnqueueMap(r.ctx, b, uint64(op.DstOff), uint64(op.Size), 0)
			return err
		}},
		{"unmap of nothing", mem.ErrInvalidValue, func(q *queue, _ *operation, _ *runtime.Buffer) error {
			_, err := q.EnqueueUnmap(r.ctx, runtime.Mapping{})
			return err
		}},
		{"migrate of nothing", mem.ErrInvalidValue, func(q *queue, _ *operation, _ *runtime.Buffer) error {
			_, err := q.EnqueueMigrate(r.ctx, nil, 0)
			return err
		}},
		{"zero event in a wait list", mem.ErrInvalidWaitList, func(q *queue, _ *operation, _ *runtime.Buffer) error {
			_, err := q.EnqueueMarker(r.ctx, runtime.Event{})
			return err
		}},
		{"pointer to nothing", svm.ErrNotSVM, func(q *queue, op *operation, _ *runtime.Buffer) error {
			_, err := q.EnqueueSVMFill(r.ctx, runtime.Pointer(op.Salt)&^0xff+8, pattern[:1], 8)
			return err
		}},
	}
}

// refuse has one of them refused: it must change nothing.
func (r *replay) refuse(q *queue, op *operation) error {
	all := r.refusals()
	x := all[1+int(op.Salt)%(len(all)-1)]
	if op.Rows > 0 {
		x = all[0]
	}
	before, commands := r.planned(), len(r.rec.CommandsFrom(r.seen))
	err := x.call(q, op, r.views[op.Dst])
	switch {
	case !errors.Is(err, x.want):
		return fmt.Errorf("%s: got %w, want %w", x.name, err, x.want)
	case r.planned() != before:
		return fmt.Errorf("%s, refused, changed %+v to %+v", x.name, before, r.planned())
	case len(r.rec.CommandsFrom(r.seen)) != commands:
		return fmt.Errorf("%s, refused, is in the trace", x.name)
	}
	r.result.Ops["refused: "+x.name]++
	return nil
}
