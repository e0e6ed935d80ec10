//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"slices"
	"strings"
	"unsafe"
)

//export gwGetProgramInfo
func gwGetProgramInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	p := programs.get(h)
	if p == nil {
		return clInvalidProgram
	}
	switch what {
	case C.CL_PROGRAM_REFERENCE_COUNT:
		return answer(refs(h), room, value, sizeRet)
	case C.CL_PROGRAM_CONTEXT:
		return answer(p.c.self, room, value, sizeRet)
	case C.CL_PROGRAM_NUM_DEVICES:
		return answer(uint32(len(p.devices)), room, value, sizeRet)
	case C.CL_PROGRAM_DEVICES:
		return answerDevices(p.devices, room, value, sizeRet)
	case C.CL_PROGRAM_SOURCE:
		if p.origin != ofSource {
			return answerText("", room, value, sizeRet)
		}
		return answerText(string(p.source), room, value, sizeRet)
	case C.CL_PROGRAM_IL:
		if p.origin != ofIL {
			return answerBytes(nil, room, value, sizeRet)
		}
		return answerBytes(p.source, room, value, sizeRet)
	case C.CL_PROGRAM_BINARY_SIZES, C.CL_PROGRAM_BINARIES:
		return p.binaries(what == C.CL_PROGRAM_BINARIES, room, value, sizeRet)
	case C.CL_PROGRAM_NUM_KERNELS, C.CL_PROGRAM_KERNEL_NAMES:
		names, st := p.names()
		switch {
		case st != clSuccess:
			return st
		case what == C.CL_PROGRAM_NUM_KERNELS:
			return answer(uint64(len(names)), room, value, sizeRet)
		}
		return answerText(strings.Join(names, ";"), room, value, sizeRet)
	case C.CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT, C.CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT:
		return answerBool(false, room, value, sizeRet)
	}
	return clInvalidValue
}

// names lists the kernels of the executable.
func (p *program) names() ([]string, int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil, clInvalidProgramExecutable
	}
	return p.run.Kernels(), clSuccess
}

// binaries answers what there is for each device: sizes, or the bytes, to where
// the program wants them.
func (p *program) binaries(content bool, room uint64, value, sizeRet unsafe.Pointer) int32 {
	n := len(p.devices)
	if value != nil && room < uint64(8*n) {
		return clInvalidValue
	}
	sizes := make([]uint64, n)
	for i, d := range p.devices {
		native := p.native(d)
		if value == nil || native == nil {
			continue
		}
		b, err := native.Binary(p.c.opencl(d))
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
	return answerList(sizes, room, value, sizeRet)
}

//export gwGetProgramBuildInfo
func gwGetProgramBuildInfo(h, dh uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	p := programs.get(h)
	if p == nil {
		return clInvalidProgram
	}
	d := p.device(dh)
	if d == nil {
		return clInvalidDevice
	}
	p.mu.Lock()
	s := p.states[slices.Index(p.devices, d)]
	p.mu.Unlock()
	switch what {
	case C.CL_PROGRAM_BUILD_STATUS:
		return answer(s.status, room, value, sizeRet)
	case C.CL_PROGRAM_BUILD_OPTIONS:
		return answerText(s.options, room, value, sizeRet)
	case C.CL_PROGRAM_BUILD_LOG:
		if native := p.native(d); native != nil && (s.status == buildDone || s.status == buildFailed) {
			b, err := native.BuildInfo(p.c.opencl(d), what)
			if err == nil {
				return answerBytes(b, room, value, sizeRet)
			}
			complain(err)
		}
		return answerText("", room, value, sizeRet)
	case C.CL_PROGRAM_BINARY_TYPE:
		_, typ := p.compiled(d)
		return answer(typ, room, value, sizeRet)
	case C.CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE:
		if native := p.native(d); native != nil && s.status == buildDone && d.hasGlobals() {
			if b, err := native.BuildInfo(p.c.opencl(d), what); err == nil && len(b) == 8 {
				return answerBytes(b, room, value, sizeRet)
			}
		}
		return answer(uint64(0), room, value, sizeRet)
	}
	return clInvalidValue
}
