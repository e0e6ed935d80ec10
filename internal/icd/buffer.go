//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"math"
	"sync"
	"unsafe"

	"godwit/runtime"
)

// memObject is a cl_mem: a buffer, sub-buffer or image.
type memObject struct {
	self       uintptr         // immutable
	c          *clContext      // immutable
	run        *runtime.Buffer // immutable
	image      *runtime.Image  // immutable: run is its buffer; nil where it is none
	parent     *memObject      // immutable: of a sub-buffer, or an image of a buffer or image
	flags      uint64          // immutable: cl_mem_flags, as they count
	size       uint64          // immutable: bytes
	origin     uint64          // immutable: of a sub-buffer in its parent
	host       uintptr         // immutable: of CL_MEM_USE_HOST_PTR
	properties []uint64        // immutable: as given, with the final zero

	mu     sync.Mutex
	mapped []mapping // protected by mu
}

const (
	accessFlags   = C.CL_MEM_READ_WRITE | C.CL_MEM_WRITE_ONLY | C.CL_MEM_READ_ONLY
	hostPtrFlags  = C.CL_MEM_USE_HOST_PTR | C.CL_MEM_ALLOC_HOST_PTR | C.CL_MEM_COPY_HOST_PTR
	hostFlags     = C.CL_MEM_HOST_WRITE_ONLY | C.CL_MEM_HOST_READ_ONLY | C.CL_MEM_HOST_NO_ACCESS
	allocateFlags = accessFlags | hostPtrFlags | hostFlags
)

//export gwCreateBuffer
func gwCreateBuffer(ch uintptr, flags, size uint64, host unsafe.Pointer) (uintptr, int32) {
	return createBuffer(ch, nil, flags, size, host)
}

//export gwCreateBufferWithProperties
func gwCreateBufferWithProperties(ch uintptr, properties unsafe.Pointer, flags, size uint64, host unsafe.Pointer) (uintptr, int32) {
	var all []uint64
	if properties != nil {
		if *(*uint64)(properties) != 0 { // OpenCL knows none
			return 0, clInvalidProperty
		}
		all = []uint64{0}
	}
	return createBuffer(ch, all, flags, size, host)
}

func createBuffer(ch uintptr, properties []uint64, flags, size uint64, host unsafe.Pointer) (uintptr, int32) {
	c := contexts.get(ch)
	if c == nil {
		return 0, clInvalidContext
	}
	var content []byte
	switch wants := flags&(C.CL_MEM_USE_HOST_PTR|C.CL_MEM_COPY_HOST_PTR) != 0; {
	case flags&^allocateFlags != 0:
		return 0, clInvalidValue
	case size == 0 || c.tooLarge(size, flags):
		return 0, clInvalidBufferSize
	case wants != (host != nil):
		return 0, clInvalidHostPtr
	case wants:
		content = unsafe.Slice((*byte)(host), size)
	}
	run, err := c.run.CreateBuffer(size, runtime.Flags(flags), content)
	if err != nil {
		return 0, refusal(err)
	}
	if flags&accessFlags == 0 {
		flags |= C.CL_MEM_READ_WRITE
	}
	m := &memObject{c: c, run: run, flags: flags, size: size, properties: properties}
	if flags&C.CL_MEM_USE_HOST_PTR != 0 {
		m.host = uintptr(host)
	}
	retain(c.self)
	return mems.add(m, &m.self, size, flags, uint64(c.self), 0, 0)
}

// tooLarge reports whether no buffer is made of so many bytes. OpenCL lets an implementation refuse more than
// CL_DEVICE_MAX_MEM_ALLOC_SIZE of every device. That is done where a device would have to store all of it.
// Where devices store the parts that commands reach, a buffer may be as large as the memory of all devices
// together, and a command is refused that needs more at once than its device takes.
func (c *clContext) tooLarge(size, flags uint64) bool {
	return size > c.globalMemory() || c.run.CheckSize(size, runtime.Flags(flags)) != nil
}

// globalMemory is how many bytes the devices have together.
func (c *clContext) globalMemory() (n uint64) {
	for _, d := range c.devices {
		n += min(d.globalMemory(), math.MaxUint64-n)
	}
	return n
}

//export gwCreateSubBuffer
func gwCreateSubBuffer(h uintptr, flags uint64, typ uint32, info unsafe.Pointer) (uintptr, int32) {
	parent := mems.get(h)
	switch {
	case parent == nil || parent.parent != nil || parent.image != nil:
		return 0, clInvalidMemObject
	case flags&^(accessFlags|hostFlags) != 0 || typ != C.CL_BUFFER_CREATE_TYPE_REGION || info == nil:
		return 0, clInvalidValue
	}
	region := *(*[2]uint64)(info) // origin, size
	run, err := parent.run.Sub(region[0], region[1], runtime.Flags(flags))
	if err != nil {
		return 0, refusal(err)
	}
	m := &memObject{c: parent.c, run: run, parent: parent, origin: region[0], size: region[1]}
	m.flags = uint64(run.View().Flags)
	if parent.host != 0 {
		m.host = parent.host + uintptr(region[0])
	}
	retain(parent.self)
	return mems.add(m, &m.self, m.size, m.flags, uint64(m.c.self), uint64(parent.self), m.origin)
}

// destroy implements destroyer. Commands that use the buffer go on.
func (m *memObject) destroy() {
	_ = m.run.Release() // ours: it cannot fail
	if m.parent != nil {
		release(m.parent.self)
	} else {
		release(m.c.self)
	}
}

//export gwSetMemObjectDestructorCallback
func gwSetMemObjectDestructorCallback(h uintptr, f, user unsafe.Pointer) int32 {
	m := mems.get(h)
	if m == nil {
		return clInvalidMemObject
	}
	if f == nil {
		return clInvalidValue
	}
	return status(m.run.OnRelease(func() { callback{f, user}.object(h) }))
}

// gwSetContentSizeBuffer is clSetContentSizeBufferPoCL; NULL takes the size buffer away.
//
//export gwSetContentSizeBuffer
func gwSetContentSizeBuffer(h, size uintptr) int32 {
	m, s := mems.get(h), mems.get(size)
	switch {
	case m == nil || s == nil && size != 0:
		return clInvalidMemObject
	case s == nil:
		return status(m.run.SetContentSizeBuffer(nil))
	}
	err := m.run.SetContentSizeBuffer(s.run)
	complain(err)
	return status(err)
}

// memFacts are what C does not answer by itself (table.c).
var memFacts = facts[memObject]{
	C.CL_MEM_TYPE: func(m *memObject) any {
		if m.image != nil {
			return m.image.Shape().Type
		}
		return uint32(C.CL_MEM_OBJECT_BUFFER)
	},
	C.CL_MEM_HOST_PTR:         func(m *memObject) any { return m.host },
	C.CL_MEM_MAP_COUNT:        func(m *memObject) any { return uint32(m.run.Maps()) },
	C.CL_MEM_USES_SVM_POINTER: func(m *memObject) any { return m.host != 0 && m.c.isSVM(m.host) },
	C.CL_MEM_PROPERTIES:       func(m *memObject) any { return m.properties },
}

//export gwGetMemObjectInfo
func gwGetMemObjectInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return mems.info(h, memFacts, what, room, value, sizeRet)
}
