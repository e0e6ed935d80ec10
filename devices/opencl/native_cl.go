//go:build cgo

package opencl

// #include <stdlib.h>
// #include "native.h"
import "C"

import (
	"encoding/binary"
	"unsafe"
)

// What OpenCL calls what this package asks programs and kernels.
const (
	programDevices     = 0x1163
	programBinarySizes = 0x1165
	programKernels     = 0x1167 // how many
	programNames       = 0x1168 // of kernels

	buildType      = 0x1184
	typeExecutable = 4
	buildGlobals   = 0x1185

	kernelNumArgs      = 0x1191
	kernelLocalMemSize = 0x11B2
)

// ask is one of OpenCL's queries: first for the length, then for the bytes.
func ask(get func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int) ([]byte, int32) {
	var n C.size_t
	if st := get(nil, 0, &n); st != 0 || n == 0 {
		return nil, int32(st)
	}
	b := make([]byte, n)
	st := get(unsafe.Pointer(&b[0]), n, nil)
	if st != 0 {
		return nil, int32(st)
	}
	return b, 0
}

func sourceProgram(context handle, source []byte) (handle, int32) {
	source = append(source[:len(source):len(source)], 0) // OpenCL takes no nil
	var st C.cl_int
	h := C.gw_program_source(context, (*C.char)(unsafe.Pointer(&source[0])), C.size_t(len(source)-1), &st)
	return h, int32(st)
}

func ilProgram(context handle, il []byte) (handle, int32) {
	var st C.cl_int
	h := C.gw_program_il(context, unsafe.Pointer(first(il)), C.size_t(len(il)), &st)
	return h, int32(st)
}

func binaryProgram(context handle, devs []handle, binaries [][]byte) (handle, []int32, int32) {
	var all []byte
	lens, each := make([]C.size_t, len(devs)), make([]int32, len(devs))
	for i, b := range binaries {
		lens[i] = C.size_t(len(b))
		all = append(all, b...)
	}
	var st C.cl_int
	h := C.gw_program_binaries(context, C.uint32_t(len(devs)), first(devs), first(lens), (*C.uchar)(first(all)), (*C.cl_int)(first(each)), &st)
	return h, each, int32(st)
}

func buildProgram(p handle, devs []handle, options string) int32 {
	o := C.CString(options)
	defer C.free(unsafe.Pointer(o))
	return int32(C.gw_program_build(p, C.uint32_t(len(devs)), first(devs), o))
}

func compileProgram(p handle, devs []handle, options string, headers []handle, names []string) int32 {
	o := C.CString(options)
	defer C.free(unsafe.Pointer(o))
	var all []byte
	for _, n := range names {
		all = append(append(all, n...), 0)
	}
	return int32(C.gw_program_compile(p, C.uint32_t(len(devs)), first(devs), o, C.uint32_t(len(headers)), first(headers), (*C.char)(unsafe.Pointer(first(all)))))
}

func linkProgram(context handle, devs []handle, options string, inputs []handle) (handle, int32) {
	o := C.CString(options)
	defer C.free(unsafe.Pointer(o))
	var st C.cl_int
	h := C.gw_program_link(context, C.uint32_t(len(devs)), first(devs), o, C.uint32_t(len(inputs)), first(inputs), &st)
	return h, int32(st)
}

// programSizes are the devices of a program, and the sizes of its binaries: PoCL 3.1
// has fewer of these where it was built for some devices only.
func programSizes(p handle) (devs []handle, sizes []C.size_t, st int32) {
	d, st := programInfo(p, programDevices)
	if st != 0 {
		return nil, nil, st
	}
	s, st := programInfo(p, programBinarySizes)
	for ; len(d) >= 8; d = d[8:] {
		devs = append(devs, handle(binary.NativeEndian.Uint64(d)))
	}
	for ; len(s) >= 8; s = s[8:] {
		sizes = append(sizes, C.size_t(binary.NativeEndian.Uint64(s)))
	}
	return devs, sizes, st
}

func releaseProgram(p handle) { C.gw_program_release(p) }

func programInfo(p handle, what uint32) ([]byte, int32) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.gw_program_info(p, C.uint32_t(what), out, n, size)
	})
}

// programBinary is the binary for device i, with the sizes for all devices.
func programBinary(p handle, i int, sizes []C.size_t) ([]byte, int32) {
	b := make([]byte, sizes[i])
	st := C.gw_program_binary(p, C.uint32_t(i), C.uint32_t(len(sizes)), first(sizes), unsafe.Pointer(first(b)))
	return b, int32(st)
}

func buildInfo(p, d handle, what uint32) ([]byte, int32) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.gw_build_info(p, d, C.uint32_t(what), out, n, size)
	})
}

func newKernel(p handle, name string) (handle, int32) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var st C.cl_int
	h := C.gw_kernel_new(p, s, &st)
	return h, int32(st)
}

func releaseKernel(k handle) { C.gw_kernel_release(k) }

func kernelInfo(k handle, what uint32) ([]byte, int32) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.gw_kernel_info(k, C.uint32_t(what), out, n, size)
	})
}

func kernelArgInfo(k handle, i int, what uint32) ([]byte, int32) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.gw_kernel_arg_info(k, C.uint32_t(i), C.uint32_t(what), out, n, size)
	})
}

func kernelGroupInfo(k, d handle, what uint32) ([]byte, int32) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.gw_kernel_group_info(k, d, C.uint32_t(what), out, n, size)
	})
}

func kernelSubGroupInfo(k, d handle, what uint32, in []byte) ([]byte, int32) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.gw_kernel_subgroup_info(k, d, C.uint32_t(what), C.size_t(len(in)), unsafe.Pointer(first(in)), out, n, size)
	})
}

// setArg sets an argument to size bytes at value; nil is local memory.
func setArg(k handle, i int, size uint64, value []byte) int32 {
	return int32(C.gw_set_arg(k, C.uint32_t(i), C.size_t(size), unsafe.Pointer(first(value))))
}

// native64 and native32 read words of such answers.
func native64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

func native32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
