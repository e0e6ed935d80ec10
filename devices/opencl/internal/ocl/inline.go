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

// Run is what has become of a RunInline.
type Run int

// Where it has not run, it may be submitted elsewhere.
const (
	Ran       Run = C.GW_RAN       // well, or as the status says
	Refused   Run = C.GW_REFUSED   // it has not: as the status says
	Elsewhere Run = C.GW_ELSEWHERE // it has not: this thread has less stack than OpenCL's own, or blocks SIGFPE
)

// RunInline sets the arguments of c, a launch, as Submit does, and runs it in this thread: c's queue
// is of a device that does so, and nobody else's meanwhile. It returns how much of this thread's processor time
// the kernel took.
func (c *Command) RunInline(args []byte, set SetArgs) (time.Duration, Run, Status) {
	var took C.int64_t
	var ran C.int
	st := C.gw_inline_run((*C.gw_cmd)(unsafe.Pointer(c)), unsafe.Pointer(first(args)), set.c, &ran, &took)
	return time.Duration(took), Run(ran), Status(st)
}
