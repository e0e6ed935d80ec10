//go:build cgo

package ocl

// #cgo noescape gw_inline_run
// #cgo nocallback gw_inline_run
// #include "calls.h"
import "C"

import (
	"time"
	"unsafe"
)

// RunInline sets the arguments of c, a launch, as Submit does, and runs it in this thread: c's queue
// is of a device that does so, and nobody else's meanwhile. It returns how long the kernel took,
// by the clock, or of this thread's processor time, which costs more to ask for. A thread with less stack
// than OpenCL's own does not run it: CL_OUT_OF_RESOURCES.
func (c *Command) RunInline(args []byte, set SetArgs, processor bool) (time.Duration, Status) {
	by := C.int(0)
	if processor {
		by = 1
	}
	var took C.int64_t
	st := C.gw_inline_run((*C.gw_cmd)(unsafe.Pointer(c)), unsafe.Pointer(first(args)), set.c, by, &took)
	return time.Duration(took), Status(st)
}
