//go:build cgo

package opencl

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// What OpenCL itself knows of a kernel, for those who need all of it.

// asked keeps the cl_kernel for the length of a query.
func (k *Kernel) asked(query func() ([]byte, ocl.Status)) ([]byte, error) {
	if err := k.use(); err != nil {
		return nil, err
	}
	defer k.release()
	b, st := query()
	return b, statusError(st, "kernel %s", k.name)
}

// Info, ArgInfo, GroupInfo and SubGroupInfo are OpenCL's queries for the kernel on its device: its own words,
// as bytes of the size they have there.
func (k *Kernel) Info(what uint32) ([]byte, error) {
	return k.asked(func() ([]byte, ocl.Status) { return k.cl.Info(what) })
}

// has fails where there is no argument i.
func (k *Kernel) has(i int) error {
	if i < 0 || i >= len(k.args) {
		return fmt.Errorf("kernel %s has %d arguments: no argument %d: %w", k.name, len(k.args), i, mem.ErrArgIndex)
	}
	return nil
}

// ArgInfo is clGetKernelArgInfo.
func (k *Kernel) ArgInfo(i int, what uint32) ([]byte, error) {
	if err := k.has(i); err != nil { // OpenCL may call it an invalid value
		return nil, err
	}
	return k.asked(func() ([]byte, ocl.Status) { return k.cl.ArgInfo(i, what) })
}

// GroupInfo is clGetKernelWorkGroupInfo.
func (k *Kernel) GroupInfo(what uint32) ([]byte, error) {
	return k.asked(func() ([]byte, ocl.Status) { return k.cl.GroupInfo(k.dev.id, what) })
}

// SubGroupInfo is clGetKernelSubGroupInfo.
func (k *Kernel) SubGroupInfo(what uint32, input []byte) ([]byte, error) {
	return k.asked(func() ([]byte, ocl.Status) { return k.cl.SubGroupInfo(k.dev.id, what, input) })
}

// LocalMem is the local memory in bytes that a work-group takes with arguments of local memory of these sizes, by
// argument; 0 is for others. What OpenCL answers depends on what was set last.
func (k *Kernel) LocalMem(sizes []uint64) (uint64, error) {
	if err := k.use(); err != nil {
		return 0, err
	}
	defer k.release()
	k.dev.launching.Lock()
	defer k.dev.launching.Unlock()
	k.set.Forget()
	for i, n := range sizes {
		if n == 0 {
			continue
		}
		if st := k.cl.SetArg(i, n, nil); st != 0 {
			return 0, statusError(st, "kernel %s, argument %d: %d bytes of local memory", k.name, i, n)
		}
	}
	b, st := k.cl.GroupInfo(k.dev.id, ocl.KernelLocalMemSize)
	if st != 0 || len(b) != 8 {
		return 0, fmt.Errorf("kernel %s: local memory: %w", k.name, cmp.Or(statusError(st, "answer of %d bytes", len(b)), mem.ErrInvalidValue))
	}
	return binary.NativeEndian.Uint64(b), nil
}

// CheckArg fails as OpenCL does where argument i cannot be set to value; nil is size bytes of local memory. Every
// launch sets all arguments anew.
func (k *Kernel) CheckArg(i int, size uint64, value []byte) error {
	if err := k.has(i); err != nil {
		return err
	}
	if value != nil && uint64(len(value)) != size || size == 0 {
		return fmt.Errorf("kernel %s, argument %d: %d bytes of %d: %w", k.name, i, len(value), size, mem.ErrArgSize)
	}
	if err := k.use(); err != nil {
		return err
	}
	defer k.release()
	k.dev.launching.Lock()
	defer k.dev.launching.Unlock()
	k.set.Forget()
	return statusError(k.cl.SetArg(i, size, value), "kernel %s, argument %d: %d bytes", k.name, i, size)
}
