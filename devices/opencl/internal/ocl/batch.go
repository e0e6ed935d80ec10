//go:build cgo

package ocl

// #cgo noescape gw_batch
// #cgo nocallback gw_batch
// #include "calls.h"
import "C"

import "unsafe"

// Leg is one copy of a batch: between two buffers, or where Src or Dst is 0 between a
// buffer and page-locked bytes of the host. It is a gw_leg of C's, field for field.
type Leg struct {
	Queue                Queue
	Src, Dst             Mem
	Host                 uintptr
	SrcOff, DstOff, Size uint64 // bytes
	tag                  *C.gw_tag
	Event                Event  // out; 0 where it was not enqueued
	Data                 int32  // the earlier leg that it waits for; -1: the batch's waits; -2: for none
	After, Afters        uint32 // and so many more earlier legs, from an index of the batch's list on
	NoCallback           int32  // out: where not 0, no callback will come
}

// The two are laid out alike.
var (
	_ [0]struct{} = [unsafe.Sizeof(Leg{}) - C.sizeof_gw_leg]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Leg{}.Event) - unsafe.Offsetof(C.gw_leg{}.event)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Leg{}.NoCallback) - unsafe.Offsetof(C.gw_leg{}.no_callback)]struct{}{}
)

// Listen has t told of the leg's end.
func (l *Leg) Listen(t Tag) { l.tag = t.c }

// Submit enqueues legs in order until one is refused, and returns with what status. flush
// says that commands start only after a flush.
func Submit(legs []Leg, after []int32, waits []Event, flush bool) Status {
	return Status(C.gw_batch((*C.gw_leg)(unsafe.Pointer(&legs[0])), C.int(len(legs)), (*C.int32_t)(first(after)), list(waits), C.uint32_t(len(waits)), truth(flush)))
}
