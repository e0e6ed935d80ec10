//go:build cgo

package ocl

// #include "calls.h"
import "C"

import "unsafe"

// NewBuffer makes a buffer of size bytes.
func (c Context) NewBuffer(size uint64) (Mem, Status) {
	return c.create(C.CL_MEM_READ_WRITE, size, nil)
}

// NewBufferOf makes a buffer that kernels read, with these bytes.
func (c Context) NewBufferOf(b []byte) (Mem, Status) {
	return c.create(C.CL_MEM_READ_ONLY|C.CL_MEM_COPY_HOST_PTR, uint64(len(b)), unsafe.Pointer(&b[0]))
}

func (c Context) create(flags C.cl_mem_flags, size uint64, bytes unsafe.Pointer) (Mem, Status) {
	var st C.cl_int
	m := C.clCreateBuffer(c.ID.c(), flags, C.size_t(size), bytes, &st)
	return handle[Mem](m), Status(st)
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
	region := C.cl_buffer_region{origin: C.size_t(off), size: C.size_t(size)}
	var st C.cl_int
	s := C.clCreateSubBuffer(m.c(), C.CL_MEM_READ_WRITE, C.CL_BUFFER_CREATE_TYPE_REGION, unsafe.Pointer(&region), &st)
	return handle[Mem](s), Status(st)
}

// ReleaseMems gives buffers up, in order.
func ReleaseMems(mems ...Mem) {
	for _, m := range mems {
		C.clReleaseMemObject(m.c())
	}
}

// Touch writes a few bytes at off of a fresh buffer: drivers allocate on first use, and
// here is where running out shows.
func (m Mem) Touch(q Queue, off uint64) Status {
	c := Command{Queue: q, Op: Fill, Dst: m, DstOff: off, Size: 4, Pattern: 4}
	st := c.Submit(make([]byte, 4), nil, nil, Tag{})
	if st == 0 {
		ReleaseEvents([]Event{c.Event})
		st = q.Flush()
	}
	return st
}

// Pin makes page-locked host memory, mapped by way of q; 0 where there is none.
func (c Context) Pin(q Queue, size uint64) (addr uint64, m Mem, status Status) {
	m, status = c.create(C.CL_MEM_READ_WRITE|C.CL_MEM_ALLOC_HOST_PTR, size, nil)
	if m == 0 {
		return 0, 0, status
	}
	var st C.cl_int
	p := C.clEnqueueMapBuffer(q.c(), m.c(), C.CL_TRUE, C.CL_MAP_READ|C.CL_MAP_WRITE, 0, C.size_t(size), 0, nil, nil, &st)
	if p == nil || st != 0 {
		ReleaseMems(m)
		return 0, 0, Status(st)
	}
	return uint64(uintptr(p)), m, 0
}

// Unpin gives back what Pin made.
func (m Mem) Unpin(q Queue, addr uint64) {
	if C.clEnqueueUnmapMemObject(q.c(), m.c(), handle[unsafe.Pointer](addr), 0, nil, nil) == 0 {
		q.Finish() // of a lost device: nothing is left to finish
	}
	ReleaseMems(m)
}
