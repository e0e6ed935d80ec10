package mem_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// Whatever an error is wrapped in, its status has OpenCL's number.
func TestErrorsHaveOpenCLsStatuses(t *testing.T) {
	own := mem.Sentinel("an error of a driver's own", mem.MapFailure)
	for err, want := range map[error]int{mem.ErrArgIndex: -49, own: -12} {
		require.EqualValues(t, want, mem.StatusOf(fmt.Errorf("kernel k: %w", err)))
	}
	require.Equal(t, mem.OutOfResources, mem.StatusOf(context.Canceled), "an error that has none")
	for got, want := range map[mem.Status]int{
		mem.Success: 0, mem.DeviceNotFound: -1, mem.DeviceNotAvailable: -2, mem.MemObjectAllocationFailure: -4,
		mem.OutOfResources: -5, mem.OutOfHostMemory: -6, mem.ProfilingInfoNotAvailable: -7, mem.MemCopyOverlap: -8, mem.ImageFormatMismatch: -9,
		mem.BuildProgramFailure: -11, mem.MapFailure: -12, mem.MisalignedSubBufferOffset: -13, mem.ExecStatusErrorInWaitList: -14,
		mem.InvalidValue: -30, mem.InvalidDevice: -33, mem.InvalidContext: -34, mem.InvalidQueueProperties: -35,
		mem.InvalidCommandQueue: -36, mem.InvalidHostPtr: -37, mem.InvalidMemObject: -38, mem.InvalidProgram: -44,
		mem.InvalidProgramExecutable: -45, mem.InvalidKernelName: -46, mem.InvalidKernelDefinition: -47, mem.InvalidKernel: -48,
		mem.InvalidArgIndex: -49, mem.InvalidArgValue: -50, mem.InvalidArgSize: -51, mem.InvalidKernelArgs: -52,
		mem.InvalidWorkDimension: -53, mem.InvalidWorkGroupSize: -54, mem.InvalidWorkItemSize: -55, mem.InvalidGlobalOffset: -56,
		mem.InvalidEventWaitList: -57, mem.InvalidEvent: -58, mem.InvalidOperation: -59, mem.InvalidBufferSize: -61,
		mem.InvalidGlobalWorkSize: -63,
	} {
		require.EqualValues(t, want, got)
	}
}

// teller is told of points.
type teller chan mem.Point

// PointReached implements mem.Waiter.
func (c teller) PointReached(p mem.Point, _ error) { c <- p }

// A waiter is told of a point by whoever ends it; WaitAny returns with the first of several.
func ExampleWaitAny() {
	line := mem.NewTimeline("copies", false, nil)
	first, second := line.Next(), line.Next()
	told := make(teller, 1)
	var w mem.Waiter = told
	done, _ := second.Notify(w)
	fmt.Println(done)
	line.End(second, nil)
	fmt.Println(mem.WaitAny(context.Background(), []mem.Point{first, second}), <-told)
	// Output:
	// false
	// <nil> copies#2
}

// A copy is of one class: one page-locked end is enough, both have to be windows.
func ExampleClassOf() {
	fmt.Println(mem.ClassOf(mem.Plain, mem.Locked) == mem.Locked, mem.ClassOf(mem.Window, mem.Plain) == mem.Plain, mem.ClassOf(mem.Window, mem.Window) == mem.Window)
	// Output: true true true
}
