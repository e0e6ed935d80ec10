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
	for err, want := range map[error]int{
		mem.ErrBuild:         int(mem.BuildProgramFailure),
		mem.ErrKernelName:    int(mem.InvalidKernelName),
		mem.ErrKernelDiffers: int(mem.InvalidKernelDefinition),
		mem.ErrArgIndex:      -49,
		own:                  -12,
	} {
		require.EqualValues(t, want, mem.StatusOf(fmt.Errorf("kernel k: %w", err)))
	}
	require.Equal(t, []mem.Status{-11, -33, -35, -44, -46, -47}, []mem.Status{mem.BuildProgramFailure, mem.InvalidDevice,
		mem.InvalidQueueProperties, mem.InvalidProgram, mem.InvalidKernelName, mem.InvalidKernelDefinition})
	require.Equal(t, mem.OutOfResources, mem.StatusOf(context.Canceled), "an error that has none")
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
