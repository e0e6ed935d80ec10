//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"context"
	"unsafe"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// queue is a cl_command_queue.
type queue struct {
	self       uintptr        // immutable
	c          *clContext     // immutable
	d          *device        // immutable
	flags      uint64         // immutable: cl_command_queue_properties
	properties []uint64       // immutable: as given, with the final zero; nil where made the old way
	run        *runtime.Queue // immutable
	quiet      *runtime.Queue // immutable: run, for commands of which the program wants no event
}

const queueFlags = C.CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | C.CL_QUEUE_PROFILING_ENABLE

//export gwCreateCommandQueue
func gwCreateCommandQueue(ch, dh uintptr, flags uint64) (uintptr, int32) {
	return createQueue(ch, dh, flags, nil)
}

//export gwCreateCommandQueueWithProperties
func gwCreateCommandQueueWithProperties(ch, dh uintptr, list unsafe.Pointer) (uintptr, int32) {
	var all []uint64
	var flags uint64
	if list != nil {
		for at := (*[2]uint64)(list); at[0] != 0; at = (*[2]uint64)(unsafe.Add(unsafe.Pointer(at), 16)) {
			switch at[0] {
			case C.CL_QUEUE_PROPERTIES:
				flags = at[1]
			default: // CL_QUEUE_SIZE is for queues on devices, which there are not
				return 0, clInvalidValue
			}
			all = append(all, at[0], at[1])
		}
		all = append(all, 0)
	}
	return createQueue(ch, dh, flags, all)
}

func createQueue(ch, dh uintptr, flags uint64, properties []uint64) (uintptr, int32) {
	c := contexts.get(ch)
	if c == nil {
		return 0, clInvalidContext
	}
	d := c.device(dh)
	const known = queueFlags | C.CL_QUEUE_ON_DEVICE | C.CL_QUEUE_ON_DEVICE_DEFAULT
	switch {
	case d == nil:
		return 0, clInvalidDevice
	case flags&^known != 0 || flags&C.CL_QUEUE_ON_DEVICE_DEFAULT != 0 && flags&C.CL_QUEUE_ON_DEVICE == 0 ||
		flags&C.CL_QUEUE_ON_DEVICE != 0 && flags&C.CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0:
		return 0, clInvalidValue
	case flags&C.CL_QUEUE_ON_DEVICE != 0:
		return 0, C.CL_INVALID_QUEUE_PROPERTIES
	}
	q := &queue{c: c, d: d, flags: flags, properties: properties}
	var err error
	q.run, err = c.run.NewQueue(c.real(d), runtime.QueueOptions{
		OutOfOrder: flags&C.CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0,
		Profiling:  flags&C.CL_QUEUE_PROFILING_ENABLE != 0,
	})
	if err != nil {
		return 0, refusal(err)
	}
	q.quiet = q.run.With(runtime.CommandOptions{NoEvent: true})
	retain(c.self)
	return queues.add(q, &q.self)
}

// profiles reports whether the queue keeps times.
func (q *queue) profiles() bool { return q.flags&C.CL_QUEUE_PROFILING_ENABLE != 0 }

// destroy implements destroyer. Commands that were enqueued go on, and the queue
// is closed behind them.
func (q *queue) destroy() {
	q.c.users.Go(func() { _ = q.run.Close() }) // it cannot have been closed before
	release(q.c.self)
}

var queueFacts = facts[queue]{
	C.CL_QUEUE_CONTEXT:          func(q *queue) any { return q.c.self },
	C.CL_QUEUE_DEVICE:           func(q *queue) any { return q.d.self },
	C.CL_QUEUE_REFERENCE_COUNT:  func(q *queue) any { return refs(q.self) },
	C.CL_QUEUE_PROPERTIES:       func(q *queue) any { return q.flags },
	C.CL_QUEUE_PROPERTIES_ARRAY: func(q *queue) any { return q.properties },
	C.CL_QUEUE_DEVICE_DEFAULT:   func(*queue) any { return uintptr(0) },
	C.CL_QUEUE_SIZE:             func(*queue) any { return mem.InvalidCommandQueue }, // of queues on devices only
}

//export gwGetCommandQueueInfo
func gwGetCommandQueueInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return queues.info(h, queueFacts, what, room, value, sizeRet)
}

// gwSetDefaultDeviceCommandQueue: no device has queues of its own, whatever queue is given.
//
//export gwSetDefaultDeviceCommandQueue
func gwSetDefaultDeviceCommandQueue(ch, dh, _ uintptr) int32 {
	c := contexts.get(ch)
	switch {
	case c == nil:
		return clInvalidContext
	case c.device(dh) == nil:
		return clInvalidDevice
	}
	return clInvalidOperation
}

//export gwFlush
func gwFlush(h uintptr) int32 {
	q := queues.get(h)
	if q == nil {
		return clInvalidCommandQueue
	}
	return status(q.run.Flush())
}

// gwFinish succeeds also where commands failed: their events say so.
//
//export gwFinish
func gwFinish(h uintptr) int32 {
	q := queues.get(h)
	if q == nil {
		return clInvalidCommandQueue
	}
	_ = q.run.Finish(context.Background(), devices.BlockThread)
	return clSuccess
}

// behind resolves a queue, and the wait list of a command for it; room is for that.
func behind(qh uintptr, room []runtime.Event, n uint32, list unsafe.Pointer) (q *queue, wait []runtime.Event, st int32) {
	if q = queues.get(qh); q == nil {
		return nil, nil, clInvalidCommandQueue
	}
	wait, st = q.c.waitList(room, n, list)
	return q, wait, st
}

// waitList resolves a wait list; dst is room for it.
func (c *clContext) waitList(dst []runtime.Event, n uint32, list unsafe.Pointer) ([]runtime.Event, int32) {
	if n == 0 && list == nil {
		return dst, clSuccess
	}
	if n == 0 || list == nil {
		return nil, clInvalidEventWaitList
	}
	for _, h := range unsafe.Slice((*uintptr)(list), n) {
		e := events.get(h)
		if e == nil {
			return nil, clInvalidEventWaitList
		}
		if e.c != c {
			return nil, clInvalidContext
		}
		dst = append(dst, e.run)
	}
	return dst, clSuccess
}

// waits is room for a wait list as long as most are, on the caller's stack.
type waits [8]runtime.Event

// accepted ends every enqueue: it gives the program the event, or if it wants
// none drops it, and where the call is blocking waits. err is the enqueue's.
func (q *queue) accepted(run runtime.Event, err error, command uint32, blocking bool, out unsafe.Pointer) int32 {
	if err != nil {
		return refusal(err)
	}
	st := clSuccess
	if blocking {
		st = status(run.Wait(context.Background(), devices.BlockThread))
	}
	if out == nil {
		if !run.IsZero() { // it is where the runtime was told that nobody wants it
			_ = run.Release()
		}
		return st
	}
	h, made := newEvent(q.c, q, run, command)
	if made != clSuccess {
		return made
	}
	*(*uintptr)(out) = h
	return st
}
