//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Objects. A handle, what a program holds, is the address of a slot in an arena
// of C memory (object.c): the dispatch table that the loader wants first, a
// kind, a reference count. So "is this one of ours, alive, of this kind" is
// arithmetic and a read inside the arena, whatever a program passes. Beside the
// arena there is a table for each kind from slot to Go object.
//
// The count is the program's references and those of other objects together: a
// queue keeps its context alive. Who takes it to zero destroys the object.
//
// Life: newHandle -> (retain, release, in C) -> last release: the Go object's
// destroy -> free: the slot rests (object.c), its handle is invalid.

const (
	kindPlatform = C.GW_PLATFORM
	kindDevice   = C.GW_DEVICE
	kindContext  = C.GW_CONTEXT
	kindQueue    = C.GW_QUEUE
	kindMem      = C.GW_MEM
	kindProgram  = C.GW_PROGRAM
	kindKernel   = C.GW_KERNEL
	kindEvent    = C.GW_EVENT

	slotSize = C.sizeof_gw_object
	pageSize = 1024 // slots
)

// slot is C's view of an object.
type slot = C.gw_object

// arena is all slots; set once, before the first handle is given out.
var arena []slot

// openArena takes the address space for the objects.
func openArena() bool {
	if C.gw_arena_open() == 0 {
		return false
	}
	arena = unsafe.Slice((*slot)(unsafe.Pointer(C.gw_arena)), C.GW_SLOTS)
	return true
}

// slotOf finds the slot of a handle: nil where it is none of ours or of another
// kind.
func slotOf(h uintptr, kind uint32) (*slot, uint32) {
	if len(arena) == 0 {
		return nil, 0
	}
	off := h - uintptr(unsafe.Pointer(&arena[0]))
	i := off / slotSize
	if i >= uintptr(len(arena)) || off%slotSize != 0 {
		return nil, 0
	}
	s := &arena[i]
	if atomic.LoadUint32((*uint32)(&s.kind)) != kind {
		return nil, 0
	}
	return s, uint32(i)
}

// table finds the Go objects of a kind.
type table[T any] struct {
	kind  uint32
	pages [C.GW_SLOTS / pageSize]atomic.Pointer[[pageSize]atomic.Pointer[T]]
}

// add makes a handle for v, with one reference, and puts it in *self before
// anybody can look it up. info is what C answers by itself. It returns false
// where there is no room.
func (t *table[T]) add(v *T, self *uintptr, info ...uint64) bool {
	o := C.gw_take(C.uint32_t(t.kind))
	if o == nil {
		return false
	}
	*self = uintptr(unsafe.Pointer(o))
	i := (*self - uintptr(unsafe.Pointer(&arena[0]))) / slotSize
	page := t.pages[i/pageSize].Load()
	if page == nil {
		t.pages[i/pageSize].CompareAndSwap(nil, new([pageSize]atomic.Pointer[T]))
		page = t.pages[i/pageSize].Load()
	}
	page[i%pageSize].Store(v)
	clear(o.info[:])
	for k, w := range info {
		o.info[k] = C.uint64_t(w)
	}
	atomic.StoreUint32((*uint32)(&o.kind), t.kind)
	return true
}

// get finds a live object; nil where the handle is none.
func (t *table[T]) get(h uintptr) *T {
	s, i := slotOf(h, t.kind)
	if s == nil || atomic.LoadInt32((*int32)(&s.refs)) <= 0 {
		return nil
	}
	page := t.pages[i/pageSize].Load()
	if page == nil {
		return nil
	}
	return page[i%pageSize].Load()
}

// destroyer is a Go object of a table. destroy is called once, by who gave the
// last reference up; the handle is invalid from its return on.
type destroyer interface{ destroy() }

// take finds an object whose last reference is gone, and forgets it.
func (t *table[T]) take(h uintptr) destroyer {
	s, i := slotOf(h, t.kind)
	if s == nil {
		return nil
	}
	v := t.pages[i/pageSize].Load()[i%pageSize].Swap(nil)
	if v == nil {
		return nil
	}
	return any(v).(destroyer)
}

var (
	platforms = table[platform]{kind: kindPlatform}
	devs      = table[device]{kind: kindDevice}
	contexts  = table[clContext]{kind: kindContext}
	queues    = table[queue]{kind: kindQueue}
	mems      = table[memObject]{kind: kindMem}
	events    = table[event]{kind: kindEvent}
)

// retain adds a reference of another object's.
func retain(h uintptr) {
	o := &arena[(h-uintptr(unsafe.Pointer(&arena[0])))/slotSize]
	atomic.AddInt32((*int32)(&o.refs), 1)
}

// release gives one reference up, and with the last destroys the object.
func release(h uintptr) bool {
	i := (h - uintptr(unsafe.Pointer(&arena[0]))) / slotSize
	o := &arena[i]
	switch n := atomic.AddInt32((*int32)(&o.refs), -1); {
	case n > 0:
		return true
	case n < 0: // somebody else's was the last
		atomic.AddInt32((*int32)(&o.refs), 1)
		return false
	}
	var d destroyer
	switch uint32(o.kind) {
	case kindDevice:
		d = devs.take(h)
	case kindContext:
		d = contexts.take(h)
	case kindQueue:
		d = queues.take(h)
	case kindMem:
		d = mems.take(h)
	case kindProgram:
		d = programs.take(h)
	case kindKernel:
		d = kernels.take(h)
	case kindEvent:
		d = events.take(h)
	}
	if d == nil {
		return false
	}
	d.destroy()
	C.gw_free(o)
	return true
}

// gwLastRelease is what C calls for a release that looks like the last.
//
//export gwLastRelease
func gwLastRelease(h uintptr) bool { return release(h) }

// refs is an object's reference count.
func refs(h uintptr) uint32 {
	o := &arena[(h-uintptr(unsafe.Pointer(&arena[0])))/slotSize]
	return uint32(atomic.LoadInt32((*int32)(&o.refs)))
}

// live counts the objects of a kind, for tests.
func live(kind uint32) int { return int(C.gw_live(C.uint32_t(kind))) }
