//go:build cgo

package icd

// #include "command_buffer.h"
import "C"

import (
	"sync"
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
// destroy -> free: the slot rests, its handle is invalid.

const (
	slotSize = C.sizeof_gw_object
	pageSize = 1024 // slots
)

// slot is C's view of an object.
type slot = C.gw_object

// slots are those of the arena that were taken and given back.
type slots struct {
	mu         sync.Mutex
	used       uint32 // protected by mu: ever taken
	head, tail uint32 // protected by mu: of the free list, oldest first: index + 1
	freed      uint32 // protected by mu: its length
}

// rest is for how many frees a slot rests before it serves again, so that a handle which a program goes on
// using after its release is told from a live one.
const rest = 4096

// take takes a slot for an object, with one reference; nil where there is no room. Its kind is not set
// yet, so that no handle is valid before there is the Go object.
func (s *slots) take() (o *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch all := uint32(len(arena)); {
	case s.freed > rest || s.freed > 0 && s.used == all:
		o = &arena[s.head-1]
		s.head = uint32(o.next)
		s.freed--
	case s.used < all:
		o = &arena[s.used]
		s.used++
	default:
		return nil
	}
	o.dispatch, o.next = &C.gw_dispatch, 0
	atomic.StoreInt32((*int32)(&o.refs), 1)
	return o
}

// free gives a slot back, whose handle is invalid from then on.
func (s *slots) free(o *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	atomic.StoreUint32((*uint32)(&o.kind), C.GW_NONE)
	i := uint32(index(uintptr(unsafe.Pointer(o)))) + 1
	if s.freed++; s.freed == 1 {
		s.head = i
	} else {
		arena[s.tail-1].next = C.uint32_t(i)
	}
	s.tail = i
}

// taken are the arena's.
var taken slots

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
	kind    uint32
	invalid int32 // the status for what is no handle of the kind
	pages   [C.GW_SLOTS / pageSize]atomic.Pointer[[pageSize]atomic.Pointer[T]]
}

// add makes a handle for v, with one reference, and puts it in *self before
// anybody can look it up. info is what C answers by itself. Where there is no room
// v is destroyed.
func (t *table[T]) add(v *T, self *uintptr, info ...uint64) (uintptr, int32) {
	o := taken.take()
	if o == nil {
		any(v).(destroyer).destroy()
		return 0, C.CL_OUT_OF_HOST_MEMORY
	}
	*self = uintptr(unsafe.Pointer(o))
	i := index(*self)
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
	return *self, clSuccess
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

// hold is get with a reference for the caller: nil where the last one is being given up meanwhile.
func (t *table[T]) hold(h uintptr) *T {
	v := t.get(h)
	if v == nil {
		return nil
	}
	count := (*int32)(&arena[index(h)].refs)
	for n := atomic.LoadInt32(count); ; n = atomic.LoadInt32(count) {
		if n <= 0 {
			return nil
		}
		if atomic.CompareAndSwapInt32(count, n, n+1) {
			break
		}
	}
	if t.get(h) != v { // the slot is another object's by now
		release(h)
		return nil
	}
	return v
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
	platforms = table[platform]{kind: C.GW_PLATFORM, invalid: clInvalidPlatform}
	devs      = table[device]{kind: C.GW_DEVICE, invalid: clInvalidDevice}
	contexts  = table[clContext]{kind: C.GW_CONTEXT, invalid: clInvalidContext}
	queues    = table[queue]{kind: C.GW_QUEUE, invalid: clInvalidCommandQueue}
	mems      = table[memObject]{kind: C.GW_MEM, invalid: clInvalidMemObject}
	programs  = table[program]{kind: C.GW_PROGRAM, invalid: clInvalidProgram}
	kernels   = table[kernel]{kind: C.GW_KERNEL, invalid: clInvalidKernel}
	events    = table[event]{kind: C.GW_EVENT, invalid: clInvalidEvent}
	samplers  = table[sampler]{kind: C.GW_SAMPLER, invalid: clInvalidSampler}

	commandBuffers = table[commandBuffer]{kind: C.GW_COMMAND_BUFFER, invalid: C.GW_INVALID_COMMAND_BUFFER}
	commands       = table[command]{kind: C.GW_COMMAND, invalid: C.GW_INVALID_MUTABLE_COMMAND}
)

// index is where in the arena the slot of an object is.
func index(h uintptr) uintptr { return (h - uintptr(unsafe.Pointer(&arena[0]))) / slotSize }

// retain adds a reference of another object's.
func retain(h uintptr) { atomic.AddInt32((*int32)(&arena[index(h)].refs), 1) }

// release gives one reference up, and with the last destroys the object.
func release(h uintptr) bool {
	o := &arena[index(h)]
	switch n := atomic.AddInt32((*int32)(&o.refs), -1); {
	case n > 0:
		return true
	case n < 0: // somebody else's was the last
		atomic.AddInt32((*int32)(&o.refs), 1)
		return false
	}
	d := takers[o.kind](h)
	if d == nil {
		return false
	}
	d.destroy()
	taken.free(o)
	return true
}

// takers are take of each kind's table. Platforms are not counted.
var takers = [C.GW_KINDS]func(h uintptr) destroyer{
	C.GW_DEVICE: devs.take, C.GW_CONTEXT: contexts.take, C.GW_QUEUE: queues.take, C.GW_MEM: mems.take,
	C.GW_PROGRAM: programs.take, C.GW_KERNEL: kernels.take, C.GW_EVENT: events.take, C.GW_SAMPLER: samplers.take,
	C.GW_COMMAND_BUFFER: commandBuffers.take, C.GW_COMMAND: commands.take,
}

// gwLastRelease is what C calls for a release that looks like the last.
//
//export gwLastRelease
func gwLastRelease(h uintptr) bool { return release(h) }

// refs is an object's reference count.
func refs(h uintptr) uint32 { return uint32(atomic.LoadInt32((*int32)(&arena[index(h)].refs))) }
