//go:build cgo

package ocl

// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"unsafe"
)

// What OpenCL calls what is asked of programs.
const (
	programDevices     = 0x1163
	programBinarySizes = 0x1165
	programBinaries    = 0x1166
	programKernels     = 0x1167 // how many
	programNames       = 0x1168 // of kernels

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
	text, n := C.CString(string(source)), C.size_t(len(source)) // OpenCL takes no nil
	defer C.free(unsafe.Pointer(text))
	var st C.cl_int
	p := C.clCreateProgramWithSource(c.ID.c(), 1, &text, &n, &st)
	return handle[Program](p), Status(st)
}

// NewProgramIL makes a program of intermediate language.
func (c Context) NewProgramIL(il []byte) (Program, Status) {
	var st C.cl_int
	p := C.clCreateProgramWithIL(c.ID.c(), unsafe.Pointer(first(il)), C.size_t(len(il)), &st)
	return handle[Program](p), Status(st)
}

// NewProgramOf makes a program of binaries, one for each device, each with its status.
func (c Context) NewProgramOf(devs []DeviceID, binaries [][]byte) (p Program, each []Status, status Status) {
	at, lens, each := make([]*C.uchar, len(devs)), make([]C.size_t, len(devs)), make([]Status, len(devs))
	var pin runtime.Pinner
	defer pin.Unpin()
	for i, b := range binaries {
		if at[i], lens[i] = (*C.uchar)(first(b)), C.size_t(len(b)); len(b) > 0 {
			pin.Pin(at[i])
		}
	}
	var st C.cl_int
	h := C.clCreateProgramWithBinary(c.ID.c(), C.cl_uint(len(devs)), devices(devs), first(lens), first(at), (*C.cl_int)(first(each)), &st)
	return handle[Program](h), each, Status(st)
}

func devices(devs []DeviceID) *C.cl_device_id { return (*C.cl_device_id)(unsafe.Pointer(first(devs))) }
func programs(list []Program) *C.cl_program   { return (*C.cl_program)(unsafe.Pointer(first(list))) }

// compiles calls f, which may compile, with options.
func compiles(options string, f func(options *C.char) C.cl_int) Status {
	o := C.CString(options)
	defer C.free(unsafe.Pointer(o))
	C.gw_compiles(1)
	defer C.gw_compiles(-1)
	return Status(f(o))
}

// Build compiles and links for some devices; none are all of the context.
func (p Program) Build(devs []DeviceID, options string) Status {
	return compiles(options, func(o *C.char) C.cl_int {
		return C.clBuildProgram(p.c(), C.cl_uint(len(devs)), devices(devs), o, nil, nil)
	})
}

// Compile compiles for some devices, with headers to be included by names.
func (p Program) Compile(devs []DeviceID, options string, headers []Program, names []string) Status {
	texts := make([]*C.char, len(names))
	for i, n := range names {
		texts[i] = C.CString(n)
		defer C.free(unsafe.Pointer(texts[i]))
	}
	return compiles(options, func(o *C.char) C.cl_int {
		return C.clCompileProgram(p.c(), C.cl_uint(len(devs)), devices(devs), o, C.cl_uint(len(headers)), programs(headers), first(texts), nil, nil)
	})
}

// Link makes a program of compiled ones. It may be one that failed to link, for its log.
func (c Context) Link(devs []DeviceID, options string, inputs []Program) (linked Program, st Status) {
	st = compiles(options, func(o *C.char) (st C.cl_int) {
		linked = handle[Program](C.clLinkProgram(c.ID.c(), C.cl_uint(len(devs)), devices(devs), o, C.cl_uint(len(inputs)), programs(inputs), nil, nil, &st))
		return st
	})
	return linked, st
}

// Release gives the program up.
func (p Program) Release() { C.clReleaseProgram(p.c()) }

// Info is clGetProgramInfo.
func (p Program) Info(what uint32) ([]byte, Status) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.clGetProgramInfo(p.c(), C.cl_program_info(what), n, out, size)
	})
}

// BuildInfo is clGetProgramBuildInfo.
func (p Program) BuildInfo(d DeviceID, what uint32) ([]byte, Status) {
	return ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.clGetProgramBuildInfo(p.c(), d.c(), C.cl_program_build_info(what), n, out, size)
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
	b, st := p.Info(programNames)
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
func (p Program) sizes() (devs []DeviceID, sizes []uint64, st Status) {
	d, st := p.Info(programDevices)
	if st != 0 {
		return nil, nil, st
	}
	s, st := p.Info(programBinarySizes)
	for b := range slices.Chunk(d, 8) {
		devs = append(devs, DeviceID(binary.NativeEndian.Uint64(b)))
	}
	for b := range slices.Chunk(s, 8) {
		sizes = append(sizes, binary.NativeEndian.Uint64(b))
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
	all, at := make([][]byte, len(sizes)), make([]*byte, len(sizes)) // not every platform takes nil for the place of one
	var pin runtime.Pinner
	defer pin.Unpin()
	for k, n := range sizes {
		all[k] = make([]byte, n+1)
		at[k] = &all[k][0]
		pin.Pin(at[k])
	}
	st = Status(C.clGetProgramInfo(p.c(), programBinaries, C.size_t(unsafe.Sizeof(at[0]))*C.size_t(len(at)), unsafe.Pointer(&at[0]), nil))
	return all[i][:sizes[i]], st
}
