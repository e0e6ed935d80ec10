package history

import (
	"context"
	"errors"
	"fmt"

	"godwit/mem"
	"godwit/runtime"
)

// From operations to calls.

var errCall = errors.New("a host call that fails")

// enqueue gives an operation to the context, a read with the memory it is to
// fill: by pointers where that can be, every other time.
func (r *replay) enqueue(q *queue, op *operation, got []byte, wait []runtime.Event) (runtime.Event, error) {
	if e, ok, err := r.bySVM(q, op, got, wait); ok {
		return e, err
	}
	name, accs := string(op.Kind), r.uses(q, op)
	dst := r.views[op.Dst]
	dstOff, srcOff, size := uint64(op.DstOff), uint64(op.SrcOff), uint64(op.Size)
	var e runtime.Event
	var err error
	switch op.Kind {
	case opWrite, opCount:
		e, err = q.EnqueueWrite(r.call, dst, dstOff, op.content(), wait...)
	case opRead:
		e, err = q.EnqueueRead(r.call, dst, dstOff, got, wait...)
	case opWriteRect:
		e, err = q.EnqueueWriteRect(r.call, dst, op.dstBox(), op.content(), op.srcBox(), op.region(), wait...)
	case opReadRect:
		e, err = q.EnqueueReadRect(r.call, dst, op.dstBox(), got, op.srcBox(), op.region(), wait...)
	case opCopyRect:
		e, err = q.EnqueueCopyRect(r.call, r.views[op.Src], dst, op.srcBox(), op.dstBox(), op.region(), wait...)
	case opCopy:
		e, err = q.EnqueueCopy(r.call, r.views[op.Src], dst, srcOff, dstOff, size, wait...)
	case opFill:
		e, err = q.EnqueueFill(r.call, dst, op.fill(), dstOff, size, wait...)
	case opMix, opProduce, opReverse:
		e, err = q.EnqueueLaunch(r.call, r.launch(q, op), wait...)
	case opMigrate:
		e, err = q.EnqueueMigrate(r.call, append(r.more(op), dst), op.migrateFlags(), wait...)
		name = op.migrateName()
		if r.around(op) {
			name += ", some of it mapped"
		}
	case opMap:
		return r.mapOpen(q, op, false, wait)
	case opMarker:
		e, err = q.EnqueueMarker(r.call, wait...)
	case opBarrier:
		e, err = q.EnqueueBarrier(r.call, wait...)
	case opFail:
		e, err = q.EnqueueHostCall(r.call, func(context.Context) error { return errCall }, wait...)
	default:
		return e, fmt.Errorf("unknown kind %q", op.Kind)
	}
	return r.took(name, e, err, accs...)
}

func (op *operation) region() [3]uint64 {
	return [3]uint64{uint64(op.Size), uint64(op.Rows), uint64(op.Slices)}
}

// box is where a rectangle lies: its first byte as an offset, or as bytes, rows
// and slices.
func (op *operation) box(off, row, slice int) runtime.Box {
	b := runtime.Box{Origin: [3]uint64{uint64(off)}, Row: uint64(row), Slice: uint64(slice)}
	if op.Salt%2 == 1 {
		b.Origin = [3]uint64{uint64(off % slice % row), uint64(off % slice / row), uint64(off / slice)}
	}
	return b
}

func (op *operation) dstBox() runtime.Box { return op.box(op.DstOff, op.DstRow, op.DstSlice) }
func (op *operation) srcBox() runtime.Box { return op.box(op.SrcOff, op.SrcRow, op.SrcSlice) }

func (op *operation) migrateFlags() (flags runtime.MigrateFlags) {
	if op.Host {
		flags |= runtime.MigrateToHost
	}
	if op.Undefined {
		flags |= runtime.ContentUndefined
	}
	return flags
}

func (op *operation) migrateName() string {
	name := "migrate"
	if op.Host {
		name += " to host"
	}
	if op.Undefined {
		name += " undefined"
	}
	return name
}

// localSize is one of two sizes: PoCL compiles a kernel anew for each.
func localSize(global uint64) []uint64 {
	if global%32 == 0 {
		return []uint64{32}
	}
	return []uint64{1}
}

// launch has the arguments of a launch: those that are written in full promise
// so.
func (r *replay) launch(q *queue, op *operation) runtime.Launch {
	size := uint64(op.Size)
	arg := func(buf func(*runtime.Buffer) runtime.Arg, pointer func(runtime.Pointer) runtime.Arg, view, off int) runtime.Arg {
		if p, ok := r.pointer(q, op, view, 0); ok {
			return pointer(p).Range(uint64(off), size)
		}
		return buf(r.views[view]).Range(uint64(off), size)
	}
	l := runtime.Launch{Kernel: r.kernel[op.Kind], Global: []uint64{size}, Local: localSize(size)}
	if op.Kind == opMix {
		l.Args = append(l.Args, arg(runtime.InOut, runtime.SVMInOut, op.Dst, op.DstOff))
	} else {
		l.Args = append(l.Args, arg(runtime.Out, runtime.SVMOut, op.Dst, op.DstOff))
	}
	l.Args = append(l.Args, runtime.Uint32(uint32(op.DstOff)))
	if op.paired() { // const in the kernel
		l.Args = append(l.Args, arg(runtime.Buf, runtime.SVM, op.Src, op.SrcOff), runtime.Uint32(uint32(op.SrcOff)))
	}
	if op.Kind != opReverse {
		l.Args = append(l.Args, runtime.Uint32(op.Salt))
	}
	return l
}

// uses is what a command on q accesses, by OpenCL's rules: nothing of the
// runtime's own.
func (r *replay) uses(q *queue, op *operation) (accs []mem.Access) {
	m := q.Memory()
	if op.Kind == opMap || op.Kind == opMapBriefly || op.Kind == opUnmap || op.Kind == opMigrate && op.Host {
		m = mem.Host
	}
	for _, t := range r.h.touches(op) {
		accs = append(accs, r.access(t.view, t.off, t.size, t.mode, m))
	}
	return accs
}

// more are the other buffers of an opMigrate.
func (r *replay) more(op *operation) (out []*runtime.Buffer) {
	for _, i := range op.More {
		out = append(out, r.views[i])
	}
	return out
}

// access is one use of a view's bytes. Fine-grained memory is the host's, and so
// is shared virtual memory that the device uses in place.
func (r *replay) access(view, off, size int, mode mem.Mode, m mem.MemoryID) mem.Access {
	v := r.h.Views[view]
	if r.isFine(v.Root) || r.isSVM(v.Root) && r.inPlace(m) {
		m = mem.Host
	}
	start := uint64(v.Origin + off)
	return mem.Access{Buffer: r.views[view].ID(), Range: mem.Range{Start: start, End: start + uint64(size)}, Mode: mode, Memory: m}
}
