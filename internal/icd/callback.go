//go:build cgo

package icd

// #include "callback.h"
import "C"

import "unsafe"

// callback is a function of the program's with its argument.
type callback struct{ f, user unsafe.Pointer }

// object calls it for a context, buffer or program.
func (c callback) object(h uintptr) { C.gw_call_object(c.f, C.uintptr_t(h), c.user) }

// event calls it for an event.
func (c callback) event(h uintptr, status int32) {
	C.gw_call_event(c.f, C.uintptr_t(h), C.int32_t(status), c.user)
}
