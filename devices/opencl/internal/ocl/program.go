//go:build cgo

package ocl

// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"
)

// What OpenCL calls what is asked of programs.
const (
	programDevices     = 0x1163
	programBinarySizes = 0x1165
	programKernels     = 0x1167 // how many
	ProgramNames       = 0x1168 // of kernels

	buildStatus    = 0x1181
	buildLog       = 0x1183
	buildType      = 0x1184
	typeExecutable = 4
	buildError     = -2
	BuildGlobals   = 0x1185
)

// notExecutable is CL_INVALID_PROGRAM_EXECUTABLE.
const notExecutable Status = -45

// NewProgram makes a program of OpenCL C.
func (c Context) NewProgram(source []byte) (Program, Status) {
	source = append(source[:len(source):len(source)], 0) // OpenCL takes no nil
	var st C.cl_int
	p := C.gw_program_source(C.gw_handle(c.ID), (*C.char)(unsafe.Pointer(&source[0])), C.size_t(len(source)-1), &st)
	return Program(p), Status(st)
}

// NewProgramIL makes a program of intermediate language.
func (c Context) NewProgramIL(il []byte) (Program, Status) {
	var st C.cl_int
	p := C.gw_program_il(C.gw_handle(c.ID), unsafe.Pointer(first(il)), C.size_t(len(il)), &st)
	return Program(p), Status(st)
}

// NewProgramOf makes a program of binaries, one for each device, each with its status.
func (c Context) NewProgramOf(devs []DeviceID, binaries [][]byte) (p Program, each []Status, status Status) {
	var all []byte
	lens, each := make([]C.size_t, len(devs)), make([]Status, len(devs))
	for i, b := range binaries {
		lens[i] = C.size_t(len(b))
		all = append(all, b...)
	}
	var st C.cl_int
	h := C.gw_program_binaries(C.gw_handle(c.ID), C.uint32_t(len(devs)), list(devs), first(lens), (*C.uchar)(first(all)), (*C.cl_int)(first(each)), &st)
	return Program(h), each, Status(st)
}

// Build compiles and links for some devices; none are all of the context.
func (p Program) Build(devs []DeviceID, options string) Status {
	o := C.CString(options)
	defer C.free(unsafe.Pointer(o))
	return Status(C.gw_program_build(C.gw_handle(p), C.uint32_t(len(devs)), list(devs), o))
}

// Compile compiles for some devices, with headers to be included by names.
func (p Program) Compile(devs []DeviceID, options string, headers []Program, names []string) Status {
	o := C.CString(options)
	defer C.free(unsafe.Pointer(o))
	var all []byte
	for _, n := range names {
		all = append(append(all, n...), 0)
	}
	return Status(C.gw_program_compile(C.gw_handle(p), C.uint32_t(len(devs)), list(devs), o, C.uint32_t(len(headers)), list(headers), (*C.char)(unsafe.Pointer(first(all)))))
}

// Link makes a program of compiled ones. It may be one that failed to link, for its log.
func (c Context) Link(devs []DeviceID, options string, inputs []Program) (Program, Status) {
	o := C.CString(options)
	defer C.free(unsafe.Pointer(o))
	var st C.cl_int
	p := C.gw_program_link(C.gw_handle(c.ID), C.uint32_t(len(devs)), list(devs), o, C.uint32_t(len(inputs)), list(inputs), &st)
	return Program(p), Status(st)
}

// Release gives the program up.
func (p Program) Release() { C.gw_program_release(C.gw_handle(p)) }

// Info is clGetProgramInfo.
func (p Program) Info(what uint32) ([]byte, Status) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.gw_program_info(C.gw_handle(p), C.uint32_t(what), out, n, size)
	})
}

// BuildInfo is clGetProgramBuildInfo.
func (p Program) BuildInfo(d DeviceID, what uint32) ([]byte, Status) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.gw_build_info(C.gw_handle(p), C.gw_handle(d), C.uint32_t(what), out, n, size)
	})
}

// Log is what the compiler said for a device, and whether it failed there.
func (p Program) Log(d DeviceID) (log string, failed bool) {
	b, _ := p.BuildInfo(d, buildLog)
	st, _ := p.BuildInfo(d, buildStatus)
	return text(b), len(st) == 4 && int32(binary.NativeEndian.Uint32(st)) == buildError
}

// KernelNames are the names of the program's kernels. Where there is none, OpenCL is not
// asked for names, and only an executable has none.
func (p Program) KernelNames() ([]string, Status) {
	if b, st := p.Info(programKernels); st != 0 || len(b) == 8 && binary.NativeEndian.Uint64(b) == 0 {
		if st == 0 && !p.executable() {
			st = notExecutable
		}
		return nil, st
	}
	b, st := p.Info(ProgramNames)
	if st != 0 || len(b) <= 1 {
		return nil, st
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), ";"), 0
}

// executable reports whether p has been built, or linked, for any device.
func (p Program) executable() bool {
	devs, _, _ := p.sizes()
	return slices.ContainsFunc(devs, func(d DeviceID) bool {
		b, st := p.BuildInfo(d, buildType)
		return st == 0 && len(b) == 4 && binary.NativeEndian.Uint32(b) == typeExecutable
	})
}

// sizes are the devices of a program, and the sizes of its binaries in bytes.
func (p Program) sizes() (devs []DeviceID, sizes []C.size_t, st Status) {
	d, st := p.Info(programDevices)
	if st != 0 {
		return nil, nil, st
	}
	s, st := p.Info(programBinarySizes)
	for b := range slices.Chunk(d, 8) {
		devs = append(devs, DeviceID(binary.NativeEndian.Uint64(b)))
	}
	for b := range slices.Chunk(s, 8) {
		sizes = append(sizes, C.size_t(binary.NativeEndian.Uint64(b)))
	}
	return devs, sizes, st
}

// Binary is what was built for d; none where nothing was. Where OpenCL has fewer sizes
// than devices they are those of last, the devices of the last build.
func (p Program) Binary(d DeviceID, last []DeviceID) ([]byte, Status) {
	devs, sizes, st := p.sizes()
	if len(sizes) < len(devs) {
		devs = last
	}
	i := slices.Index(devs, d)
	if st != 0 || i < 0 || i >= len(sizes) || sizes[i] == 0 {
		return nil, st
	}
	b := make([]byte, sizes[i])
	st = Status(C.gw_program_binary(C.gw_handle(p), C.uint32_t(i), C.uint32_t(len(sizes)), first(sizes), unsafe.Pointer(first(b))))
	return b, st
}
