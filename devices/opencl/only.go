//go:build cgo

package opencl

import (
	"fmt"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Guard are C functions that are called around every call into OpenCL, for a library in a
// program that ends when it likes: Enter before a call and Leave after it, Compiles around
// what may compile, Commands as OpenCL is given commands and ends them, Watches in a thread
// that sees them end.
type Guard = ocl.Guard

// UseDriver makes this process use one OpenCL driver,
// without the OpenCL loader, and guarded: for libraries that the loader itself loads, which
// must not call it. It has to come before anything else of this package, and
// fails with mem.ErrInvalidOperation where another driver was named before.
func UseDriver(library string, g Guard) error {
	if !ocl.UseDriver(library, g) {
		return fmt.Errorf("OpenCL driver %s: another one is in use: %w", library, mem.ErrInvalidOperation)
	}
	return nil
}

// Query is what OpenCL answers for a parameter of clGetDeviceInfo; nil where
// it does not know it.
func (f Found) Query(param uint32) []byte { return f.device.ID.Info(param) }
