//go:build cgo

package ocl

// #include "calls.h"
import "C"

import (
	"encoding/binary"
	"runtime"
	"strings"
	"unsafe"

	"github.com/jgillich/go-opencl/cl"
)

// Status is OpenCL's answer to a call: 0 for success.
type Status = int32

// The handles. 0 is none.
type (
	DeviceID  uintptr
	ContextID uintptr
	Queue     uintptr
	Mem       uintptr
	Event     uintptr
	Program   uintptr
	Kernel    uintptr
)

// taken reads the cl object out of a go-opencl object, which has it in its first field
// (a test checks each type against the field's name and offset), and takes the object
// over: go-opencl's finalizer is gone.
func taken[T cl.Context | cl.CommandQueue | cl.Program](o *T) uintptr {
	runtime.SetFinalizer(o, nil)
	return *(*uintptr)(unsafe.Pointer(o))
}

// What C calls the handles.
func (d DeviceID) c() C.cl_device_id  { return *(*C.cl_device_id)(unsafe.Pointer(&d)) }
func (c ContextID) c() C.cl_context   { return *(*C.cl_context)(unsafe.Pointer(&c)) }
func (q Queue) c() C.cl_command_queue { return *(*C.cl_command_queue)(unsafe.Pointer(&q)) }
func (m Mem) c() C.cl_mem             { return *(*C.cl_mem)(unsafe.Pointer(&m)) }
func (p Program) c() C.cl_program     { return *(*C.cl_program)(unsafe.Pointer(&p)) }
func (k Kernel) c() C.cl_kernel       { return *(*C.cl_kernel)(unsafe.Pointer(&k)) }
func handle[T, H any](h H) T          { return *(*T)(unsafe.Pointer(&h)) } // and the other way round

// list is what C gets for a slice of handles.
func list[T ~uintptr](s []T) *C.gw_handle { return (*C.gw_handle)(unsafe.Pointer(first(s))) }

// bytes is what C gets for a slice of bytes: as all that crosses here it points to what holds no pointers, so that
// there is nothing for cgo to look through.
func bytes[T, B any](s []B) *T { return (*T)(unsafe.Pointer(first(s))) }

// handleOf is C memory of ours, as a handle.
func handleOf(p unsafe.Pointer) C.gw_handle { return C.gw_handle(uintptr(p)) }

func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// truth is what C gets for a bool.
func truth(b bool) (c C.int) {
	if b {
		c = 1
	}
	return c
}

// more is what C gets to count one more, or one less.
func more(one bool) C.int { return 2*truth(one) - 1 }

// Device is a device of a platform.
type Device struct {
	obj *cl.Device
	ID  DeviceID // two devices with the same are one
}

// Platform is a platform and its devices.
type Platform struct {
	Name    string
	Devices []Device
}

// Platforms lists the platforms there are. One that cannot answer has no devices: one
// vendor's broken library must not hide the others.
func Platforms() ([]Platform, error) {
	found, err := cl.GetPlatforms()
	if err != nil {
		return nil, err
	}
	all := make([]Platform, len(found))
	for i, p := range found {
		all[i].Name = p.Name()
		devs, err := p.GetDevices(cl.DeviceTypeAll)
		if err != nil {
			continue
		}
		for _, d := range devs {
			all[i].Devices = append(all[i].Devices, Device{d, *(*DeviceID)(unsafe.Pointer(d))})
		}
	}
	return all, nil
}

// Info is clGetDeviceInfo; nil where there is no answer.
func (d DeviceID) Info(what uint32) []byte {
	b, _ := ask(func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int {
		return C.clGetDeviceInfo(d.c(), C.cl_device_info(what), n, out, size)
	})
	return b
}

// Text is the answer to Info as text.
func (d DeviceID) Text(what uint32) string { return text(d.Info(what)) }

// Uint is the answer to Info where that is an integer of 4 or 8 bytes; 0 where it is
// unknown.
func (d DeviceID) Uint(what uint32) uint64 {
	switch b := d.Info(what); len(b) {
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

func text(b []byte) string { return strings.TrimSpace(strings.TrimRight(string(b), "\x00")) }

// ask is one of OpenCL's queries: first for the length, then for the bytes.
func ask(get func(out unsafe.Pointer, n C.size_t, size *C.size_t) C.cl_int) ([]byte, Status) {
	var n C.size_t
	if st := get(nil, 0, &n); st != 0 || n == 0 {
		return nil, Status(st)
	}
	b := make([]byte, n)
	if st := get(unsafe.Pointer(&b[0]), n, nil); st != 0 {
		return nil, Status(st)
	}
	return b, 0
}

// Context is a cl_context.
type Context struct {
	obj *cl.Context
	ID  ContextID
}

// NewContext makes a context of at least one device.
func NewContext(devs []Device) (Context, error) {
	objs := make([]*cl.Device, len(devs))
	for i, d := range devs {
		objs[i] = d.obj
	}
	c, err := cl.CreateContext(objs)
	if err != nil {
		return Context{}, err
	}
	return Context{c, ContextID(taken(c))}, nil
}

// Release gives the context up.
func (c Context) Release() { C.clReleaseContext(c.ID.c()) }

// NewQueue makes a command queue.
func (c Context) NewQueue(d Device, outOfOrder, profiling bool) (Queue, error) {
	var props cl.CommandQueueProperty
	if outOfOrder {
		props |= cl.CommandQueueOutOfOrderExecModeEnable
	}
	if profiling {
		props |= cl.CommandQueueProfilingEnable
	}
	q, err := c.obj.CreateCommandQueue(d.obj, props)
	if err != nil {
		return 0, err
	}
	return Queue(taken(q)), nil
}

// Flush submits what was enqueued without waiting; go-opencl's Flush is clFinish.
func (q Queue) Flush() Status { return Status(C.clFlush(q.c())) }

// Finish waits for what was enqueued.
func (q Queue) Finish() Status { return Status(C.gw_finish(C.gw_handle(q))) }

// Release gives the queue up.
func (q Queue) Release() { C.clReleaseCommandQueue(q.c()) }
