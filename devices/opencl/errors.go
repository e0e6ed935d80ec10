//go:build cgo

package opencl

import (
	"fmt"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// ErrMissing: there is no OpenCL here. The message says what is missing.
var ErrMissing = mem.Sentinel("OpenCL is not available", mem.DeviceNotFound)

// sentinels maps OpenCL's statuses to the errors of package mem.
var sentinels = map[mem.Status]error{
	mem.DeviceNotFound:             mem.ErrDeviceNotFound,
	mem.DeviceNotAvailable:         mem.ErrDeviceLost,
	mem.MemObjectAllocationFailure: mem.ErrNoMemory,
	mem.OutOfResources:             mem.ErrNoResources,
	mem.OutOfHostMemory:            mem.ErrNoHostMemory,
	mem.MemCopyOverlap:             mem.ErrOverlap,
	mem.BuildProgramFailure:        mem.ErrBuild,
	mem.MisalignedSubBufferOffset:  mem.ErrMisaligned,
	mem.ExecStatusErrorInWaitList:  mem.ErrDependency,
	mem.InvalidValue:               mem.ErrInvalidValue,
	mem.InvalidDevice:              mem.ErrInvalidDevice,
	mem.InvalidContext:             mem.ErrInvalidContext,
	mem.InvalidCommandQueue:        mem.ErrInvalidQueue,
	mem.InvalidHostPtr:             mem.ErrInvalidHostPtr,
	mem.InvalidMemObject:           mem.ErrInvalidBuffer,
	mem.InvalidKernelName:          mem.ErrKernelName,
	mem.InvalidKernel:              mem.ErrInvalidKernel,
	mem.InvalidArgIndex:            mem.ErrArgIndex,
	mem.InvalidArgValue:            mem.ErrArgValue,
	mem.InvalidArgSize:             mem.ErrArgSize,
	mem.InvalidKernelArgs:          mem.ErrKernelArgs,
	mem.InvalidWorkDimension:       mem.ErrWorkDimension,
	mem.InvalidWorkGroupSize:       mem.ErrWorkGroupSize,
	mem.InvalidWorkItemSize:        mem.ErrWorkItemSize,
	mem.InvalidEventWaitList:       mem.ErrInvalidWaitList,
	mem.InvalidEvent:               mem.ErrInvalidEvent,
	mem.InvalidOperation:           mem.ErrInvalidOperation,
	mem.InvalidBufferSize:          mem.ErrInvalidSize,
	mem.InvalidGlobalWorkSize:      mem.ErrGlobalSize,
}

// statusNames are the codes that have no error in package mem.
var statusNames = map[mem.Status]string{
	-1001: "no platform", -3: "no compiler", -12: "mapping failed", -19: "no argument information",
	-44: "invalid program", -45: "program not built for this device", -56: "invalid global offset",
	kernelFault: "illegal memory access in a kernel",
}

// clError is an OpenCL status that has no error in package mem.
type clError mem.Status

func (e clError) Error() string {
	if name, ok := statusNames[mem.Status(e)]; ok {
		return name
	}
	return "OpenCL error"
}

// Status implements the interface that mem.StatusOf looks for.
func (e clError) Status() mem.Status { return mem.Status(e) }

// statusError is the error for what OpenCL answered, or nil for success.
func statusError(st ocl.Status, format string, args ...any) error {
	if st == 0 {
		return nil
	}
	err, ok := sentinels[mem.Status(st)]
	if !ok {
		err = clError(st)
	}
	return fmt.Errorf("%s: OpenCL status %d: %w", fmt.Sprintf(format, args...), st, err)
}

// isLost reports whether a status says that the device will not come back.
func isLost(st ocl.Status) bool { return st == int32(mem.DeviceNotAvailable) || st == kernelFault }
