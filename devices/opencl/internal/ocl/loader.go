//go:build cgo

package ocl

// #cgo CFLAGS: -O2
// #cgo linux LDFLAGS: -Wl,--as-needed -ldl -lm
// #include <stdlib.h>
// #include "loader.h"
import "C"

import "unsafe"

// Missing says what keeps OpenCL from being used, or "".
func Missing() string {
	if why := C.gw_load(); why != nil {
		return C.GoString(why)
	}
	return ""
}

// Guard are C functions that are called around every call into OpenCL; see gw_guard in
// loader.h.
type Guard struct{ Enter, Leave, Compiles, Commands, Watches unsafe.Pointer }

// UseDriver has one driver opened without the OpenCL loader, and guarded. It comes before
// any other call, and reports false where another driver was named before.
func UseDriver(library string, g Guard) bool {
	C.gw_set_guard(g.Enter, g.Leave, g.Compiles, g.Commands, g.Watches)
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	return C.gw_use_driver(name) != 0
}

// UseLoader has this OpenCL loader opened in place of the system's. It comes before any
// other call.
func UseLoader(library string) { C.gw_use_loader(C.CString(library)) }

// HasSVM reports whether the loader has the functions of shared virtual memory.
func HasSVM() bool { return C.gw_has_svm() != 0 }

// Serialize lets one thread of the process at a time into OpenCL, or ends that. It
// counts.
func Serialize(on bool) { C.gw_serial(more(on)) }

// KeepApart has calls that make, release and enqueue exclude each other, or ends that. It counts.
func KeepApart(on bool) { C.gw_apart(more(on)) }

// Objects returns how many cl objects this process has created and released so far.
func Objects() (created, released Counts) {
	var c, r [C.GW_KINDS]C.int64_t
	C.gw_counts(&c[0], &r[0])
	return counts(c), counts(r)
}

func counts(c [C.GW_KINDS]C.int64_t) Counts {
	return Counts{int64(c[C.GW_CONTEXT]), int64(c[C.GW_QUEUE]), int64(c[C.GW_MEM]),
		int64(c[C.GW_PROGRAM]), int64(c[C.GW_KERNEL]), int64(c[C.GW_EVENT]), int64(c[C.GW_SAMPLER])}
}

// Fault is a place where tests make OpenCL report errors.
type Fault int

// The places: calls that enqueue, calls that create a buffer, ends of commands, waits for events, calls that ask for
// a callback, that set an argument, and that enqueue the marker behind a run that is refused in its middle.
const (
	FaultEnqueue Fault = iota
	FaultCreate
	FaultEnd
	FaultWait
	FaultListen
	FaultArg
	FaultMarker
)

// Inject makes the nth call from now report a status; nth 0 disarms. It is for tests.
func Inject(at Fault, nth int, st Status) { C.gw_fault(C.int(at), C.int(nth), C.cl_int(st)) }
