//go:build cgo

package svmfault

// #cgo CFLAGS: -O2
// #cgo LDFLAGS: -lpthread
// #include "table.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"godwit/mem"
	"godwit/svm"
)

// goText is where the code of Go is in this process.
var goText = sync.OnceValues(func() (start, end uintptr) {
	pc, _, _, _ := runtime.Caller(0)
	known := func(pc uintptr) bool { return runtime.FuncForPC(pc) != nil }
	// edge finds the last known address in the direction of sign.
	edge := func(sign int) uintptr {
		in, step := pc, uintptr(1)<<12
		at := func() uintptr {
			if sign < 0 {
				return in - step
			}
			return in + step
		}
		for known(at()) {
			in = at()
			step *= 2
		}
		for ; step > 0; step /= 2 {
			if known(at()) {
				in = at()
			}
		}
		return in
	}
	return edge(-1), edge(1) + 1
})

// watch makes the handler explain touches of an arena, until stop. It is a
// svm.Watch. It fails with mem.ErrInvalidOperation where 64 arenas are watched, or
// the system takes no handler.
func watch(t *svm.Table) (stop func(), err error) {
	head, slot := t.Sizes()
	if head != C.sizeof_table_head || slot != C.sizeof_table_slot {
		return nil, fmt.Errorf("watching shared virtual memory: tables have heads of %d bytes and slots of %d, the handler knows %d and %d: %w",
			head, slot, C.sizeof_table_head, C.sizeof_table_slot, mem.ErrInvalidOperation)
	}
	from, to := goText()
	i := C.gw_fault_watch(unsafe.Pointer(unsafe.SliceData(t.Bytes())), C.uintptr_t(from), C.uintptr_t(to))
	switch i {
	case -1:
		return nil, fmt.Errorf("watching shared virtual memory: too many arenas are watched: %w", mem.ErrInvalidOperation)
	case -2:
		return nil, fmt.Errorf("watching shared virtual memory: no handler of SIGSEGV can be installed: %w", mem.ErrInvalidOperation)
	}
	return func() { C.gw_fault_stop(i) }, nil
}
