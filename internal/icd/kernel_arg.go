//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"strings"
	"unsafe"

	"godwit/devices"
	"godwit/runtime"
)

// Arguments of kernels. What is set is checked and kept at once, so that a launch
// has nothing left to convert.

// inline is how many bytes of a value a runtime.Arg holds by itself.
const inline = 16

//export gwSetKernelArg
func gwSetKernelArg(h uintptr, i uint32, size uint64, value unsafe.Pointer) int32 {
	k := kernels.get(h)
	if k == nil {
		return clInvalidKernel
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set(i, size, value)
}

// set is clSetKernelArg. mu is held, as in all that follow.
func (k *kernel) set(i uint32, size uint64, value unsafe.Pointer) int32 {
	if uint64(i) >= uint64(len(k.info)) {
		return clInvalidArgIndex
	}
	switch k.info[i].Kind {
	case devices.ArgBuffer:
		return k.setBuffer(int(i), size, value)
	case devices.ArgLocal:
		return k.setLocal(int(i), size, value)
	case devices.ArgUnknown:
		return k.setUnknown(int(i), size, value)
	case devices.ArgSampler:
		return k.setSampler(int(i), size, value)
	case devices.ArgOpaque:
		return clInvalidMemObject
	}
	return k.setValue(int(i), size, value)
}

// keep makes a the argument.
func (k *kernel) keep(i int, a runtime.Arg) int32 {
	k.args[i] = a
	s := &k.state[i]
	s.large = s.large[:0]
	if !s.set {
		s.set = true
		k.unset--
	}
	return clSuccess
}

func (k *kernel) setBuffer(i int, size uint64, value unsafe.Pointer) int32 {
	if image := k.info[i].Image; value == nil || *(*uintptr)(value) == 0 {
		if image {
			return clInvalidMemObject
		}
		if size != 8 {
			return clInvalidArgSize
		}
		return k.keep(i, runtime.Buf(nil))
	}
	if size != 8 {
		return clInvalidArgSize
	}
	m := mems.get(*(*uintptr)(value))
	switch {
	case m == nil || m.c != k.p.c || (m.image != nil) != k.info[i].Image:
		return clInvalidMemObject
	case m.image != nil:
		return k.setImage(i, m)
	}
	return k.keep(i, runtime.Buf(m.run))
}

func (k *kernel) setLocal(i int, size uint64, value unsafe.Pointer) int32 {
	switch {
	case value != nil:
		return clInvalidArgValue
	case size == 0:
		return clInvalidArgSize
	}
	return k.keep(i, runtime.Local(size))
}

func (k *kernel) setValue(i int, size uint64, value unsafe.Pointer) int32 {
	switch want := k.info[i].Size; {
	case value == nil:
		return clInvalidArgValue
	case want != 0 && 4*size == 3*want && strings.HasSuffix(k.info[i].Type, "3"):
		// The three elements of a vector that has room for four: programs leave the fourth out.
		var four [4 * 8]byte
		copy(four[:], unsafe.Slice((*byte)(value), size))
		return k.keepValue(i, four[:want])
	case size == 0 || want != 0 && want != size:
		return clInvalidArgSize
	case want == 0 && k.state[i].size != size: // a struct: only the real platform knows
		if err := k.any.CheckArg(i, size, unsafe.Slice((*byte)(value), size)); err != nil {
			return refusal(err)
		}
		k.state[i].size = size
	}
	return k.keepValue(i, unsafe.Slice((*byte)(value), size))
}

// keepValue keeps a copy of b.
func (k *kernel) keepValue(i int, b []byte) int32 {
	if len(b) <= inline {
		return k.keep(i, runtime.Bytes(b))
	}
	b = append(k.state[i].large[:0], b...)
	st := k.keep(i, runtime.Bytes(b))
	k.state[i].large = b
	return st
}

// setUnknown is for kernels that do not say what their arguments are, as those
// out of binaries may. Eight bytes that are a handle of a memory object's or sampler's are that
// object; eight zeros are a null pointer as well as a number, to the real
// platform too.
func (k *kernel) setUnknown(i int, size uint64, value unsafe.Pointer) int32 {
	if size == 0 {
		return clInvalidArgSize
	}
	if value != nil && size == 8 {
		if m := mems.get(*(*uintptr)(value)); m != nil {
			if m.c != k.p.c {
				return clInvalidMemObject
			}
			if m.image != nil {
				return k.setImage(i, m)
			}
			return k.keep(i, runtime.Buf(m.run))
		}
		if s := samplers.get(*(*uintptr)(value)); s != nil {
			return k.setSampler(i, size, value)
		}
		return k.keepValue(i, unsafe.Slice((*byte)(value), size))
	}
	var b []byte
	if value != nil {
		b = unsafe.Slice((*byte)(value), size)
	}
	if k.state[i].size != size || value == nil {
		if err := k.any.CheckArg(i, size, b); err != nil {
			return refusal(err)
		}
	}
	if value == nil {
		return k.keep(i, runtime.Local(size))
	}
	k.state[i].size = size
	return k.keepValue(i, b)
}

// localMem is the local memory that a work-group takes: the kernel's own, and what
// arguments are set to. The real kernel is other kernel objects' too, and remembers
// what they have set: an argument that is not set counts there for a byte.
func (k *kernel) localMem(on *kernelOn) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sizes, unset := make([]uint64, len(k.args)), uint64(0)
	for i := range k.args {
		switch {
		case k.state[i].set:
			sizes[i] = k.args[i].LocalSize()
		case k.info[i].Kind == devices.ArgLocal:
			sizes[i] = 1
			unset++
		}
	}
	n, err := on.native.LocalMem(sizes)
	return n - min(n, unset), err
}

// hasSVM reports whether some device of the context has shared virtual memory.
func (c *clContext) hasSVM() bool {
	for _, d := range c.devices {
		if d.svm() != 0 {
			return true
		}
	}
	return false
}

//export gwSetKernelArgSVMPointer
func gwSetKernelArgSVMPointer(h uintptr, i uint32, p uintptr) int32 {
	k := kernels.get(h)
	if k == nil {
		return clInvalidKernel
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.setPointer(i, p)
}

// setPointer is clSetKernelArgSVMPointer.
func (k *kernel) setPointer(i uint32, p uintptr) int32 {
	switch {
	case !k.p.c.hasSVM():
		return clInvalidOperation
	case uint64(i) >= uint64(len(k.info)):
		return clInvalidArgIndex
	case k.info[i].Kind != devices.ArgBuffer && k.info[i].Kind != devices.ArgUnknown, k.info[i].Image:
		return clInvalidArgValue
	}
	return k.keep(int(i), runtime.SVM(runtime.Pointer(p)))
}

//export gwSetKernelExecInfo
func gwSetKernelExecInfo(h uintptr, what uint32, size uint64, value unsafe.Pointer) int32 {
	k := kernels.get(h)
	if k == nil {
		return clInvalidKernel
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.setExecInfo(what, size, value)
}

// setExecInfo is clSetKernelExecInfo.
func (k *kernel) setExecInfo(what uint32, size uint64, value unsafe.Pointer) int32 {
	switch {
	case !k.p.c.hasSVM():
		return clInvalidOperation
	case value == nil && size > 0 || value == nil && what != C.CL_KERNEL_EXEC_INFO_SVM_PTRS:
		return clInvalidValue
	}
	switch what {
	case C.CL_KERNEL_EXEC_INFO_SVM_PTRS:
		if size%8 != 0 {
			return clInvalidValue
		}
		k.svm = k.svm[:0]
		if size > 0 {
			for _, p := range unsafe.Slice((*uintptr)(value), size/8) {
				if p != 0 {
					k.svm = append(k.svm, runtime.SVM(runtime.Pointer(p)))
				}
			}
		}
		return clSuccess
	case C.CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM:
		switch {
		case size != 4:
			return clInvalidValue
		case *(*uint32)(value) != 0: // no device has fine-grained system memory
			return clInvalidOperation
		}
		return clSuccess
	}
	return clInvalidValue
}
