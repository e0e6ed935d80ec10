//go:build cgo

package ocl

// #cgo noescape gw_sink_take
// #cgo nocallback gw_sink_take
// #cgo noescape gw_sink_some
// #cgo nocallback gw_sink_some
// #cgo noescape gw_sink_hurry
// #cgo nocallback gw_sink_hurry
// #include "calls.h"
import "C"

import "unsafe"

// Sink is where the ends of commands arrive, for one goroutine to take.
type Sink struct{ c *C.gw_sink }

// Done is the end of a command.
type Done struct {
	ID     uint64 // its tag's
	Status Status
	_      int32
}

var _ [0]struct{} = [unsafe.Sizeof(Done{}) - C.sizeof_gw_done]struct{}{}

// Tag names a command in a sink: C memory, for one command at a time.
type Tag struct{ c *C.gw_tag }

// NewSink makes a sink. A watching one looks for the ends of commands itself, in a
// thread of its own; others are called back by OpenCL.
func NewSink(watching bool) Sink { return Sink{C.gw_sink_new(truth(watching))} }

// Tag makes a tag with a number.
func (s Sink) Tag(i int) Tag { return Tag{C.gw_tag_new(s.c, C.uint64_t(i))} }

// Free gives the tag's memory back.
func (t Tag) Free() { C.gw_tag_free(t.c) }

// Take blocks until commands have ended, or somebody is in a hurry, and returns how many
// it put in out; -1 when the sink is closed and empty. Where prompt is false it may take
// its time.
func (s Sink) Take(out []Done, prompt bool) int {
	return int(C.gw_sink_take(s.c, (*C.gw_done)(unsafe.Pointer(&out[0])), C.int(len(out)), truth(prompt)))
}

// Some takes what there is.
func (s Sink) Some(out []Done) int {
	return int(C.gw_sink_some(s.c, (*C.gw_done)(unsafe.Pointer(&out[0])), C.int(len(out))))
}

// Hurry ends a Take that takes its time.
func (s Sink) Hurry() { C.gw_sink_hurry(s.c) }

// Close ends the sink: Take returns what is left, then -1.
func (s Sink) Close() { C.gw_sink_close(s.c) }

// Free gives the sink's memory back. Nobody uses it any more.
func (s Sink) Free() { C.gw_sink_free(s.c) }
