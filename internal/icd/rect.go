//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"cmp"
	"context"
	"math/bits"
	"unsafe"

	"godwit/runtime"
)

// triple reads a size_t[3].
func triple(p unsafe.Pointer) [3]uint64 { return *(*[3]uint64)(p) }

// extent is how many bytes from its start a box of host memory reaches; ok is
// false where that is more than there are addresses. What else may be wrong with
// the box the runtime finds.
func extent(b runtime.Box, region [3]uint64) (n uint64, ok bool) {
	b.Row = cmp.Or(b.Row, region[0])
	b.Slice = cmp.Or(b.Slice, b.Row*region[1])
	ok = true
	add := func(count, pitch uint64) {
		hi, lo := bits.Mul64(count, pitch)
		sum, carry := bits.Add64(n, lo, 0)
		n, ok = sum, ok && hi == 0 && carry == 0
	}
	add(b.Origin[0], 1)
	add(b.Origin[1], b.Row)
	add(b.Origin[2], b.Slice)
	add(region[2]-1, b.Slice)
	add(region[1]-1, b.Row)
	add(region[0], 1)
	return n, ok && n < 1<<62
}

// rectangle is what reads and writes of rectangles have in common.
type rectangle struct {
	at, host runtime.Box
	region   [3]uint64
	bytes    []byte
}

func (r *rectangle) read(bufferOrigin, hostOrigin, region unsafe.Pointer, bufferRow, bufferSlice, hostRow, hostSlice uint64, p unsafe.Pointer) bool {
	if bufferOrigin == nil || hostOrigin == nil || region == nil || p == nil {
		return false
	}
	r.region = triple(region)
	r.at = runtime.Box{Origin: triple(bufferOrigin), Row: bufferRow, Slice: bufferSlice}
	r.host = runtime.Box{Origin: triple(hostOrigin), Row: hostRow, Slice: hostSlice}
	if r.region[0] == 0 || r.region[1] == 0 || r.region[2] == 0 {
		return false
	}
	n, ok := extent(r.host, r.region)
	if ok {
		r.bytes = bytesAt(p, n)
	}
	return ok
}

//export gwEnqueueReadBufferRect
func gwEnqueueReadBufferRect(qh, mh uintptr, blocking uint32, bufferOrigin, hostOrigin, region unsafe.Pointer, bufferRow, bufferSlice, hostRow, hostSlice uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	var r rectangle
	ok := r.read(bufferOrigin, hostOrigin, region, bufferRow, bufferSlice, hostRow, hostSlice, p)
	return enqueueRect(qh, mh, false, blocking, &r, ok, n, list, out)
}

//export gwEnqueueWriteBufferRect
func gwEnqueueWriteBufferRect(qh, mh uintptr, blocking uint32, bufferOrigin, hostOrigin, region unsafe.Pointer, bufferRow, bufferSlice, hostRow, hostSlice uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	var r rectangle
	ok := r.read(bufferOrigin, hostOrigin, region, bufferRow, bufferSlice, hostRow, hostSlice, p)
	return enqueueRect(qh, mh, true, blocking, &r, ok, n, list, out)
}

// enqueueRect reads or writes a rectangle. What is wrong with the rectangle (ok)
// comes after what is wrong with the handles.
func enqueueRect(qh, mh uintptr, write bool, blocking uint32, r *rectangle, ok bool, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	q, m, wait, st := use(qh, mh, w[:0], n, list)
	switch {
	case st != clSuccess:
		return st
	case !ok:
		return clInvalidValue
	case write:
		run, err := q.run.EnqueueWriteRect(context.Background(), m.run, r.at, r.bytes, r.host, r.region, wait...)
		return q.accepted(run, err, C.CL_COMMAND_WRITE_BUFFER_RECT, blocking != 0, out)
	}
	run, err := q.run.EnqueueReadRect(context.Background(), m.run, r.at, r.bytes, r.host, r.region, wait...)
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
	from := runtime.Box{Origin: triple(srcOrigin), Row: srcRow, Slice: srcSlice}
	to := runtime.Box{Origin: triple(dstOrigin), Row: dstRow, Slice: dstSlice}
	run, err := q.run.EnqueueCopyRect(context.Background(), src.run, dst.run, from, to, triple(region), wait...)
	return q.accepted(run, err, C.CL_COMMAND_COPY_BUFFER_RECT, false, out)
}
