//go:build cgo

// Package exit is how libgodwit.so lives in a program that does not know of it, and ends
// with it: a gate before every call into OpenCL, which a handler of exit closes for good
// (gate.c), that handler kept the newest (newest.c), and the program's signal handlers
// kept from OpenCL's compiler (signals.c).
package exit

// #include "exit.h"
import "C"

import (
	"time"
	"unsafe"

	"godwit/devices/opencl"
)

// Guard returns the gate, for opencl.UseDriver. To be called before that, since
// it notes the program's signal handlers.
func Guard() opencl.Guard {
	C.gw_exit_keep_signals()
	return opencl.Guard{Enter: C.gw_exit_enter, Leave: C.gw_exit_leave, Compiles: C.gw_exit_compiles, Commands: C.gw_exit_commands, Watches: C.gw_exit_watches}
}

// Handle has handler, a C function without arguments, called when the process exits,
// before anything that OpenCL's libraries have registered for then. It may be called more
// than once, does its work the first time, and should call CloseGate. With lead, what
// libraries register for exit is led to a function that registers handler again after it;
// without, that is done after each build and after the first launches, which is not always
// in time.
func Handle(handler unsafe.Pointer, lead bool) {
	l := C.int(0)
	if lead {
		l = 1
	}
	C.gw_exit_guard((*[0]byte)(handler), l)
}

// CloseGate keeps every goroutine and thread from calling OpenCL any more, for
// good: who tries waits for ever. It returns when those that are in there have
// left it and the commands that it has been given have ended, or after the time
// given; then it returns false.
func CloseGate(wait time.Duration) bool { return C.gw_exit_close(C.int64_t(wait)) == 0 }
