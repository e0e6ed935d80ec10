//go:build cgo

package opencl

import (
	"fmt"
	"time"
	"unsafe"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// UseDriver makes this process use one OpenCL driver, such as libpocl.so.2,
// without the OpenCL loader: for libraries that the loader itself loads, which
// must not call it. It has to come before anything else of this package, and
// fails with mem.ErrInvalidOperation where another driver was named before.
func UseDriver(library string) error {
	if !ocl.UseDriver(library) {
		return fmt.Errorf("OpenCL driver %s: another one is in use: %w", library, mem.ErrInvalidOperation)
	}
	return nil
}

// Query is what OpenCL answers for a parameter of clGetDeviceInfo; nil where
// it does not know it.
func (f Found) Query(param uint32) []byte { return f.device.ID.Info(param) }

// GuardExit has handler, a C function without arguments, called when the process
// exits, before anything that OpenCL's libraries have registered for then: for
// libraries in programs that end with commands in flight. It may be called more
// than once, does its work the first time, and should call CloseGate.
func GuardExit(handler unsafe.Pointer) { ocl.GuardExit(handler) }

// CloseGate keeps every goroutine and thread from calling OpenCL any more, for
// good: who tries waits for ever. It returns when those that are in there have
// left it and the commands that it has been given have ended, or after the time
// given; then it returns false.
func CloseGate(wait time.Duration) bool { return ocl.CloseGate(wait) }
