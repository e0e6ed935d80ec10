//go:build cgo

package ocl

// #cgo noescape gw_release_events
// #cgo nocallback gw_release_events
// #cgo noescape gw_times
// #cgo nocallback gw_times
// #include "calls.h"
import "C"

// Execution statuses of commands that have not failed.
const (
	Complete Status = 0
	Running  Status = 1
)

// Status is the execution status: Complete, a negative error, or positive while the
// command has not ended.
func (e Event) Status() Status { return Status(C.gw_status(C.gw_handle(e))) }

// Wait blocks the thread until the command has ended, and returns its status.
func (e Event) Wait() Status { return Status(C.gw_wait(C.gw_handle(e))) }

// End is Wait for a command that was submitted without a tag.
func (e Event) End() Status { return Status(C.gw_end(C.gw_handle(e))) }

// Times are when the command was queued, submitted, started and ended, in nanoseconds of
// its device's clock; 0 where that is not known.
func (e Event) Times() (t [4]uint64) {
	C.gw_times(C.gw_handle(e), (*C.uint64_t)(&t[0]))
	return t
}

// ReleaseEvents gives events up.
func ReleaseEvents(e []Event) {
	if len(e) > 0 {
		C.gw_release_events(list(e), C.int(len(e)))
	}
}
