//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"context"
	"unsafe"

	"godwit/runtime"
)

// triple reads a size_t[3].
func triple(p unsafe.Pointer) [3]uint64 { return *(*[3]uint64)(p) }

// box is a runtime.Box, as the program has it in memory; its origin may be missing.
type box struct {
	origin     unsafe.Pointer
	row, slice uint64
}

func (b *box) box() runtime.Box {
	return runtime.Box{Origin: triple(b.origin), Row: b.row, Slice: b.slice}
}

//export gwEnqueueReadBufferRect
func gwEnqueueReadBufferRect(qh, mh uintptr, blocking uint32, bufferOrigin, hostOrigin, region unsafe.Pointer, bufferRow, bufferSlice, hostRow, hostSlice uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	return enqueueRect(qh, mh, false, blocking, &box{bufferOrigin, bufferRow, bufferSlice}, &box{hostOrigin, hostRow, hostSlice}, region, p, n, list, out)
}

//export gwEnqueueWriteBufferRect
func gwEnqueueWriteBufferRect(qh, mh uintptr, blocking uint32, bufferOrigin, hostOrigin, region unsafe.Pointer, bufferRow, bufferSlice, hostRow, hostSlice uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	return enqueueRect(qh, mh, true, blocking, &box{bufferOrigin, bufferRow, bufferSlice}, &box{hostOrigin, hostRow, hostSlice}, region, p, n, list, out)
}

// enqueueRect reads or writes a rectangle.
func enqueueRect(qh, mh uintptr, write bool, blocking uint32, in, host *box, region, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	q, m, wait, st := use(qh, mh, w[:0], n, list)
	switch {
	case st != clSuccess:
		return st
	case in.origin == nil || host.origin == nil || region == nil || p == nil:
		return clInvalidValue
	}
	at, from, sides := in.box(), host.box(), triple(region)
	size, err := from.Extent(sides)
	if err != nil || size >= 1<<62 { // or it reaches beyond all addresses
		complain(err)
		return clInvalidValue
	}
	if write {
		run, err := q.run.EnqueueWriteRect(context.Background(), m.run, at, bytesAt(p, size), from, sides, wait...)
		return q.accepted(run, err, C.CL_COMMAND_WRITE_BUFFER_RECT, blocking != 0, out)
	}
	run, err := q.run.EnqueueReadRect(context.Background(), m.run, at, bytesAt(p, size), from, sides, wait...)
	return q.accepted(run, err, C.CL_COMMAND_READ_BUFFER_RECT, blocking != 0, out)
}

//export gwEnqueueCopyBufferRect
func gwEnqueueCopyBufferRect(qh, sh, dh uintptr, srcOrigin, dstOrigin, region unsafe.Pointer, srcRow, srcSlice, dstRow, dstSlice uint64, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	q, src, wait, st := use(qh, sh, w[:0], n, list)
	if st != clSuccess {
		return st
	}
	dst, st := q.buffer(dh)
	switch {
	case st != clSuccess:
		return st
	case srcOrigin == nil || dstOrigin == nil || region == nil:
		return clInvalidValue
	}
	from, to := box{srcOrigin, srcRow, srcSlice}, box{dstOrigin, dstRow, dstSlice}
	run, err := q.run.EnqueueCopyRect(context.Background(), src.run, dst.run, from.box(), to.box(), triple(region), wait...)
	return q.accepted(run, err, C.CL_COMMAND_COPY_BUFFER_RECT, false, out)
}
