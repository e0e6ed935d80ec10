//go:build cgo

package ocl

// #cgo noescape gw_hop_begins
// #cgo nocallback gw_hop_begins
// #include "calls.h"
// GW_HIDDEN void *gw_hooks[3] = {(void *)gw_poll_event, (void *)gw_hop_ended, (void *)gw_watches};
import "C"

import "unsafe"

// What OpenCL calls the import of a window.
const (
	ImportTypes   = 0x204F // CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR
	OpaqueFD      = 0x2060 // CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR
	DeviceUUID    = 0x106A // CL_DEVICE_UUID_KHR
	DriverVersion = 0x102D // CL_DRIVER_VERSION
)

// Import makes a buffer of memory of a device that a file descriptor stands for. Once it
// has succeeded the descriptor is OpenCL's.
func (c Context) Import(d DeviceID, fd int, size uint64) (Mem, Status) {
	var st C.cl_int
	m := C.gw_import(C.gw_handle(c.ID), C.gw_handle(d), C.int(fd), C.size_t(size), &st)
	return Mem(m), Status(st)
}

// C functions for who copies between windows.

// PollEvent is int (*)(uint64_t event): it asks whether an event has ended.
func PollEvent() uintptr { return uintptr(C.gw_hooks[0]) }

// HopEnded is void (*)(uint64_t tag, uint64_t id, int32_t status):
// it puts the end of a copy, whose Tag.Hop it is given, into the tag's sink.
func HopEnded() uintptr { return uintptr(C.gw_hooks[1]) }

// Watches is void (*)(void): the thread that polls and tells calls it first.
func Watches() uintptr { return uintptr(C.gw_hooks[2]) }

// HopBegins says that the end of a copy between windows will come into the sink, or, where
// it is told again with ends, that none will.
func (s Sink) HopBegins(ends bool) {
	C.gw_hop_begins(s.c, more(!ends))
}

// Hop is the tag's name for HopEnded.
func (t Tag) Hop() uintptr { return uintptr(unsafe.Pointer(t.c)) }

// HopFailed is the status of a copy between windows that failed by itself.
const HopFailed Status = C.GW_HOP_FAILED
