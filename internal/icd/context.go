//go:build cgo

package icd

// #include "object.h"
// #include "callback.h"
import "C"

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"godwit/devices"
	"godwit/internal/svmfault"
	"godwit/mem"
	"godwit/runtime"
)

// clContext is a cl_context: a runtime context over the chosen devices.
type clContext struct {
	self       uintptr          // immutable
	p          *platform        // immutable
	devices    []*device        // immutable
	properties []uintptr        // immutable: as given, with the final zero
	run        *runtime.Context // immutable
	users      sync.WaitGroup   // what is being closed and needs run

	mu        sync.Mutex
	destroyed []callback // protected by mu: clSetContextDestructorCallback
}

// properties of a context are pairs up to a zero.
func contextProperties(list unsafe.Pointer) (all []uintptr, p *platform, st int32) {
	p = start()
	if p == nil {
		return nil, nil, clInvalidPlatform
	}
	if list == nil {
		return nil, p, clSuccess
	}
	for at := (*uintptr)(list); ; at = (*uintptr)(unsafe.Add(unsafe.Pointer(at), 16)) {
		name := *at
		if name == 0 {
			return append(all, 0), p, clSuccess
		}
		value := *(*uintptr)(unsafe.Add(unsafe.Pointer(at), 8))
		for i := 0; i < len(all); i += 2 {
			if all[i] == name {
				return nil, nil, clInvalidProperty // given twice
			}
		}
		switch name {
		case C.CL_CONTEXT_PLATFORM:
			if platforms.get(value) == nil {
				return nil, nil, clInvalidPlatform
			}
		case C.CL_CONTEXT_INTEROP_USER_SYNC:
			if value > 1 {
				return nil, nil, clInvalidProperty
			}
		default:
			return nil, nil, clInvalidProperty
		}
		all = append(all, name, value)
	}
}

//export gwCreateContext
func gwCreateContext(properties unsafe.Pointer, n uint32, list, notify, user unsafe.Pointer) (uintptr, int32) {
	all, p, st := contextProperties(properties)
	if st != clSuccess {
		return 0, st
	}
	if n == 0 || list == nil || notify == nil && user != nil {
		return 0, clInvalidValue
	}
	var chosen []*device
	for _, h := range unsafe.Slice((*uintptr)(list), n) {
		d := devs.get(h)
		if d == nil {
			return 0, clInvalidDevice
		}
		chosen = append(chosen, d)
	}
	return createContext(p, all, unique(chosen))
}

//export gwCreateContextFromType
func gwCreateContextFromType(properties unsafe.Pointer, typ uint64, notify, user unsafe.Pointer) (uintptr, int32) {
	all, p, st := contextProperties(properties)
	if st != clSuccess {
		return 0, st
	}
	const known = typeDefault | typeCPU | typeGPU | typeAccelerator | typeCustom
	switch {
	case notify == nil && user != nil:
		return 0, clInvalidValue
	case typ == 0 || typ != typeAll && typ&^known != 0:
		return 0, clInvalidDeviceType
	}
	var chosen []*device
	for _, h := range p.ofType(typ) {
		chosen = append(chosen, devs.get(h))
	}
	if len(chosen) == 0 {
		return 0, clDeviceNotFound
	}
	return createContext(p, all, chosen)
}

func createContext(p *platform, properties []uintptr, chosen []*device) (uintptr, int32) {
	guardExit()
	c := &clContext{p: p, devices: chosen, properties: properties}
	o := runtime.Options{Name: p.contextName(), Links: p.links(chosen), Trace: p.sink(chosen), Figures: &p.figures, Share: runtime.Share{Broker: &p.broker}}
	// All devices use the host's memory in place, or have no shared virtual memory:
	// so trust is safe, and being strict only finds mistakes.
	o.SVMWatch = svmfault.FromEnvironment()
	o.SVMTrusted = o.SVMWatch == nil
	for _, d := range chosen {
		dev, err := d.open()
		if err != nil {
			return 0, refusal(err)
		}
		o.Devices = append(o.Devices, dev)
		o.Names = append(o.Names, d.name)
	}
	var err error
	if c.run, err = runtime.NewContext(o); err != nil {
		return 0, refusal(err)
	}
	for _, d := range chosen {
		retain(d.self)
	}
	return contexts.add(c, &c.self)
}

// contextName numbers contexts, for traces.
func (p *platform) contextName() string {
	return fmt.Sprintf("context%d", p.contexts.Add(1))
}

// links are the ways between devices that were asked for, of those in a context.
func (p *platform) links(chosen []*device) (links []runtime.Link) {
	at := func(name string) int {
		if name == "host" {
			return 0
		}
		return 1 + slices.IndexFunc(chosen, func(d *device) bool { return d.name == name })
	}
	for _, l := range p.config.links {
		from, to := at(l.From), at(l.To)
		if (from > 0 || l.From == "host") && (to > 0 || l.To == "host") {
			links = append(links, runtime.Link{From: mem.MemoryID(from), To: mem.MemoryID(to), Link: l.Link})
		}
	}
	return links
}

// destroy implements destroyer. Nothing uses the context any more, but what it
// drains may take its time; a release does not wait for that.
func (c *clContext) destroy() {
	go func() {
		c.users.Wait()
		_ = c.run.Close(context.Background()) // what it could name as left over is what OpenCL lets programs leave
		c.mu.Lock()
		list := c.destroyed
		c.mu.Unlock()
		for _, f := range slices.Backward(list) {
			f.object(c.self)
		}
		for _, d := range c.devices {
			release(d.self)
		}
	}()
}

// device finds one of the context's devices; nil where it is none.
func (c *clContext) device(h uintptr) *device {
	for _, d := range c.devices {
		if d.self == h {
			return d
		}
	}
	return nil
}

// real is the device as the runtime has it.
func (c *clContext) real(d *device) devices.Device {
	dev, err := c.run.Device(mem.MemoryID(slices.Index(c.devices, d) + 1))
	if err != nil {
		return nil
	}
	return dev
}

var contextFacts = facts[clContext]{
	C.CL_CONTEXT_REFERENCE_COUNT: func(c *clContext) any { return refs(c.self) },
	C.CL_CONTEXT_NUM_DEVICES:     func(c *clContext) any { return uint32(len(c.devices)) },
	C.CL_CONTEXT_DEVICES:         func(c *clContext) any { return c.devices },
	C.CL_CONTEXT_PROPERTIES:      func(c *clContext) any { return c.properties },
}

//export gwGetContextInfo
func gwGetContextInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return contexts.info(h, contextFacts, what, room, value, sizeRet)
}

//export gwSetContextDestructorCallback
func gwSetContextDestructorCallback(h uintptr, f, user unsafe.Pointer) int32 {
	c := contexts.get(h)
	if c == nil {
		return clInvalidContext
	}
	if f == nil {
		return clInvalidValue
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.destroyed = append(c.destroyed, callback{f, user})
	return clSuccess
}
