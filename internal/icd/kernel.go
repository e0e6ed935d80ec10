//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"unsafe"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/mem"
	"godwit/runtime"
)

// kernel is a cl_kernel. Its arguments are kept as the runtime takes them, so a
// launch hands over the list as it is.
type kernel struct {
	self uintptr           // immutable
	p    *program          // immutable
	name string            // immutable
	run  *runtime.Kernel   // immutable
	on   []*kernelOn       // immutable: by the context's devices; nil where it is not built
	info []devices.ArgInfo // immutable
	any  *opencl.Kernel    // immutable: of the first device that the program is built for

	mu    sync.Mutex
	args  []runtime.Arg // protected by mu
	state []argState    // protected by mu: of args
	unset int           // protected by mu: how many are not set
	svm   []runtime.Arg // protected by mu: clSetKernelExecInfo
}

// argState is what is known of an argument beside its value.
type argState struct {
	set   bool
	large []byte // a value too long for a runtime.Arg
	size  uint64 // of the value that the real platform took last
}

// kernelOn is a kernel on a device.
type kernelOn struct {
	d      *device
	native *opencl.Kernel

	once     sync.Once
	most     uint64    // set by once: work-items in a work-group
	required [3]uint64 // set by once: reqd_work_group_size; zero where there is none
}

// newKernel makes a kernel of an executable program. p.mu is held.
func (p *program) newKernel(name string) (*kernel, int32) {
	run, err := p.run.Kernel(name)
	if err != nil {
		return nil, refusal(err)
	}
	k := &kernel{p: p, name: name, run: run, info: run.Args(), on: make([]*kernelOn, len(p.c.devices))}
	for i, m := range p.modules {
		if m == nil {
			continue
		}
		found, err := m.Kernel(name)
		if errors.Is(err, mem.ErrKernelName) {
			continue // it is in what was built for another device
		}
		if err != nil {
			return nil, status(err)
		}
		native, ok := found.(*opencl.Kernel)
		if !ok {
			return nil, clInvalidKernel
		}
		k.on[i] = &kernelOn{d: p.c.devices[i], native: native}
		if k.any == nil {
			k.any = native
		}
	}
	n := len(k.info)
	k.args, k.state, k.unset = make([]runtime.Arg, n), make([]argState, n), n
	return k, clSuccess
}

// attach gives a kernel its handle. p.mu is held.
func (p *program) attach(k *kernel) (uintptr, int32) {
	retain(p.self)
	p.kernels.Add(1)
	return kernels.add(k, &k.self)
}

// destroy implements destroyer. Launches go on.
func (k *kernel) destroy() {
	k.p.kernels.Add(-1)
	release(k.p.self)
}

//export gwCreateKernel
func gwCreateKernel(h uintptr, name unsafe.Pointer) (uintptr, int32) {
	p := programs.get(h)
	switch {
	case p == nil:
		return 0, clInvalidProgram
	case name == nil:
		return 0, clInvalidValue
	}
	if !p.lockExecutable() {
		return 0, clInvalidProgramExecutable
	}
	defer p.mu.Unlock()
	k, st := p.newKernel(text(name))
	if st != clSuccess {
		return 0, st
	}
	return p.attach(k)
}

//export gwCreateKernelsInProgram
func gwCreateKernelsInProgram(h uintptr, room uint32, list, num unsafe.Pointer) int32 {
	p := programs.get(h)
	if p == nil {
		return clInvalidProgram
	}
	if !p.lockExecutable() {
		return clInvalidProgramExecutable
	}
	defer p.mu.Unlock()
	names := p.run.Kernels()
	if list != nil && uint64(room) < uint64(len(names)) {
		return clInvalidValue
	}
	if list != nil {
		made := make([]*kernel, len(names))
		for i, name := range names {
			var st int32
			if made[i], st = p.newKernel(name); st != clSuccess {
				return st
			}
		}
		for i, k := range made {
			h, st := p.attach(k)
			if st != clSuccess {
				return st
			}
			unsafe.Slice((*uintptr)(list), len(names))[i] = h
		}
	}
	if num != nil {
		*(*uint32)(num) = uint32(len(names))
	}
	return clSuccess
}

//export gwCloneKernel
func gwCloneKernel(h uintptr) (uintptr, int32) {
	old := kernels.get(h)
	if old == nil {
		return 0, clInvalidKernel
	}
	k := old.copy()
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	return k.p.attach(k)
}

// copy is a kernel with the same arguments, which has no handle.
func (k *kernel) copy() *kernel {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &kernel{p: k.p, name: k.name, run: k.run, on: k.on, info: k.info, any: k.any,
		args: slices.Clone(k.args), state: slices.Clone(k.state), unset: k.unset, svm: slices.Clone(k.svm)}
	for i := range c.state {
		v := &c.state[i].large
		if *v = bytes.Clone(*v); len(*v) > 0 {
			c.args[i] = runtime.Bytes(*v)
		}
	}
	return c
}

// find is the kernel on a device; nil where the program was not built for it.
func (k *kernel) find(d *device) *kernelOn {
	for _, on := range k.on {
		if on != nil && on.d == d {
			return on
		}
	}
	return nil
}

// limits asks once what work-groups the device takes of the kernel.
func (on *kernelOn) limits() {
	on.once.Do(func() {
		if b, err := on.native.GroupInfo(C.CL_KERNEL_WORK_GROUP_SIZE); err == nil && len(b) == 8 {
			on.most = binary.NativeEndian.Uint64(b)
		}
		if b, err := on.native.GroupInfo(C.CL_KERNEL_COMPILE_WORK_GROUP_SIZE); err == nil && len(b) == 24 {
			for i := range on.required {
				on.required[i] = binary.NativeEndian.Uint64(b[8*i:])
			}
		}
	})
}

var kernelFacts = facts[kernel]{
	C.CL_KERNEL_FUNCTION_NAME:   func(k *kernel) any { return k.name },
	C.CL_KERNEL_NUM_ARGS:        func(k *kernel) any { return uint32(len(k.info)) },
	C.CL_KERNEL_REFERENCE_COUNT: func(k *kernel) any { return refs(k.self) },
	C.CL_KERNEL_CONTEXT:         func(k *kernel) any { return k.p.c.self },
	C.CL_KERNEL_PROGRAM:         func(k *kernel) any { return k.p.self },
	C.CL_KERNEL_ATTRIBUTES: func(k *kernel) any {
		if b, err := k.any.Info(C.CL_KERNEL_ATTRIBUTES); err == nil && len(b) > 0 {
			return b
		}
		return ""
	},
}

//export gwGetKernelInfo
func gwGetKernelInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return kernels.info(h, kernelFacts, what, room, value, sizeRet)
}

//export gwGetKernelArgInfo
func gwGetKernelArgInfo(h uintptr, i, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	k := kernels.get(h)
	if k == nil {
		return clInvalidKernel
	}
	if uint64(i) >= uint64(len(k.info)) {
		return clInvalidArgIndex
	}
	return forward(room, value, sizeRet, func() ([]byte, error) { return k.any.ArgInfo(int(i), what) })
}

// forward answers what the real platform does.
func forward(room uint64, value, sizeRet unsafe.Pointer, ask func() ([]byte, error)) int32 {
	b, err := ask()
	if err != nil {
		return status(err)
	}
	return answerBytes(b, room, value, sizeRet)
}

// associated finds a kernel on a device; NULL is the only one.
func associated(h, dh uintptr) (k *kernel, on *kernelOn, st int32) {
	if k = kernels.get(h); k == nil {
		return nil, nil, clInvalidKernel
	}
	if dh != 0 {
		on = k.find(devs.get(dh))
	} else {
		for _, x := range k.on {
			if x == nil || k.p.target(x.d.self) == nil {
				continue
			}
			if on != nil {
				return nil, nil, clInvalidDevice
			}
			on = x
		}
	}
	if on == nil {
		return nil, nil, clInvalidDevice
	}
	return k, on, clSuccess
}

//export gwGetKernelWorkGroupInfo
func gwGetKernelWorkGroupInfo(h, dh uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	k, on, st := associated(h, dh)
	if st != clSuccess {
		return st
	}
	if what == C.CL_KERNEL_LOCAL_MEM_SIZE {
		n, err := k.localMem(on)
		if err != nil {
			return status(err)
		}
		return answer(n, room, value, sizeRet)
	}
	return forward(room, value, sizeRet, func() ([]byte, error) { return on.native.GroupInfo(what) })
}

//export gwGetKernelSubGroupInfo
func gwGetKernelSubGroupInfo(h, dh uintptr, what uint32, inSize uint64, in unsafe.Pointer, room uint64, value, sizeRet unsafe.Pointer) int32 {
	_, on, st := associated(h, dh)
	switch {
	case st != clSuccess:
		return st
	case !on.d.subGroups():
		return clInvalidOperation
	}
	var input []byte
	if in != nil {
		input = bytes.Clone(unsafe.Slice((*byte)(in), inSize))
	}
	return forward(room, value, sizeRet, func() ([]byte, error) { return on.native.SubGroupInfo(what, input) })
}

// subGroups reports whether the device says that it has sub-groups.
func (d *device) subGroups() bool {
	b := d.found.Query(C.CL_DEVICE_MAX_NUM_SUB_GROUPS)
	return len(b) == 4 && binary.NativeEndian.Uint32(b) > 0
}
