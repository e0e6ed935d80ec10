//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"unsafe"

	"godwit/mem"
)

// Answers to info queries. All of OpenCL's info functions have the same form: a
// value, room for it, and where its exact size is wanted.

// scalar is what queries answer by value.
type scalar interface {
	~uint8 | ~uint32 | ~int32 | ~uint64 | ~uintptr
}

// answer gives a value of one word.
func answer[T scalar](v T, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return answerBytes(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), room, value, sizeRet)
}

// answerList gives a list, which may be empty.
func answerList[T scalar](v []T, room uint64, value, sizeRet unsafe.Pointer) int32 {
	if len(v) == 0 {
		return answerBytes(nil, room, value, sizeRet)
	}
	return answerBytes(unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), uintptr(len(v))*unsafe.Sizeof(v[0])), room, value, sizeRet)
}

// answerText gives a text with its final zero.
func answerText(s string, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return answerBytes(append([]byte(s), 0), room, value, sizeRet)
}

// answerBool gives a cl_bool.
func answerBool(b bool, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return answer(clBool(b), room, value, sizeRet)
}

func clBool(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// answerBytes is CL_INVALID_VALUE where there is too little room.
func answerBytes(b []byte, room uint64, value, sizeRet unsafe.Pointer) int32 {
	if value != nil {
		if room < uint64(len(b)) {
			return clInvalidValue
		}
		copy(unsafe.Slice((*byte)(value), len(b)), b)
	}
	if sizeRet != nil {
		*(*uint64)(sizeRet) = uint64(len(b))
	}
	return clSuccess
}

// answerDevices gives the handles of devices.
func answerDevices(list []*device, room uint64, value, sizeRet unsafe.Pointer) int32 {
	ids := make([]uintptr, len(list))
	for i, d := range list {
		ids[i] = d.self
	}
	return answerList(ids, room, value, sizeRet)
}

// listIDs answers the form in which platforms and devices are listed.
func listIDs(ids []uintptr, room uint32, list, num unsafe.Pointer) int32 {
	if (room == 0 && list != nil) || (list == nil && num == nil) {
		return clInvalidValue
	}
	if list != nil {
		copy(unsafe.Slice((*uintptr)(list), room), ids)
	}
	if num != nil {
		*(*uint32)(num) = uint32(len(ids))
	}
	return clSuccess
}

// OpenCL's status codes that package mem has no word for.
const (
	clSuccess                         = int32(mem.Success)
	clDeviceNotFound                  = int32(mem.DeviceNotFound)
	clOutOfResources                  = int32(mem.OutOfResources)
	clOutOfHostMemory                 = int32(mem.OutOfHostMemory)
	clProfilingInfoNotAvailable       = int32(mem.ProfilingInfoNotAvailable)
	clMemCopyOverlap                  = int32(mem.MemCopyOverlap)
	clExecStatusErrorInWaitList       = int32(mem.ExecStatusErrorInWaitList)
	clDevicePartitionFailed     int32 = -18
	clInvalidValue                    = int32(mem.InvalidValue)
	clInvalidDeviceType         int32 = -31
	clInvalidPlatform           int32 = -32
	clInvalidDevice                   = int32(mem.InvalidDevice)
	clInvalidContext                  = int32(mem.InvalidContext)
	clInvalidQueueProperties          = int32(mem.InvalidQueueProperties)
	clInvalidCommandQueue             = int32(mem.InvalidCommandQueue)
	clInvalidHostPtr                  = int32(mem.InvalidHostPtr)
	clInvalidMemObject                = int32(mem.InvalidMemObject)
	clInvalidEventWaitList            = int32(mem.InvalidEventWaitList)
	clInvalidEvent                    = int32(mem.InvalidEvent)
	clInvalidOperation                = int32(mem.InvalidOperation)
	clInvalidBufferSize               = int32(mem.InvalidBufferSize)
	clInvalidProperty           int32 = -64
	clPlatformNotFound          int32 = -1001
)

// fail puts a status where a function that returns an object answers it, and
// returns no object.
func fail(errcode unsafe.Pointer, st int32) uintptr {
	if errcode != nil {
		*(*int32)(errcode) = st
	}
	return 0
}

// made returns an object, with success.
func made(errcode unsafe.Pointer, h uintptr) uintptr {
	if errcode != nil {
		*(*int32)(errcode) = clSuccess
	}
	return h
}

// status is an error's status.
func status(err error) int32 { return int32(mem.StatusOf(err)) }

// refusal is an error's status, once it has been said what was wrong.
func refusal(err error) int32 {
	complain(err)
	return status(err)
}

// memInfo and eventInfo are clGetMemObjectInfo and clGetEventInfo as programs call
// them, by way of C (table.c).
func memInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return int32(C.gwc_GetMemObjectInfo(C.cl_mem(unsafe.Pointer(h)), C.cl_mem_info(what), C.size_t(room), value, (*C.size_t)(sizeRet)))
}

func eventInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return int32(C.gwc_GetEventInfo(C.cl_event(unsafe.Pointer(h)), C.cl_event_info(what), C.size_t(room), value, (*C.size_t)(sizeRet)))
}
