//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"context"
	"unsafe"

	"godwit/devices"
	"godwit/runtime"
)

// event is a cl_event.
type event struct {
	self    uintptr       // immutable
	c       *clContext    // immutable
	q       *queue        // immutable; nil for a user event
	run     runtime.Event // immutable; one reference of it
	command uint32        // immutable: cl_command_type
	several bool          // immutable: a command buffer's on more than one queue, of which q is one
	begin   runtime.Event // immutable: of a command buffer's, a marker before its first command; zero where there is none
}

// newEvent makes an event of a runtime event, whose reference it takes over.
func newEvent(c *clContext, q *queue, run runtime.Event, command uint32) (uintptr, int32) {
	e := &event{c: c, q: q, run: run, command: command}
	return e.add()
}

// add gives an event its handle.
func (e *event) add() (uintptr, int32) {
	retain(e.keeps())
	var qh uintptr
	if e.q != nil && !e.several {
		qh = e.q.self
	}
	return events.add(e, &e.self, uint64(e.c.self), uint64(qh), uint64(e.command))
}

// destroy implements destroyer. The command goes on.
func (e *event) destroy() {
	_ = e.run.Release() // ours: it cannot fail
	if !e.begin.IsZero() {
		_ = e.begin.Release()
	}
	release(e.keeps())
}

// keeps is the object that the event keeps: its queue, which keeps the context, or the context.
func (e *event) keeps() uintptr {
	if e.q != nil {
		return e.q.self
	}
	return e.c.self
}

//export gwCreateUserEvent
func gwCreateUserEvent(ch uintptr) (uintptr, int32) {
	c := contexts.get(ch)
	if c == nil {
		return 0, clInvalidContext
	}
	run, err := c.run.NewUserEvent()
	if err != nil {
		return 0, status(err)
	}
	return newEvent(c, nil, run, C.CL_COMMAND_USER)
}

//export gwSetUserEventStatus
func gwSetUserEventStatus(h uintptr, st int32) int32 {
	e := events.get(h)
	if e == nil || e.q != nil {
		return clInvalidEvent
	}
	return status(e.run.SetStatus(runtime.ExecStatus(st)))
}

//export gwWaitForEvents
func gwWaitForEvents(n uint32, list unsafe.Pointer) int32 {
	if n == 0 || list == nil {
		return clInvalidValue
	}
	handles := unsafe.Slice((*uintptr)(list), n)
	var c *clContext
	for _, h := range handles {
		e := events.get(h)
		if e == nil {
			return clInvalidEvent
		}
		if c != nil && e.c != c {
			return clInvalidContext
		}
		c = e.c
	}
	st := clSuccess
	for _, h := range handles {
		e := events.get(h)
		if e == nil {
			return clInvalidEvent // released by another thread meanwhile
		}
		if e.run.Wait(context.Background(), devices.BlockThread) != nil {
			st = clExecStatusErrorInWaitList
		}
	}
	return st
}

// gwGetEventInfo answers what C does not by itself (table.c).
//
//export gwGetEventInfo
func gwGetEventInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	e := events.get(h)
	if e == nil {
		return clInvalidEvent
	}
	if what != C.CL_EVENT_COMMAND_EXECUTION_STATUS {
		return clInvalidValue
	}
	s, err := e.run.Status()
	if err != nil {
		return status(err)
	}
	return answer(int32(s), room, value, sizeRet)
}

//export gwGetEventProfilingInfo
func gwGetEventProfilingInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	e := events.get(h)
	if e == nil {
		return clInvalidEvent
	}
	if e.q == nil || !e.q.profiles() {
		return C.CL_PROFILING_INFO_NOT_AVAILABLE
	}
	t, err := e.run.DeviceTimes() // as the vendor tells them, and as clGetDeviceAndHostTimer has it
	if err != nil {
		return status(err)
	}
	if e.command == C.CL_COMMAND_COMMAND_BUFFER_KHR {
		e.whole(&t)
	}
	all := [...]uint64{t.Queued, t.Submitted, t.Started, t.Ended, t.Ended} // up to CL_PROFILING_COMMAND_COMPLETE
	i := what - C.CL_PROFILING_COMMAND_QUEUED
	if i >= uint32(len(all)) {
		return clInvalidValue
	}
	return answer(all[i], room, value, sizeRet)
}

// whole makes the times of a command buffer's last marker those of the command buffer: it starts where what it waits for has
// ended, or at the latest when its end was submitted.
func (e *event) whole(t *devices.Times) {
	t.Started = t.Submitted
	if e.begin.IsZero() {
		return
	}
	if b, err := e.begin.DeviceTimes(); err == nil && b.Ended <= t.Ended {
		t.Queued, t.Submitted, t.Started = b.Queued, b.Submitted, b.Ended
	}
}

//export gwSetEventCallback
func gwSetEventCallback(h uintptr, when int32, f, user unsafe.Pointer) int32 {
	e := events.get(h)
	if e == nil {
		return clInvalidEvent
	}
	if f == nil || when != C.CL_COMPLETE && when != C.CL_RUNNING && when != C.CL_SUBMITTED {
		return clInvalidValue
	}
	call := callback{f, user}
	retain(h)
	err := e.run.OnStatus(runtime.ExecStatus(when), func(_ runtime.Event, s runtime.ExecStatus) {
		call.event(h, int32(s))
		release(h)
	})
	if err != nil {
		release(h)
	}
	return status(err)
}
