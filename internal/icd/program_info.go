//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"strings"
	"unsafe"

	"godwit/mem"
)

var programFacts = facts[program]{
	C.CL_PROGRAM_REFERENCE_COUNT:            func(p *program) any { return refs(p.self) },
	C.CL_PROGRAM_CONTEXT:                    func(p *program) any { return p.c.self },
	C.CL_PROGRAM_NUM_DEVICES:                func(p *program) any { return uint32(len(p.on)) },
	C.CL_PROGRAM_DEVICES:                    func(p *program) any { return p.devices() },
	C.CL_PROGRAM_SOURCE:                     func(p *program) any { return string(p.sourceOf(ofSource)) },
	C.CL_PROGRAM_IL:                         func(p *program) any { return p.sourceOf(ofIL) },
	C.CL_PROGRAM_NUM_KERNELS:                func(p *program) any { return p.names(func(n []string) any { return uint64(len(n)) }) },
	C.CL_PROGRAM_KERNEL_NAMES:               func(p *program) any { return p.names(func(n []string) any { return strings.Join(n, ";") }) },
	C.CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT: func(*program) any { return false },
	C.CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT: func(*program) any { return false },
}

//export gwGetProgramInfo
func gwGetProgramInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	if p := programs.get(h); p != nil && (what == C.CL_PROGRAM_BINARY_SIZES || what == C.CL_PROGRAM_BINARIES) {
		return p.binaries(what == C.CL_PROGRAM_BINARIES, room, value, sizeRet)
	}
	return programs.info(h, programFacts, what, room, value, sizeRet)
}

// devices are those that the program is for.
func (p *program) devices() (list []*device) {
	for _, t := range p.on {
		list = append(list, t.d)
	}
	return list
}

// sourceOf is what the program was made of, if that is source or intermediate language as asked.
func (p *program) sourceOf(o origin) []byte {
	if p.origin != o {
		return nil
	}
	return p.source
}

// names answers something about the names of the executable's kernels.
func (p *program) names(about func([]string) any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return mem.Status(clInvalidProgramExecutable)
	}
	return about(p.run.Kernels())
}

// binaries answers what there is for each device: sizes, or the bytes, to where
// the program wants them.
func (p *program) binaries(content bool, room uint64, value, sizeRet unsafe.Pointer) int32 {
	n := len(p.on)
	if value != nil && room < uint64(8*n) {
		return clInvalidValue
	}
	sizes := make([]uint64, n)
	for i, t := range p.on {
		native := p.native(t.d)
		if value == nil || native == nil {
			continue
		}
		b, err := native.Binary(p.c.opencl(t.d))
		if err != nil {
			return refusal(err)
		}
		sizes[i] = uint64(len(b))
		if !content {
			continue
		}
		if to := unsafe.Slice((*unsafe.Pointer)(value), n)[i]; to != nil {
			copy(unsafe.Slice((*byte)(to), len(b)), b)
		}
	}
	if content {
		if sizeRet != nil {
			*(*uint64)(sizeRet) = uint64(8 * n)
		}
		return clSuccess
	}
	return reply(sizes, room, value, sizeRet)
}

//export gwGetProgramBuildInfo
func gwGetProgramBuildInfo(h, dh uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	p := programs.get(h)
	if p == nil {
		return clInvalidProgram
	}
	t := p.target(dh)
	if t == nil {
		return clInvalidDevice
	}
	p.mu.Lock()
	s := t.state
	p.mu.Unlock()
	return reply(p.buildInfo(t.d, s, what), room, value, sizeRet)
}

// buildInfo is what there is to say of the build for a device, of which s is the state.
func (p *program) buildInfo(d *device, s buildState, what uint32) any {
	switch what {
	case C.CL_PROGRAM_BUILD_STATUS:
		return s.status
	case C.CL_PROGRAM_BUILD_OPTIONS:
		return s.options
	case C.CL_PROGRAM_BUILD_LOG:
		if native := p.native(d); native != nil && (s.status == buildDone || s.status == buildFailed) {
			b, err := native.BuildInfo(p.c.opencl(d), what)
			if err == nil {
				return b
			}
			complain(err)
		}
		return ""
	case C.CL_PROGRAM_BINARY_TYPE:
		_, typ := p.compiled(d)
		return typ
	case C.CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE:
		if native := p.native(d); native != nil && s.status == buildDone && d.hasGlobals() {
			if b, err := native.BuildInfo(p.c.opencl(d), what); err == nil && len(b) == 8 {
				return b
			}
		}
		return uint64(0)
	}
	return nil
}
