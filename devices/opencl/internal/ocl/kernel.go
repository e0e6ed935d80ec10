//go:build cgo

package ocl

// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"encoding/binary"
	"unsafe"
)

// What OpenCL calls what is asked of kernels.
const (
	KernelNumArgs      = 0x1191
	KernelLocalMemSize = 0x11B2

	argAddress   = 0x1196
	argTypeName  = 0x1198
	argAccess    = 0x1197
	argQualifier = 0x1199
	argName      = 0x119A
)

// NewKernel makes a kernel of a program that was built.
func (p Program) NewKernel(name string) (Kernel, Status) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var st C.cl_int
	k := C.clCreateKernel(p.c(), s, &st)
	return handle[Kernel](k), Status(st)
}

// Release gives the kernel up.
func (k Kernel) Release() { C.clReleaseKernel(k.c()) }

// Info is clGetKernelInfo.
func (k Kernel) Info(what uint32) ([]byte, Status) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.clGetKernelInfo(k.c(), C.cl_kernel_info(what), n, out, size)
	})
}

// ArgInfo is clGetKernelArgInfo.
func (k Kernel) ArgInfo(i int, what uint32) ([]byte, Status) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.clGetKernelArgInfo(k.c(), C.cl_uint(i), C.cl_kernel_arg_info(what), n, out, size)
	})
}

// GroupInfo is clGetKernelWorkGroupInfo.
func (k Kernel) GroupInfo(d DeviceID, what uint32) ([]byte, Status) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.clGetKernelWorkGroupInfo(k.c(), d.c(), C.cl_kernel_work_group_info(what), n, out, size)
	})
}

// SubGroupInfo is clGetKernelSubGroupInfo.
func (k Kernel) SubGroupInfo(d DeviceID, what uint32, in []byte) ([]byte, Status) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.clGetKernelSubGroupInfo(k.c(), d.c(), C.cl_kernel_sub_group_info(what), C.size_t(len(in)), unsafe.Pointer(first(in)), n, out, size)
	})
}

// SetArg sets an argument to size bytes at value; nil is local memory.
func (k Kernel) SetArg(i int, size uint64, value []byte) Status {
	return Status(C.clSetKernelArg(k.c(), C.cl_uint(i), C.size_t(size), unsafe.Pointer(first(value))))
}

// Arg describes an argument: address space, access and type qualifiers as OpenCL has them.
type Arg struct {
	Address   uint32
	Access    uint32 // of images; 0 where it is not known
	Qualifier uint64
	Name      string
	Type      string
}

// Arg asks for argument i. Name and Type may be missing.
func (k Kernel) Arg(i int) (a Arg, st Status) {
	b, st := k.ArgInfo(i, argAddress)
	if st != 0 || len(b) != 4 {
		return a, st
	}
	q, st := k.ArgInfo(i, argQualifier)
	if st != 0 || len(q) != 8 {
		return a, st
	}
	name, _ := k.ArgInfo(i, argName)
	typ, _ := k.ArgInfo(i, argTypeName)
	access, _ := k.ArgInfo(i, argAccess)
	return Arg{binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(append(access, 0, 0, 0, 0)), binary.NativeEndian.Uint64(q), text(name), text(typ)}, 0
}
