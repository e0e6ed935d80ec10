//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"unsafe"

	"godwit/devices"
	"godwit/runtime"
)

// sampler is a cl_sampler: a value.
type sampler struct {
	self       uintptr         // immutable
	c          *clContext      // immutable
	is         devices.Sampler // immutable
	properties []uint64        // immutable: as given, with the final zero
}

// destroy implements destroyer.
func (s *sampler) destroy() { release(s.c.self) }

//export gwCreateSampler
func gwCreateSampler(ch uintptr, normalized, addressing, filter uint32) (uintptr, int32) {
	return createSampler(ch, &sampler{is: devices.Sampler{Normalized: normalized != 0, Addressing: addressing, Filter: filter}})
}

//export gwCreateSamplerWithProperties
func gwCreateSamplerWithProperties(ch uintptr, list unsafe.Pointer) (uintptr, int32) {
	s := &sampler{is: devices.Sampler{Normalized: true, Addressing: C.CL_ADDRESS_CLAMP, Filter: C.CL_FILTER_NEAREST}}
	seen := map[uint64]bool{}
	all, st := readProperties(list, func(name, value uint64) int32 {
		if seen[name] {
			return clInvalidValue
		}
		switch seen[name] = true; name {
		case C.CL_SAMPLER_NORMALIZED_COORDS:
			s.is.Normalized = value != 0
		case C.CL_SAMPLER_ADDRESSING_MODE:
			s.is.Addressing = uint32(value)
		case C.CL_SAMPLER_FILTER_MODE:
			s.is.Filter = uint32(value)
		default:
			return clInvalidValue
		}
		return clSuccess
	})
	if st != clSuccess {
		return 0, st
	}
	s.properties = all
	return createSampler(ch, s)
}

func createSampler(ch uintptr, s *sampler) (uintptr, int32) {
	s.c = contexts.get(ch)
	switch is := &s.is; {
	case s.c == nil:
		return 0, clInvalidContext
	case !s.c.images():
		return 0, clInvalidOperation
	case is.Addressing < C.CL_ADDRESS_NONE, is.Addressing > C.CL_ADDRESS_MIRRORED_REPEAT, is.Filter != C.CL_FILTER_NEAREST && is.Filter != C.CL_FILTER_LINEAR,
		!is.Normalized && is.Addressing >= C.CL_ADDRESS_REPEAT:
		return 0, clInvalidValue
	}
	retain(s.c.self)
	return samplers.add(s, &s.self)
}

var samplerFacts = facts[sampler]{
	C.CL_SAMPLER_REFERENCE_COUNT:   func(s *sampler) any { return refs(s.self) },
	C.CL_SAMPLER_CONTEXT:           func(s *sampler) any { return s.c.self },
	C.CL_SAMPLER_NORMALIZED_COORDS: func(s *sampler) any { return s.is.Normalized },
	C.CL_SAMPLER_ADDRESSING_MODE:   func(s *sampler) any { return s.is.Addressing },
	C.CL_SAMPLER_FILTER_MODE:       func(s *sampler) any { return s.is.Filter },
	C.CL_SAMPLER_PROPERTIES:        func(s *sampler) any { return s.properties },
}

//export gwGetSamplerInfo
func gwGetSamplerInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return samplers.info(h, samplerFacts, what, room, value, sizeRet)
}

// setSampler sets an argument that is a sampler.
func (k *kernel) setSampler(i int, size uint64, value unsafe.Pointer) int32 {
	if value == nil {
		return clInvalidSampler
	}
	if size != 8 {
		return clInvalidArgSize
	}
	s := samplers.get(*(*uintptr)(value))
	if s == nil || s.c != k.p.c {
		return clInvalidSampler
	}
	return k.keep(i, runtime.Sampler(s.is))
}
