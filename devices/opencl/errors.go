//go:build cgo

package opencl

import (
	"cmp"
	"fmt"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// sentinels are the errors of package mem that OpenCL's statuses stand for.
var sentinels = byStatus(
	mem.ErrDeviceNotFound, mem.ErrDeviceLost, mem.ErrNoMemory, mem.ErrNoResources, mem.ErrNoHostMemory, mem.ErrOverlap,
	mem.ErrBuild, mem.ErrMisaligned, mem.ErrDependency, mem.ErrInvalidValue, mem.ErrInvalidDevice, mem.ErrInvalidContext,
	mem.ErrInvalidQueue, mem.ErrInvalidHostPtr, mem.ErrInvalidBuffer, mem.ErrKernelName, mem.ErrInvalidKernel, mem.ErrArgIndex,
	mem.ErrArgValue, mem.ErrArgSize, mem.ErrKernelArgs, mem.ErrWorkDimension, mem.ErrWorkGroupSize, mem.ErrWorkItemSize,
	mem.ErrInvalidWaitList, mem.ErrInvalidEvent, mem.ErrInvalidOperation, mem.ErrInvalidSize, mem.ErrGlobalSize,
)

func byStatus(errs ...error) map[mem.Status]error {
	by := make(map[mem.Status]error, len(errs))
	for _, err := range errs {
		by[mem.StatusOf(err)] = err
	}
	return by
}

// statusNames are the codes that have no error in package mem.
var statusNames = map[mem.Status]string{
	-1001: "no platform", -3: "no compiler", -12: "mapping failed", -19: "no argument information",
	-44: "invalid program", -45: "program not built for this device", -56: "invalid global offset",
	kernelFault: "illegal memory access in a kernel",
}

// statusError is the error for what OpenCL answered, or nil for success.
func statusError(st ocl.Status, format string, args ...any) error {
	if st == 0 {
		return nil
	}
	err, ok := sentinels[mem.Status(st)]
	if !ok {
		err = mem.Sentinel(cmp.Or(statusNames[mem.Status(st)], "OpenCL error"), mem.Status(st))
	}
	return fmt.Errorf("%s: OpenCL status %d: %w", fmt.Sprintf(format, args...), st, err)
}
