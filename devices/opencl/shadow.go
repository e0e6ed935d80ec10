//go:build cgo

package opencl

// #include "shadow.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/jgillich/go-opencl/cl"
)

// Oclgrind's check for reads of uninitialised bytes, made exact.
//
// With OCLGRIND_UNINITIALIZED=1 Oclgrind keeps, for each byte of a buffer, whether it
// was ever written. What kernels do it follows byte by byte. What the host does it gets
// wrong; in Oclgrind 21.10, of which the file is src/plugins/Uninitialized.cpp:
//
//   - A write, a fill or a copy, and of a fill each pattern and of a rectangle each row,
//     gives the buffer a new shadow that is as long as what was stored, whatever the
//     offset (lines 1047 and 2403). All that kernels wrote there is uninitialised from
//     then on, and so is what was stored anywhere but at the start; bytes below that
//     length have the state that malloc left.
//   - A copy makes its destination initialised, whatever its source was (Memory.cpp 593).
//   - A new buffer has the shadow of a released one that had its number: nothing is told
//     of either (line 30).
//   - A buffer that kernels first see as a sub-buffer has the state that malloc left
//     (lines 1855 and 2523).
//
// So where that check is on, all bytes get into a buffer by a kernel of ours, which
// copies states with them: from another buffer, or from one that is made of the host's
// bytes, as a whole, for that. And each new buffer is told to be uninitialised, as a
// whole (fresh). Then Oclgrind's findings are true: there is one where a kernel uses a
// byte that nobody wrote, or that Godwit should have brought and has not, and else none.
//
// What the optimiser makes of kernels the check does not always know: it ends those with
// a freeze instruction (line 1805), and crashes on some that sum vectors. So programs are
// built without optimisation then.
//
// That is for whole cl_mems, which is what checkers are given: the shadow of a carved
// block is its slab's.
type shadow struct {
	c *C.gw_shadow
}

// newShadow returns the context's shadow keeper; nil where there is no check. It is
// called in the worker's thread.
func newShadow(context *cl.Context) (*shadow, error) {
	if C.gw_shadow_wanted() == 0 {
		return nil, nil
	}
	var st C.cl_int
	c := C.gw_shadow_new(rawHandle(context), &st)
	if c == nil {
		return nil, fmt.Errorf("kernels for Oclgrind's check for uninitialised reads: %w", statusError(int32(st), "build"))
	}
	return &shadow{c}, nil
}

// free is called in the worker's thread.
func (s *shadow) free() { C.gw_shadow_free(s.c) }

// options are what a program is built with, where options are its own.
func (s *shadow) options(options string) string {
	if s == nil {
		return options
	}
	return options + " -cl-opt-disable"
}

// fresh makes all bytes of a new cl_mem uninitialised. It is called in the worker's
// thread.
func (s *shadow) fresh(queue, m handle) int32 { return int32(C.gw_shadow_fresh(s.c, queue, m)) }

// submit is submit of a command without waits. It is called in the worker's thread.
func (s *shadow) submit(c *nativeCmd, args, host []byte) int32 {
	return int32(C.gw_shadow_submit(s.c, c, unsafe.Pointer(first(args)), unsafe.Pointer(first(host))))
}
