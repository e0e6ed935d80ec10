//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"

	"godwit/devices"
	"godwit/devices/opencl"
)

// Building programs. With a function to be told, a build goes on on a goroutine.

// targets reads the program and the device list of a build: NULL is all of the program's. What is built for a
// device is built for those of its sub-devices that the program has, as OpenCL's libraries do.
func targets(h uintptr, n uint32, list, notify, user unsafe.Pointer) (p *program, on []*target, st int32) {
	switch p = programs.get(h); {
	case p == nil:
		return nil, nil, clInvalidProgram
	case (n == 0) != (list == nil) || notify == nil && user != nil:
		return nil, nil, clInvalidValue
	case list == nil:
		return p, p.on, clSuccess
	}
	listed := make([]*device, n)
	for i, h := range unsafe.Slice((*uintptr)(list), n) {
		t := p.target(h)
		if t == nil {
			return nil, nil, clInvalidDevice
		}
		listed[i] = t.d
	}
	return p, p.which(func(d *device) bool { return slices.ContainsFunc(listed, d.isPartOf) }), clSuccess
}

// which are the program's devices that something is true of.
func (p *program) which(is func(*device) bool) (on []*target) {
	for _, t := range p.on {
		if is(t.d) {
			on = append(on, t)
		}
	}
	return on
}

// of is d among the program's devices or, if it is none of them, the nearest device that
// it is a part of: what that has been given, by its binary or a link, runs on its parts. It is nil
// if there is none.
func (p *program) of(d *device) *target {
	for ; d != nil; d = d.parent {
		if t := p.target(d.self); t != nil {
			return t
		}
	}
	return nil
}

// target finds one of the program's devices; nil where it is none.
func (p *program) target(h uintptr) *target {
	for _, t := range p.on {
		if t.d.self == h {
			return t
		}
	}
	return nil
}

// begin starts a build for some devices, in parts.
func (p *program) begin(on []*target, options string) ([]part, int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy != nil || p.kernels.Load() > 0 {
		return nil, clInvalidOperation
	}
	if err := p.apart(on); err != nil {
		return nil, refusal(err)
	}
	p.busy = make(chan struct{})
	for _, t := range on {
		t.state = buildState{status: buildInProgress, options: options}
	}
	p.retire()
	return parts(on), clSuccess
}

// lockExecutable locks p for making kernels, once no build goes on: programs that
// ask to be told of a build's end do not always wait for that. It reports
// whether there is an executable; where there is none p is not locked.
func (p *program) lockExecutable() bool {
	for {
		p.mu.Lock()
		busy := p.busy
		if busy == nil && p.run != nil {
			return true
		}
		p.mu.Unlock()
		if busy == nil {
			return false
		}
		<-busy
	}
}

// retire forgets the executable. mu is held.
func (p *program) retire() {
	if p.run != nil {
		_ = p.run.Close() // it is open
		p.run, p.modules = nil, nil
	}
}

// finish ends a build, and gives its status: that of the first error.
func (p *program) finish(on []*target, typ uint32) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.busy)
	p.busy = nil
	var first error
	for _, t := range on {
		t.state.status, t.state.typ = buildDone, typ
		if t.err != nil {
			t.state.status, t.state.typ = buildFailed, C.CL_PROGRAM_BINARY_TYPE_NONE
			complain(t.err)
			first = cmp.Or(first, t.err)
		}
	}
	return status(cmp.Or(first, p.adopt()))
}

// adopt makes the runtime's program of what is executable. mu is held.
func (p *program) adopt() error {
	p.retire()
	modules := make([]devices.Module, len(p.c.devices))
	var on []devices.Device
	var list []devices.Module
	for k, d := range p.c.devices {
		t := p.of(d)
		if t == nil || t.state.status != buildDone || t.state.typ != C.CL_PROGRAM_BINARY_TYPE_EXECUTABLE {
			continue
		}
		m, err := t.native.Module(p.c.opencl(d), p.c.run.Name())
		if err != nil {
			closeAll(list)
			return err
		}
		modules[k] = m
		on, list = append(on, p.c.real(d)), append(list, m)
	}
	if len(on) == 0 {
		return nil
	}
	run, err := p.c.run.Adopt(p.c.run.Name(), on, list)
	if err != nil {
		closeAll(list)
		return err
	}
	p.run, p.modules = run, modules
	return nil
}

func closeAll(list []devices.Module) {
	for _, m := range list {
		_ = m.Close() // it is open
	}
}

// perform does work now, or where the program wants to be told on a goroutine.
func (p *program) perform(notify, user unsafe.Pointer, work func() int32) int32 {
	if notify == nil {
		return work()
	}
	retain(p.self)
	go func() {
		work()
		callback{notify, user}.object(p.self)
		release(p.self)
	}()
	return clSuccess
}

func text(s unsafe.Pointer) string { return C.GoString((*C.char)(s)) }

// build takes a step of building for some devices.
func (p *program) build(on []*target, typ uint32, options, notify, user unsafe.Pointer, step func(native *opencl.NativeProgram, call opencl.BuildCall) error) int32 {
	opts := text(options)
	list, st := p.begin(on, opts)
	if st != clSuccess {
		return st
	}
	return p.perform(notify, user, func() int32 {
		for _, part := range list {
			err := step(part.native, opencl.BuildCall{On: p.opencls(part.on), Options: opts})
			for _, t := range part.on {
				t.err = err
			}
		}
		return p.finish(on, typ)
	})
}

//export gwBuildProgram
func gwBuildProgram(h uintptr, n uint32, list, options, notify, user unsafe.Pointer) int32 {
	p, on, st := targets(h, n, list, notify, user)
	switch {
	case st != clSuccess:
		return st
	case p.origin == ofLink:
		return clInvalidOperation
	}
	return p.build(on, C.CL_PROGRAM_BINARY_TYPE_EXECUTABLE, options, notify, user, (*opencl.NativeProgram).Build)
}

//export gwCompileProgram
func gwCompileProgram(h uintptr, n uint32, list, options unsafe.Pointer, nheaders uint32, headers, names, notify, user unsafe.Pointer) int32 {
	p, on, st := targets(h, n, list, notify, user)
	switch {
	case st != clSuccess:
		return st
	case (nheaders == 0) != (headers == nil) || (nheaders == 0) != (names == nil):
		return clInvalidValue
	case p.origin != ofSource && p.origin != ofIL:
		return clInvalidOperation
	}
	var included []*opencl.NativeProgram
	var as []string
	for i, h := range unsafe.Slice((*uintptr)(headers), nheaders) {
		header := programs.get(h)
		name := unsafe.Slice((*unsafe.Pointer)(names), nheaders)[i]
		switch {
		case header == nil || header.c != p.c || header.origin != ofSource:
			return clInvalidProgram
		case name == nil:
			return clInvalidValue
		}
		included, as = append(included, header.native(header.on[0].d)), append(as, text(name))
	}
	st = p.build(on, C.CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT, options, notify, user, func(native *opencl.NativeProgram, call opencl.BuildCall) error {
		return native.Compile(call, included, as)
	})
	if st == int32(C.CL_BUILD_PROGRAM_FAILURE) {
		st = clCompileProgramFailure
	}
	return st
}

//export gwLinkProgram
func gwLinkProgram(ch uintptr, n uint32, list, options unsafe.Pointer, ninputs uint32, inputs, notify, user unsafe.Pointer) (uintptr, int32) {
	c := contexts.get(ch)
	switch {
	case c == nil:
		return 0, clInvalidContext
	case (n == 0) != (list == nil) || ninputs == 0 || inputs == nil || notify == nil && user != nil:
		return 0, clInvalidValue
	}
	on, st := c.devices, clSuccess
	if list != nil {
		if on, st = c.chosen(n, list); st != clSuccess {
			return 0, st
		}
		on = unique(on)
	}
	var parts []*program
	for _, h := range unsafe.Slice((*uintptr)(inputs), ninputs) {
		part := programs.get(h)
		if part == nil || part.c != c {
			return 0, clInvalidProgram
		}
		parts = append(parts, part)
	}
	with, st := linkable(on, parts)
	if st != clSuccess {
		return 0, st
	}
	p := newProgram(c, on, ofLink, nil)
	if _, st := p.add(); st != clSuccess {
		return 0, st
	}
	return p.link(p.which(func(d *device) bool { return slices.Contains(with, d) }), parts, text(options), notify, user)
}

// link links parts into p, for the devices for which they were compiled. A
// program that could not begin to be linked is none.
func (p *program) link(with []*target, parts []*program, options string, notify, user unsafe.Pointer) (uintptr, int32) {
	inputs := make(map[*target][]*opencl.NativeProgram)
	for _, t := range with {
		for _, part := range parts {
			inputs[t] = append(inputs[t], part.native(t.d))
		}
	}
	for _, part := range parts {
		retain(part.self)
	}
	typ := uint32(C.CL_PROGRAM_BINARY_TYPE_EXECUTABLE)
	if slices.Contains(strings.Fields(options), "-create-library") {
		typ = C.CL_PROGRAM_BINARY_TYPE_LIBRARY
	}
	p.begin(with, options) // a new program: it can
	st := p.perform(notify, user, func() int32 {
		p.linkEach(with, inputs, options)
		for _, part := range parts {
			release(part.self)
		}
		return p.finish(with, typ)
	})
	if st == clSuccess || st == clLinkProgramFailure {
		return p.self, st
	}
	release(p.self)
	return 0, st
}

// unique is a list of devices without those that are there before.
func unique(on []*device) (list []*device) {
	for _, d := range on {
		if !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list
}

// linkEach links what devices have, once for all that have the same.
func (p *program) linkEach(with []*target, inputs map[*target][]*opencl.NativeProgram, options string) {
	for _, on := range together(with, func(t, o *target) bool { return slices.Equal(inputs[t], inputs[o]) }) {
		native, err := opencl.Link(opencl.BuildCall{On: p.opencls(on), Options: options}, inputs[on[0]])
		p.mu.Lock()
		p.builtIn(on, native)
		for _, t := range on {
			t.err = err
		}
		p.mu.Unlock()
	}
}

// linkable lists the devices for which all parts were compiled. Those for which
// none was are left out, and those for which some were an error.
func linkable(on []*device, parts []*program) ([]*device, int32) {
	var with []*device
	for _, d := range on {
		n := 0
		for _, part := range parts {
			st, typ := part.compiled(d)
			if st == buildInProgress {
				return nil, clInvalidOperation
			}
			if typ == C.CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT || typ == C.CL_PROGRAM_BINARY_TYPE_LIBRARY {
				n++
			}
		}
		switch n {
		case 0:
		case len(parts):
			with = append(with, d)
		default:
			return nil, clInvalidOperation
		}
	}
	if len(with) == 0 {
		return nil, clInvalidOperation
	}
	return with, clSuccess
}

// compiled is the state of a device's build, and what there is for it.
func (p *program) compiled(d *device) (st int32, typ uint32) {
	t := p.of(d)
	if t == nil {
		return buildNone, C.CL_PROGRAM_BINARY_TYPE_NONE
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	st, typ = t.state.status, t.state.typ
	if st == buildNone && p.origin == ofBinary {
		if b, err := t.native.BuildInfo(p.c.opencl(d), C.CL_PROGRAM_BINARY_TYPE); err == nil && len(b) == 4 {
			typ = binary.NativeEndian.Uint32(b)
		}
	}
	return st, typ
}
