//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"unsafe"

	"godwit/devices"
	"godwit/devices/opencl"
)

// The host's timer starts with the process. A device's is its own, that of profiling.

//export gwGetHostTimer
func gwGetHostTimer(h uintptr, host unsafe.Pointer) int32 {
	if devs.get(h) == nil {
		return clInvalidDevice
	}
	if host == nil {
		return clInvalidValue
	}
	*(*uint64)(host) = devices.Now()
	return clSuccess
}

//export gwGetDeviceAndHostTimer
func gwGetDeviceAndHostTimer(h uintptr, device, host unsafe.Pointer) int32 {
	d := devs.get(h)
	if d == nil {
		return clInvalidDevice
	}
	if device == nil || host == nil {
		return clInvalidValue
	}
	dev, err := d.open()
	if err != nil {
		return refusal(err)
	}
	onDevice, onHost, err := dev.(*opencl.Device).Clock()
	if err != nil {
		return refusal(err)
	}
	*(*uint64)(device), *(*uint64)(host) = onDevice, onHost
	return clSuccess
}
