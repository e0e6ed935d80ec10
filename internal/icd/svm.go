//go:build cgo

package icd

// #include "object.h"
// #include "callback.h"
import "C"

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"godwit/runtime"
	"godwit/svm"
)

// Shared virtual memory, coarse-grained. Its addresses are the runtime's to give;
// what the host may touch when is package svm's to say.

//export gwSVMAlloc
func gwSVMAlloc(ch uintptr, flags, size uint64, align uint32) unsafe.Pointer {
	c := contexts.get(ch)
	const fine = C.CL_MEM_SVM_FINE_GRAIN_BUFFER | C.CL_MEM_SVM_ATOMICS
	if c == nil || align&(align-1) != 0 || align > 128 || flags&fine != 0 {
		return nil // no device says that it has fine-grained memory
	}
	p, err := c.run.SVMAlloc(size, uint64(align), runtime.SVMFlags(flags))
	if err != nil {
		complain(err)
		return nil
	}
	b, err := c.run.SVMBytes(p, size)
	if err != nil {
		complain(err)
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(b))
}

//export gwSVMFree
func gwSVMFree(ch, p uintptr) {
	if c := contexts.get(ch); c != nil {
		complain(c.run.SVMFree(runtime.Pointer(p)))
	}
}

//export gwEnqueueSVMFree
func gwEnqueueSVMFree(qh uintptr, count uint32, pointers, f, user unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	q, wait, st := queueAndWaits(qh, n, list)
	switch {
	case st != clSuccess:
		return st
	case (count == 0) != (pointers == nil):
		return clInvalidValue
	}
	given := slices.Clone(unsafe.Slice((*runtime.Pointer)(pointers), count))
	var run runtime.Event
	var err error
	switch {
	case f != nil: // it frees them itself
		run, err = q.run.EnqueueHostCall(context.Background(), func(context.Context) error {
			C.gw_call_svm_free(f, C.uintptr_t(qh), C.uint32_t(count), unsafe.Pointer(unsafe.SliceData(given)), user)
			return nil
		}, wait...)
		if err == nil { // the function is given the queue
			retain(qh)
			err = run.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) { release(qh) })
		}
	case count == 0:
		run, err = q.run.EnqueueMarker(context.Background(), wait...)
	default:
		run, err = q.run.EnqueueSVMFree(context.Background(), given, wait...)
	}
	return q.accepted(run, err, C.CL_COMMAND_SVM_FREE, false, out)
}

// queueAndWaits resolves the queue and wait list of a command for shared virtual memory.
func queueAndWaits(qh uintptr, n uint32, list unsafe.Pointer) (*queue, []runtime.Event, int32) {
	q := queues.get(qh)
	switch {
	case q == nil:
		return nil, nil, clInvalidCommandQueue
	case q.d.svm() == 0:
		return nil, nil, clInvalidOperation
	}
	wait, st := q.c.waitList(nil, n, list)
	return q, wait, st
}

// isSVM reports whether an address is in shared virtual memory of the context.
func (c *clContext) isSVM(p uintptr) bool {
	_, err := c.run.SVMBytes(runtime.Pointer(p), 1)
	return !errors.Is(err, svm.ErrNotSVM)
}

// gwEnqueueSVMMemcpy copies between shared virtual memory and any other.
//
//export gwEnqueueSVMMemcpy
func gwEnqueueSVMMemcpy(qh uintptr, blocking uint32, dst, src unsafe.Pointer, size uint64, n uint32, list, out unsafe.Pointer) int32 {
	q, wait, st := queueAndWaits(qh, n, list)
	if st != clSuccess {
		return st
	}
	enqueue, st := q.c.memcpy(dst, src, size)
	if st != clSuccess {
		return st
	}
	run, err := enqueue(q.run, wait...)
	return q.accepted(run, err, C.CL_COMMAND_SVM_MEMCPY, blocking != 0, out)
}

// memcpy is the copy between shared virtual memory and any other.
func (c *clContext) memcpy(dst, src unsafe.Pointer, size uint64) (verb, int32) {
	if dst == nil || src == nil {
		return nil, clInvalidValue
	}
	ctx, to, from := context.Background(), runtime.Pointer(uintptr(dst)), runtime.Pointer(uintptr(src))
	toSVM, fromSVM := c.isSVM(uintptr(dst)), c.isSVM(uintptr(src))
	if d, s := uintptr(dst), uintptr(src); !toSVM && !fromSVM && size > 0 && d < s+uintptr(size) && s < d+uintptr(size) {
		return nil, clMemCopyOverlap
	}
	return func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
		switch {
		case size == 0:
			return on.EnqueueMarker(ctx, wait...)
		case toSVM && fromSVM:
			return on.EnqueueSVMMemcpy(ctx, to, from, size, wait...)
		case toSVM:
			return on.EnqueueSVMWrite(ctx, to, bytesAt(src, size), wait...)
		case fromSVM:
			return on.EnqueueSVMRead(ctx, from, bytesAt(dst, size), wait...)
		}
		return on.EnqueueHostCall(ctx, func(context.Context) error {
			copy(bytesAt(dst, size), bytesAt(src, size))
			return nil
		}, wait...)
	}, clSuccess
}

//export gwEnqueueSVMMemFill
func gwEnqueueSVMMemFill(qh, p uintptr, pattern unsafe.Pointer, patternSize, size uint64, n uint32, list, out unsafe.Pointer) int32 {
	q, wait, st := queueAndWaits(qh, n, list)
	switch {
	case st != clSuccess:
		return st
	case p == 0 || pattern == nil || patternSize == 0 || patternSize > 128:
		return clInvalidValue
	}
	if size == 0 {
		return q.marker(C.CL_COMMAND_SVM_MEMFILL, false, wait, out)
	}
	run, err := q.run.EnqueueSVMFill(context.Background(), runtime.Pointer(p), bytesAt(pattern, patternSize), size, wait...)
	return q.accepted(run, err, C.CL_COMMAND_SVM_MEMFILL, false, out)
}

//export gwEnqueueSVMMap
func gwEnqueueSVMMap(qh uintptr, blocking uint32, flags uint64, p uintptr, size uint64, n uint32, list, out unsafe.Pointer) int32 {
	q, wait, st := queueAndWaits(qh, n, list)
	switch {
	case st != clSuccess:
		return st
	case p == 0 || size == 0 || flags&^mapFlags != 0:
		return clInvalidValue
	}
	if blocking == 0 {
		_, run, err := q.run.EnqueueSVMMap(context.Background(), runtime.Pointer(p), size, svm.MapFlags(flags), wait...)
		return q.accepted(run, err, C.CL_COMMAND_SVM_MAP, false, out)
	}
	_, run, err := q.run.SVMMap(context.Background(), runtime.Pointer(p), size, svm.MapFlags(flags), wait...)
	if run.IsZero() {
		return q.accepted(run, err, C.CL_COMMAND_SVM_MAP, false, out)
	}
	return q.accepted(run, nil, C.CL_COMMAND_SVM_MAP, true, out) // with the status of its end
}

//export gwEnqueueSVMUnmap
func gwEnqueueSVMUnmap(qh, p uintptr, n uint32, list, out unsafe.Pointer) int32 {
	q, wait, st := queueAndWaits(qh, n, list)
	switch {
	case st != clSuccess:
		return st
	case p == 0:
		return clInvalidValue
	}
	run, err := q.run.EnqueueSVMUnmap(context.Background(), runtime.Pointer(p), wait...)
	return q.accepted(run, err, C.CL_COMMAND_SVM_UNMAP, false, out)
}

//export gwEnqueueSVMMigrateMem
func gwEnqueueSVMMigrateMem(qh uintptr, count uint32, pointers, sizes unsafe.Pointer, flags uint64, n uint32, list, out unsafe.Pointer) int32 {
	q, wait, st := queueAndWaits(qh, n, list)
	how, ok := migrateFlags(flags)
	switch {
	case st != clSuccess:
		return st
	case count == 0 || pointers == nil || !ok:
		return clInvalidValue
	}
	ranges := make([]runtime.SVMRange, count)
	for i, p := range unsafe.Slice((*runtime.Pointer)(pointers), count) {
		ranges[i].Pointer = p
		if sizes != nil {
			ranges[i].Size = unsafe.Slice((*uint64)(sizes), count)[i]
		}
	}
	run, err := q.run.EnqueueSVMMigrate(context.Background(), ranges, how, wait...)
	return q.accepted(run, err, C.CL_COMMAND_SVM_MIGRATE_MEM, false, out)
}
