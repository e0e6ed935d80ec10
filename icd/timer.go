//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"time"
	"unsafe"
)

// The host's timer and the devices' are one clock, which starts with the library.

var clockStart = time.Now()

//export gwGetHostTimer
func gwGetHostTimer(h uintptr, host unsafe.Pointer) int32 {
	if devs.get(h) == nil {
		return clInvalidDevice
	}
	if host == nil {
		return clInvalidValue
	}
	*(*uint64)(host) = uint64(time.Since(clockStart))
	return clSuccess
}
