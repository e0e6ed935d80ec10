//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/runtime"
)

// origin is what a program was made of.
type origin uint8

const (
	ofSource origin = iota
	ofBinary
	ofIL
	ofLink
)

// program is a cl_program. What is compiled are cl_programs of the real platform
// (opencl.NativeProgram): one for all devices, of which several may be one real
// device, as long as what is built for one is not to differ from what is built for
// another (variants.go). What was built for each device is a module, and those together
// the runtime's program.
//
// Life of a build: begin, which refuses where another goes on or kernels are
// attached, and forgets the old executable; the compiler, without locks, perhaps
// on a goroutine; finish, which makes modules of what succeeded.
type program struct {
	self   uintptr    // immutable
	c      *clContext // immutable
	on     []*target  // immutable: the devices that the program is for
	origin origin     // immutable
	source []byte     // immutable: or intermediate language

	mu      sync.Mutex
	all     []*opencl.NativeProgram // protected by mu: as they were made, perhaps nil; closed with the program
	busy    chan struct{}           // protected by mu: closed when the build that goes on has ended; nil where none does
	kernels atomic.Int32            // attached; more are under mu only
	run     *runtime.Program        // protected by mu; nil where nothing is executable
	modules []devices.Module        // protected by mu: those of run, by the context's devices; nil where it is not built
}

// target is a device that a program is for, and what there is for it.
type target struct {
	d      *device               // immutable
	code   []byte                // immutable: its binary
	native *opencl.NativeProgram // protected by program.mu: what it is built in; nil until linking has ended, and where that made none
	state  buildState            // protected by program.mu
	err    error                 // of the build that goes on, whose it is
}

// buildState is what became of a device's last build.
type buildState struct {
	status  int32  // cl_build_status
	options string // as the program gave them
	typ     uint32 // cl_program_binary_type
}

const (
	clCompileProgramFailure      int32 = -15
	clLinkProgramFailure         int32 = -17
	clInvalidSampler             int32 = -41
	clInvalidProgram             int32 = -44
	clInvalidProgramExecutable   int32 = -45
	clInvalidKernel              int32 = -48
	clInvalidArgIndex            int32 = -49
	clInvalidArgValue            int32 = -50
	clInvalidArgSize             int32 = -51
	clInvalidKernelArgs          int32 = -52
	clInvalidWorkDimension       int32 = -53
	clInvalidWorkGroupSize       int32 = -54
	clInvalidGlobalWorkSize      int32 = -63
	buildNone, buildDone               = C.CL_BUILD_NONE, C.CL_BUILD_SUCCESS
	buildFailed, buildInProgress       = C.CL_BUILD_ERROR, C.CL_BUILD_IN_PROGRESS
)

// newProgram is a program for some devices, which has no handle yet.
func newProgram(c *clContext, on []*device, origin origin, source []byte) *program {
	p := &program{c: c, origin: origin, source: source}
	for _, d := range on {
		p.on = append(p.on, &target{d: d, state: buildState{status: buildNone}})
	}
	return p
}

// add gives a program its handle.
func (p *program) add() (uintptr, int32) {
	retain(p.c.self)
	return programs.add(p, &p.self)
}

// destroy implements destroyer. Kernels keep their program, so none is left;
// commands in flight keep what they need.
func (p *program) destroy() {
	if p.run != nil {
		_ = p.run.Close() // it is open
	}
	p.closeAll()
	release(p.c.self)
}

// closeAll closes what was made for a program that nobody uses.
func (p *program) closeAll() {
	for _, native := range p.all {
		if native != nil {
			_ = native.Close() // it is open
		}
	}
}

// opencl is a device of a context as its driver has it.
func (c *clContext) opencl(d *device) *opencl.Device {
	dev, _ := c.real(d).(*opencl.Device)
	return dev
}

func (p *program) opencls(on []*target) []*opencl.Device {
	out := make([]*opencl.Device, len(on))
	for i, t := range on {
		out[i] = p.c.opencl(t.d)
	}
	return out
}

//export gwCreateProgramWithSource
func gwCreateProgramWithSource(ch uintptr, n uint32, strs, lengths unsafe.Pointer) (uintptr, int32) {
	c := contexts.get(ch)
	if c == nil {
		return 0, clInvalidContext
	}
	if n == 0 || strs == nil {
		return 0, clInvalidValue
	}
	var source []byte
	for i, s := range unsafe.Slice((*unsafe.Pointer)(strs), n) {
		if s == nil {
			return 0, clInvalidValue
		}
		var length uint64 // 0: up to the final zero
		if lengths != nil {
			length = unsafe.Slice((*uint64)(lengths), n)[i]
		}
		if length == 0 {
			source = append(source, C.GoString((*C.char)(s))...)
		} else {
			source = append(source, unsafe.Slice((*byte)(s), length)...)
		}
	}
	return newProgram(c, c.devices, ofSource, source).create()
}

// create makes a program of source or intermediate language.
func (p *program) create() (uintptr, int32) {
	if err := p.variant(p.on); err != nil {
		return 0, refusal(err)
	}
	return p.add()
}

//export gwCreateProgramWithIL
func gwCreateProgramWithIL(ch uintptr, il unsafe.Pointer, length uint64) (uintptr, int32) {
	c := contexts.get(ch)
	switch {
	case c == nil:
		return 0, clInvalidContext
	case !c.takesIL():
		return 0, clInvalidOperation
	case il == nil || length == 0:
		return 0, clInvalidValue
	}
	return newProgram(c, c.devices, ofIL, bytes.Clone(unsafe.Slice((*byte)(il), length))).create()
}

// takesIL reports whether some real device takes intermediate language.
func (c *clContext) takesIL() bool {
	return slices.ContainsFunc(c.devices, func(d *device) bool { return d.il() != "" })
}

// il is the intermediate languages that the real device takes.
func (d *device) il() string {
	return strings.Trim(string(d.found.Query(C.CL_DEVICE_IL_VERSION)), "\x00 ")
}

//export gwCreateProgramWithBinary
func gwCreateProgramWithBinary(ch uintptr, n uint32, list, lengths, binaries, each unsafe.Pointer) (uintptr, int32) {
	c := contexts.get(ch)
	if c == nil {
		return 0, clInvalidContext
	}
	if n == 0 || list == nil || lengths == nil || binaries == nil {
		return 0, clInvalidValue
	}
	on, st := c.chosen(n, list)
	if st != clSuccess {
		return 0, st
	}
	statuses := make([]int32, n)
	if each != nil {
		statuses = unsafe.Slice((*int32)(each), n)
	}
	code, sizes, at := make([][]byte, n), unsafe.Slice((*uint64)(lengths), n), unsafe.Slice((*unsafe.Pointer)(binaries), n)
	for i := range code {
		statuses[i] = clSuccess
		if sizes[i] == 0 || at[i] == nil {
			statuses[i], st = clInvalidValue, clInvalidValue
			continue
		}
		code[i] = bytes.Clone(unsafe.Slice((*byte)(at[i]), sizes[i]))
	}
	if st != clSuccess {
		return 0, st
	}
	for i, d := range on {
		if slices.Contains(on[:i], d) {
			return 0, clInvalidDevice
		}
	}
	p := newProgram(c, on, ofBinary, nil)
	for i, t := range p.on {
		t.code = code[i]
	}
	if err := p.fromBinaries(statuses); err != nil {
		return 0, refusal(err)
	}
	return p.add()
}

// chosen reads a list of the context's devices.
func (c *clContext) chosen(n uint32, list unsafe.Pointer) ([]*device, int32) {
	on := make([]*device, n)
	for i, h := range unsafe.Slice((*uintptr)(list), n) {
		if on[i] = c.device(h); on[i] == nil {
			return nil, clInvalidDevice
		}
	}
	return on, clSuccess
}

// gwCreateProgramWithBuiltInKernels: devices have none, and say so.
//
//export gwCreateProgramWithBuiltInKernels
func gwCreateProgramWithBuiltInKernels(ch uintptr, n uint32, list, names unsafe.Pointer) (uintptr, int32) {
	c := contexts.get(ch)
	if c == nil {
		return 0, clInvalidContext
	}
	if n > 0 && list != nil && names != nil {
		if _, st := c.chosen(n, list); st != clSuccess {
			return 0, st
		}
	}
	return 0, clInvalidValue
}

// gwSetProgramReleaseCallback is for programs with destructors of variables at
// program scope, which there are not.
//
//export gwSetProgramReleaseCallback
func gwSetProgramReleaseCallback(h uintptr, f, user unsafe.Pointer) int32 {
	if programs.get(h) == nil {
		return clInvalidProgram
	}
	if f == nil {
		return clInvalidValue
	}
	return clInvalidOperation
}
