//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"context"
	"unsafe"

	"godwit/runtime"
)

// marker is a command that has nothing to do: a marker with the command's name.
func (q *queue) marker(command uint32, blocking bool, wait []runtime.Event, out unsafe.Pointer) int32 {
	run, err := q.run.EnqueueMarker(context.Background(), wait...)
	return q.accepted(run, err, command, blocking, out)
}

// enqueueMarker is all forms of markers and barriers.
func enqueueMarker(qh uintptr, barrier bool, command, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	q, wait, st := behind(qh, w[:0], n, list)
	switch {
	case st != clSuccess:
		return st
	case !barrier:
		return q.marker(command, false, wait, out)
	}
	run, err := q.run.EnqueueBarrier(context.Background(), wait...)
	return q.accepted(run, err, command, false, out)
}

//export gwEnqueueMarkerWithWaitList
func gwEnqueueMarkerWithWaitList(qh uintptr, n uint32, list, out unsafe.Pointer) int32 {
	return enqueueMarker(qh, false, C.CL_COMMAND_MARKER, n, list, out)
}

//export gwEnqueueBarrierWithWaitList
func gwEnqueueBarrierWithWaitList(qh uintptr, n uint32, list, out unsafe.Pointer) int32 {
	return enqueueMarker(qh, true, C.CL_COMMAND_BARRIER, n, list, out)
}

//export gwEnqueueMarker
func gwEnqueueMarker(qh uintptr, out unsafe.Pointer) int32 {
	if out == nil {
		return clInvalidValue
	}
	return enqueueMarker(qh, false, C.CL_COMMAND_MARKER, 0, nil, out)
}

//export gwEnqueueBarrier
func gwEnqueueBarrier(qh uintptr) int32 {
	return enqueueMarker(qh, true, C.CL_COMMAND_BARRIER, 0, nil, nil)
}

// gwEnqueueWaitForEvents is a barrier with a wait list that must not be empty.
//
//export gwEnqueueWaitForEvents
func gwEnqueueWaitForEvents(qh uintptr, n uint32, list unsafe.Pointer) int32 {
	if n == 0 || list == nil {
		return clInvalidValue
	}
	st := enqueueMarker(qh, true, C.CL_COMMAND_BARRIER, n, list, nil)
	if st == clInvalidEventWaitList {
		st = clInvalidEvent
	}
	return st
}
