//go:build cgo

package opencl

import (
	"context"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// OpenCL's markers wait for all commands of their queue where they are given nothing to
// wait for; ours for nothing.
func TestAMarkerWithoutWaitsWaitsForNothing(t *testing.T) {
	d := open(t, 1, nil)[0]
	for _, profiling := range []bool{false, true} {
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true, Profiling: profiling})
		gate, err := clContext(d).CreateUserEvent()
		require.NoError(t, err)
		gateEvent := *(*ocl.Event)(unsafe.Pointer(gate))
		behind := ocl.Command{Queue: q.cl, Op: ocl.Marker}
		require.Zero(t, behind.Submit(nil, []ocl.Event{gateEvent}, nil, ocl.Tag{}))
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		p := run(t, q, &devices.Command{Op: devices.OpMarker})
		errWait := q.Wait(ctx, p, devices.Park)
		times, timed := q.Times(p, devices.DeviceClock)
		cancel()
		require.NoError(t, gate.SetUserEventStatus(0)) // else the queue could not be closed
		require.Zero(t, behind.Event.End())
		gate.Release()
		ocl.ReleaseEvents([]ocl.Event{behind.Event})
		require.NoError(t, errWait)
		require.Equal(t, profiling, timed)
		require.True(t, times.Queued <= times.Submitted && times.Submitted <= times.Started && times.Started <= times.Ended, "%+v", times)
	}
}

// A value's size is that of its type in OpenCL C, where that says it.
func TestValuesAreAsLargeAsTheirTypes(t *testing.T) {
	for name, size := range map[string]uint64{"unsigned int": 4, "size_t": 8, "float4": 16, "uchar3": 4, "double16": 128, "struct s": 0, "float5": 0} {
		require.Equal(t, size, sizeOfType(elementType(name)), name)
	}
}

func TestAProgramThatDoesNotBuildSaysWhy(t *testing.T) {
	d := open(t, 1, nil)[0]
	_, err := d.Build(context.Background(), &devices.Program{Name: "bad", Source: "kernel void f(global int *x) { x[0] = nonsense; }"})
	require.ErrorIs(t, err, mem.ErrBuild)
	require.Contains(t, err.Error(), "nonsense")
	for _, p := range []*devices.Program{{Name: "none"}, {Name: "another's", Forms: map[string][]byte{"another": {1}}}, {Name: "no SPIR-V", Forms: map[string][]byte{devices.FormSPIRV: {1, 2, 3, 4}}}} {
		_, err = d.Build(context.Background(), p)
		require.ErrorIs(t, err, mem.ErrBuild, p.Name)
	}
}

func TestSelectNamesWhatThereIs(t *testing.T) {
	d := open(t, 1, nil)[0]
	_, err := Select(Selection{Device: "no such device"})
	require.ErrorIs(t, err, mem.ErrDeviceNotFound)
	require.Contains(t, err.Error(), d.info.Name)
	_, err = devices.Open(context.Background(), "opencl", devices.Config{Params: map[string]string{"colour": "red"}})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = devices.Open(context.Background(), "opencl", devices.Config{Params: map[string]string{"count": "99"}})
	require.ErrorIs(t, err, mem.ErrDeviceNotFound)
	found, err := Select(Selection{Platform: strings.ToUpper(d.info.Platform[:8]), Count: 1})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.True(t, named("1", 1, "GPU 2"))
	require.False(t, named("2", 1, "GPU 2"), "a number is an index, even where the name holds it")
	require.True(t, named("gpu 2", 1, "GPU 2"))
}
