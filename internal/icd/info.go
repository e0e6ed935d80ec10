//go:build cgo

package icd

import (
	"encoding/binary"
	"unsafe"

	"godwit/mem"
)

// Answers to info queries. All of OpenCL's info functions have the same form: a
// value, room for it, and where its exact size is wanted.

// facts are what objects of a kind answer of themselves, by what is asked. They are
// of the types that reply takes.
type facts[T any] map[uint32]func(*T) any

// info answers a query of an object.
func (t *table[T]) info(h uintptr, all facts[T], what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	v := t.get(h)
	if v == nil {
		return t.invalid
	}
	fact := all[what]
	if fact == nil {
		return clInvalidValue
	}
	return reply(fact(v), room, value, sizeRet)
}

// reply gives a number, a handle, a text with its final zero, a cl_bool, bytes, or a list of
// devices or numbers, which may be empty. A mem.Status is the query's own, an error has one,
// and nil is that there is no such parameter.
func reply(v any, room uint64, value, sizeRet unsafe.Pointer) int32 {
	var b []byte
	switch x := v.(type) {
	case nil:
		return clInvalidValue
	case mem.Status:
		return int32(x)
	case error:
		return status(x)
	case []byte:
		b = x
	case string:
		b = append([]byte(x), 0)
	case bool:
		b = make([]byte, 4)
		if x {
			b[0] = 1
		}
	case []*device:
		for _, d := range x {
			b = binary.NativeEndian.AppendUint64(b, uint64(d.self))
		}
	case uintptr:
		b = word64(uint64(x))
	case []uintptr:
		for _, w := range x {
			b = binary.NativeEndian.AppendUint64(b, uint64(w))
		}
	default:
		var err error
		if b, err = binary.Append(nil, binary.NativeEndian, v); err != nil {
			panic(err) // a type that is not among those above
		}
	}
	return answerBytes(b, room, value, sizeRet)
}

// answer gives a value of one word, and allocates nothing.
func answer[T int32 | uint64](v T, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return answerBytes(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), room, value, sizeRet)
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
	clMemCopyOverlap                  = int32(mem.MemCopyOverlap)
	clExecStatusErrorInWaitList       = int32(mem.ExecStatusErrorInWaitList)
	clDevicePartitionFailed     int32 = -18
	clInvalidValue                    = int32(mem.InvalidValue)
	clInvalidDeviceType         int32 = -31
	clInvalidPlatform           int32 = -32
	clInvalidDevice                   = int32(mem.InvalidDevice)
	clInvalidContext                  = int32(mem.InvalidContext)
	clInvalidCommandQueue             = int32(mem.InvalidCommandQueue)
	clInvalidHostPtr                  = int32(mem.InvalidHostPtr)
	clInvalidMemObject                = int32(mem.InvalidMemObject)
	clInvalidEventWaitList            = int32(mem.InvalidEventWaitList)
	clInvalidEvent                    = int32(mem.InvalidEvent)
	clInvalidOperation                = int32(mem.InvalidOperation)
	clInvalidBufferSize               = int32(mem.InvalidBufferSize)
	clInvalidProperty           int32 = -64
)

// status is an error's status.
func status(err error) int32 { return int32(mem.StatusOf(err)) }

// refusal is an error's status, once it has been said what was wrong.
func refusal(err error) int32 {
	complain(err)
	return status(err)
}
