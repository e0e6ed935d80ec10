//go:build cgo

package ocl

// #cgo noescape gw_release_mems
// #cgo nocallback gw_release_mems
// #cgo noescape gw_sub_buffer
// #cgo nocallback gw_sub_buffer
// #include "calls.h"
import "C"

import "unsafe"

// NewBuffer makes a buffer of size bytes.
func (c Context) NewBuffer(size uint64) (Mem, Status) {
	var st C.cl_int
	m := C.gw_buffer(C.gw_handle(c.ID), C.size_t(size), nil, &st)
	return Mem(m), Status(st)
}

// NewBufferOf makes a buffer that kernels read, with these bytes.
func (c Context) NewBufferOf(b []byte) (Mem, Status) {
	var st C.cl_int
	m := C.gw_buffer(C.gw_handle(c.ID), C.size_t(len(b)), unsafe.Pointer(&b[0]), &st)
	return Mem(m), Status(st)
}

// NewDirectBuffer makes a buffer and the memory of this process's that it is in, which
// goes with it; 0 where there is no room.
func (c Context) NewDirectBuffer(size uint64) (m Mem, memory uintptr) {
	var p unsafe.Pointer
	m = Mem(C.gw_direct_buffer(C.gw_handle(c.ID), C.size_t(size), &p))
	return m, uintptr(p)
}

// IsDirect finds out whether commands of q use such memory where it is, and see at once
// what others write to it.
func (c Context) IsDirect(q Queue) bool {
	return C.gw_memory_is_direct(C.gw_handle(c.ID), C.gw_handle(q)) != 0
}

// SubBuffer makes a sub-buffer of a buffer that is none itself.
func (m Mem) SubBuffer(off, size uint64) (Mem, Status) {
	var st C.cl_int
	s := C.gw_sub_buffer(C.gw_handle(m), C.size_t(off), C.size_t(size), &st)
	return Mem(s), Status(st)
}

// ReleaseMems gives buffers up, in order.
func ReleaseMems(m ...Mem) {
	if len(m) > 0 {
		C.gw_release_mems(list(m), C.int(len(m)))
	}
}

// Touch writes a few bytes at off of a fresh buffer: drivers allocate on first use, and
// here is where running out shows.
func (m Mem) Touch(q Queue, off uint64) Status {
	return Status(C.gw_touch(C.gw_handle(q), C.gw_handle(m), C.size_t(off)))
}

// Pin makes page-locked host memory, mapped by way of q.
func (c Context) Pin(q Queue, size uint64) (addr uint64, m Mem, st Status) {
	var err C.cl_int
	var h C.gw_handle
	p := C.gw_pin(C.gw_handle(c.ID), C.gw_handle(q), C.size_t(size), &h, &err)
	return uint64(uintptr(p)), Mem(h), Status(err)
}

// Unpin gives back what Pin made.
func (m Mem) Unpin(q Queue, addr uint64) {
	C.gw_unpin(C.gw_handle(q), C.gw_handle(m), C.gw_handle(addr))
}
