//go:build cgo

package icd

// #include "command_buffer.h"
import "C"

import (
	"errors"
	"slices"
	"unsafe"

	"godwit/mem"
	"godwit/runtime"
)

// Launches of command buffers, and their updates (cl_khr_command_buffer_mutable_dispatch).

// dispatch is what a recorded launch does. It is immutable once it is a command's: updates replace it by a changed copy.
type dispatch struct {
	k      *kernel // the program's, which its command retains
	args   *kernel // a copy of it, with the arguments of this launch
	space  space
	fields uint64 // cl_mutable_dispatch_fields_khr: what updates may change
}

// Bits of cl_mutable_dispatch_fields_khr, and properties of launches.
const (
	fieldOffset = 1 << iota
	fieldGlobal
	fieldLocal
	fieldArgs
	fieldExecInfo

	allFields       = 1<<iota - 1
	fieldsProperty  = 0x12B1
	assertsProperty = 0x12B8
)

//export gwCommandNDRangeKernelKHR
func gwCommandNDRangeKernelKHR(h, qh uintptr, properties unsafe.Pointer, kh uintptr, dims uint32, offset, global, local unsafe.Pointer, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle, handleIsFine: true}
	d, asserts := &dispatch{fields: allFields}, uint64(0)
	c, st := recording(h, qh, C.CL_COMMAND_NDRANGE_KERNEL, properties, func(name, value uint64) int32 {
		switch {
		case name == fieldsProperty && value&^allFields == 0:
			d.fields = value
		case name == assertsProperty && value&^noMoreGroups == 0:
			asserts = value
		default:
			return clInvalidValue
		}
		return clSuccess
	}, &p)
	if st != clSuccess {
		return st
	}
	if d.k = kernels.hold(kh); d.k == nil {
		return c.fail(clInvalidKernel)
	}
	c.keeps = []uintptr{kh}
	if (asserts|c.b.asserts)&noMoreGroups != 0 && local == nil {
		return c.fail(clInvalidValue)
	}
	d.args = d.k.copy()
	d.space = space{dims, slices.Clone(words(offset, dims)), slices.Clone(words(global, dims)), slices.Clone(words(local, dims))}
	if st := d.args.launchable(c.q, &d.space, c.b.mayLack(d.fields)); st != clSuccess {
		return c.fail(st)
	}
	c.dispatch = d
	return c.recorded(&p)
}

// mayLack reports whether a launch whose fields may be changed may be recorded without all of its arguments.
func (b *commandBuffer) mayLack(fields uint64) bool {
	return b.flags&bufferMutable != 0 && fields&fieldArgs != 0 && newest()
}

// launch is the dispatch as the runtime has it.
func (d *dispatch) launch() runtime.Launch {
	return runtime.Launch{Kernel: d.args.run, Global: d.space.global, Local: d.space.local, Offset: d.space.offset, Args: d.args.args, SVM: d.args.svm}
}

func (d *dispatch) copy() *dispatch {
	n := *d
	n.args = d.args.copy()
	return &n
}

//export gwUpdateMutableCommandsKHR
func gwUpdateMutableCommandsKHR(h uintptr, n uint32, types, configs unsafe.Pointer) int32 {
	if (n == 0) != (types == nil) || (n == 0) != (configs == nil) {
		return updating(h, clInvalidValue, nil)
	}
	var list []*C.gw_update
	for i, t := range unsafe.Slice((*uint32)(types), n) {
		u := unsafe.Slice((**C.gw_update)(configs), n)[i]
		if t != 0 || u == nil { // the one type that there is
			return updating(h, clInvalidValue, nil)
		}
		list = append(list, u)
	}
	return updating(h, clSuccess, list)
}

// gwLinkedUpdateMutableCommandsKHR is what versions before 0.9.2 of the layer have.
//
//export gwLinkedUpdateMutableCommandsKHR
func gwLinkedUpdateMutableCommandsKHR(h uintptr, config unsafe.Pointer) int32 {
	base := (*C.gw_updates)(config)
	if base == nil || base._type != 0 || base.next != nil || (base.count == 0) != (base.list == nil) {
		return updating(h, clInvalidValue, nil)
	}
	var list []*C.gw_update
	for i := range unsafe.Slice(base.list, base.count) {
		l := &unsafe.Slice(base.list, base.count)[i]
		if l._type != 1 || l.next != nil {
			return updating(h, clInvalidValue, nil)
		}
		list = append(list, &l.update)
	}
	return updating(h, clSuccess, list)
}

// updating updates a command buffer, all or nothing. st is what is wrong with the list.
func updating(h uintptr, st int32, list []*C.gw_update) int32 {
	b := lockBuffer(h)
	if b == nil {
		return C.GW_INVALID_COMMAND_BUFFER
	}
	defer b.mu.Unlock()
	if b.draft != nil || b.flags&bufferMutable == 0 {
		return clInvalidOperation
	}
	if st != clSuccess {
		return st
	}
	changed := make(map[*command]*dispatch)
	var order []*command
	for _, u := range list {
		c := commands.get(uintptr(unsafe.Pointer(u.command)))
		if c == nil || c.b != b || c.dispatch == nil {
			return C.GW_INVALID_MUTABLE_COMMAND
		}
		if changed[c] == nil {
			changed[c], order = c.dispatch.copy(), append(order, c)
		}
		if st := changed[c].update(c, u); st != clSuccess {
			return st
		}
	}
	return b.change(order, changed)
}

// change has commands do what their dispatches say from now on. mu is held.
func (b *commandBuffer) change(order []*command, to map[*command]*dispatch) int32 {
	for i, c := range order {
		if err := b.adopt(c, to[c]); err != nil {
			b.restore(order[:i])
			return refusal(err)
		}
	}
	for _, c := range order {
		if c.dispatch.args.unset > 0 && to[c].args.unset == 0 {
			b.lacking--
		}
		c.dispatch = to[c]
	}
	return clSuccess
}

// adopt has the graph launch a command as d says, or notes that it is to be made anew. Either way it has been tested. mu is held.
func (b *commandBuffer) adopt(c *command, d *dispatch) error {
	if d.args.unset > 0 {
		return nil // it is recorded when it has all
	}
	if !b.stale && !d.space.empty() && !c.dispatch.space.empty() {
		if err := b.graph.SetLaunch(c.n, d.launch()); !errors.Is(err, mem.ErrInvalidOperation) {
			return err
		}
	}
	b.stale = true
	if d.space.empty() {
		return nil
	}
	rec, err := b.c.run.RecordApart(c.q.run)
	if err != nil {
		return err
	}
	e, err := (&command{dispatch: d}).record(rec.Queues()[0], nil)
	if err == nil {
		err = e.Release()
	}
	return errors.Join(err, rec.Discard())
}

// update changes a copy of a command's dispatch.
func (d *dispatch) update(c *command, u *C.gw_update) int32 {
	k := d.args
	for _, f := range [...]struct {
		field uint64
		used  bool
	}{
		{fieldOffset, u.offset != nil}, {fieldGlobal, u.global != nil}, {fieldLocal, u.local != nil},
		{fieldArgs, u.args+u.svm_args > 0}, {fieldExecInfo, u.exec_infos > 0},
	} {
		if f.used && d.fields&f.field == 0 {
			return clInvalidOperation
		}
	}
	if u.dims != 0 && uint32(u.dims) != d.space.dims {
		return clInvalidOperation
	}
	if (u.args == 0) != (u.arg_list == nil) || (u.svm_args == 0) != (u.svm_arg_list == nil) || (u.exec_infos == 0) != (u.exec_info_list == nil) {
		return clInvalidValue
	}
	for _, a := range unsafe.Slice(u.arg_list, u.args) {
		if st := k.set(uint32(a.index), uint64(a.size), a.value); st != clSuccess {
			return st
		}
	}
	for _, a := range unsafe.Slice(u.svm_arg_list, u.svm_args) {
		if st := k.setPointer(uint32(a.index), uintptr(a.value)); st != clSuccess {
			return st
		}
	}
	for _, i := range unsafe.Slice(u.exec_info_list, u.exec_infos) {
		if st := k.setExecInfo(uint32(i.name), uint64(i.size), i.value); st != clSuccess {
			return st
		}
	}
	return d.resize(c, u)
}

// resize changes the index space.
func (d *dispatch) resize(c *command, u *C.gw_update) int32 {
	was, s := d.space, &d.space
	for _, f := range [...]struct {
		to  *[]uint64
		new unsafe.Pointer
	}{{&s.offset, unsafe.Pointer(u.offset)}, {&s.global, unsafe.Pointer(u.global)}, {&s.local, unsafe.Pointer(u.local)}} {
		if f.new != nil {
			*f.to = slices.Clone(words(f.new, s.dims))
		}
	}
	if st := d.args.launchable(c.q, s, true); st != clSuccess {
		return st
	}
	if was.local != nil && s.local != nil && was.uniform() != s.uniform() {
		return clInvalidOperation
	}
	return clSuccess
}

// uniform reports whether all work-groups of a space with a work-group size are as large.
func (s *space) uniform() bool {
	for i, l := range s.local {
		if i < len(s.global) && s.global[i]%l != 0 {
			return false
		}
	}
	return true
}

// commandFacts are what mutable commands answer; all are launches.
var commandFacts = facts[command]{
	C.CL_MUTABLE_COMMAND_COMMAND_QUEUE_KHR:       func(c *command) any { return c.q.self },
	C.CL_MUTABLE_COMMAND_COMMAND_BUFFER_KHR:      func(c *command) any { return c.b.self },
	C.CL_MUTABLE_COMMAND_COMMAND_TYPE_KHR:        func(c *command) any { return c.typ },
	commandProperties:                            func(c *command) any { return c.properties },
	C.CL_MUTABLE_DISPATCH_KERNEL_KHR:             func(c *command) any { return c.dispatch.k.self },
	C.CL_MUTABLE_DISPATCH_DIMENSIONS_KHR:         func(c *command) any { return c.dispatch.space.dims },
	C.CL_MUTABLE_DISPATCH_GLOBAL_WORK_OFFSET_KHR: func(c *command) any { return c.dispatch.sides(c.dispatch.space.offset) },
	C.CL_MUTABLE_DISPATCH_GLOBAL_WORK_SIZE_KHR:   func(c *command) any { return c.dispatch.sides(c.dispatch.space.global) },
	C.CL_MUTABLE_DISPATCH_LOCAL_WORK_SIZE_KHR:    func(c *command) any { return c.dispatch.sides(c.dispatch.space.local) },
}

const commandProperties = 0x12A2 // CL_MUTABLE_COMMAND_PROPERTIES_ARRAY_KHR, which had another name

// sides are as many words as there are dimensions; zeros where none were given.
func (d *dispatch) sides(v []uint64) []uint64 {
	if v == nil {
		v = make([]uint64, d.space.dims)
	}
	return v
}

//export gwGetMutableCommandInfoKHR
func gwGetMutableCommandInfoKHR(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	c := commands.get(h)
	if c == nil {
		return C.GW_INVALID_MUTABLE_COMMAND
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return commands.info(h, commandFacts, what, room, value, sizeRet)
}
