//go:build cgo

package ocl

// #include "loader.h"
import "C"

import (
	"time"
	"unsafe"
)

func GuardExit(handler unsafe.Pointer) { C.gw_guard((*[0]byte)(handler)) }

func CloseGate(wait time.Duration) bool { return C.gw_close_gate(C.int64_t(wait)) == 0 }
