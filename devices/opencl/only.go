//go:build cgo

package opencl

// #include <stdlib.h>
// #include "loader.h"
import "C"

import (
	"fmt"
	"unsafe"

	"godwit/mem"
)

// UseDriver makes this process use one OpenCL driver, such as libpocl.so.2,
// without the OpenCL loader: for libraries that the loader itself loads, which
// must not call it. It has to come before anything else of this package, and
// fails with mem.ErrInvalidOperation where another driver was named before.
func UseDriver(library string) error {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	if C.gw_use_driver(name) == 0 {
		return fmt.Errorf("OpenCL driver %s: another one is in use: %w", library, mem.ErrInvalidOperation)
	}
	return nil
}

// Query is what OpenCL answers for a parameter of clGetDeviceInfo; nil where
// it does not know it.
func (f Found) Query(param uint32) []byte { return deviceInfo(rawHandle(f.device), param) }
