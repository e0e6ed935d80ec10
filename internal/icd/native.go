//go:build cgo

package icd

// #include "callback.h"
import "C"

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"unsafe"

	godwit "godwit/runtime"
)

// Native kernels: functions of the program's, which run in its process. The library underneath is
// not needed for one, but says which devices have them. The function's buffers are mapped for as
// long as it runs, so that it has their latest content, and all devices see what it wrote.

// native reports whether the device runs functions of the program's.
func (d *device) native() bool {
	b := d.found.Query(C.CL_DEVICE_EXECUTION_CAPABILITIES)
	return len(b) == 8 && binary.NativeEndian.Uint64(b)&C.CL_EXEC_NATIVE_KERNEL != 0
}

// nativeCall is a call of a function.
type nativeCall struct {
	f    unsafe.Pointer
	args []byte // nil where there are none
	maps []godwit.Mapping
	done []godwit.Event // of maps
}

//export gwEnqueueNativeKernel
func gwEnqueueNativeKernel(qh uintptr, f, args unsafe.Pointer, size uint64, nmems uint32, list, at unsafe.Pointer, n uint32, waitList, out unsafe.Pointer) int32 {
	q := queues.get(qh)
	switch {
	case q == nil:
		return clInvalidCommandQueue
	case !q.d.native():
		return clInvalidOperation
	case f == nil, (args == nil) != (size == 0), (nmems == 0) != (list == nil), (nmems == 0) != (at == nil), nmems > 0 && args == nil:
		return clInvalidValue
	}
	var w waits
	wait, st := q.c.waitList(w[:0], n, waitList)
	if st != clSuccess {
		return st
	}
	c := &nativeCall{f: f}
	if args != nil {
		c.args = aligned(size)
		copy(c.args, bytesAt(args, size))
	}
	places := make([]uint64, nmems) // in args
	for i := range places {
		places[i] = uint64(uintptr(unsafe.Slice((*unsafe.Pointer)(at), nmems)[i]) - uintptr(args))
		if places[i] > size || size-places[i] < 8 {
			return clInvalidValue
		}
	}
	if st := c.bind(q, unsafe.Slice((*uintptr)(list), nmems), places, wait); st != clSuccess {
		c.undo()
		return st
	}
	run, err := q.run.EnqueueHostCall(context.Background(), c.call, append(slices.Clone(wait), c.done...)...)
	if err != nil {
		c.undo()
		return q.accepted(run, err, C.CL_COMMAND_NATIVE_KERNEL, false, out)
	}
	for _, m := range c.maps {
		if e, err := q.run.EnqueueUnmap(context.Background(), m, run); err == nil {
			_ = e.Release()
		} else {
			complain(err)
		}
	}
	c.forget()
	return q.accepted(run, nil, C.CL_COMMAND_NATIVE_KERNEL, false, out)
}

// piece is bytes of a root that are mapped for a call.
type piece struct {
	root       *memObject
	start, end uint64
}

// pieces are the bytes of memory objects, each once: those that share some are one piece.
func pieces(objects []*memObject) (all []piece) {
	for _, m := range objects {
		p := piece{m, m.origin, m.origin + m.size}
		if m.parent != nil {
			p.root = m.parent
		}
		all = slices.DeleteFunc(all, func(o piece) bool {
			if o.root != p.root || o.end <= p.start || p.end <= o.start {
				return false
			}
			p.start, p.end = min(p.start, o.start), max(p.end, o.end)
			return true
		})
		all = append(all, p)
	}
	return all
}

// bind maps the buffers and puts their addresses into the arguments.
func (c *nativeCall) bind(q *queue, handles []uintptr, places []uint64, wait []godwit.Event) int32 {
	objects := make([]*memObject, len(handles))
	for i, h := range handles {
		var st int32
		if objects[i], st = q.buffer(h); st != clSuccess {
			return st
		}
	}
	all := pieces(objects)
	for _, p := range all {
		mapped, e, err := q.run.EnqueueMap(context.Background(), p.root.run, p.start, p.end-p.start, godwit.MapRead|godwit.MapWrite, wait...)
		if err != nil {
			return refusal(err)
		}
		c.maps, c.done = append(c.maps, mapped), append(c.done, e)
	}
	for i, m := range objects {
		k := slices.IndexFunc(all, func(p piece) bool {
			return (p.root == m || p.root == m.parent) && p.start <= m.origin && m.origin < p.end
		})
		address := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(c.maps[k].Bytes())))) + m.origin - all[k].start
		binary.NativeEndian.PutUint64(c.args[places[i]:], address)
	}
	return clSuccess
}

// call is the command.
func (c *nativeCall) call(context.Context) error {
	var args unsafe.Pointer
	if c.args != nil {
		args = unsafe.Pointer(unsafe.SliceData(c.args))
		var pin runtime.Pinner
		pin.Pin(args)
		defer pin.Unpin()
	}
	C.gw_call_native(c.f, args)
	return nil
}

// undo ends the maps of a call that is not to be.
func (c *nativeCall) undo() {
	for _, m := range c.maps {
		_ = m.Abandon() // it is mapped
	}
	c.forget()
}

// forget gives up the events of the maps.
func (c *nativeCall) forget() {
	for _, e := range c.done {
		_ = e.Release() // ours: it cannot fail
	}
}

// aligned is room for n bytes, aligned as malloc has it.
func aligned(n uint64) []byte {
	const to = 16
	b := make([]byte, n+to-1)
	skip := -uint64(uintptr(unsafe.Pointer(&b[0]))) % to
	return b[skip : skip+n : skip+n]
}
