//go:build cgo

package opencl_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/runtime"
)

const axpy = `
#include "op.h"
__kernel void axpy(__global int *y, __global const int *x, int a) { size_t i = get_global_id(0); y[i] = OP(a, x[i], y[i]); }
`

// adopted makes a runtime program of what was built for the devices.
func adopted(t *testing.T, c *runtime.Context, devs []devices.Device, p *opencl.NativeProgram) *runtime.Program {
	t.Helper()
	mods := make([]devices.Module, len(devs))
	for i, d := range devs {
		var err error
		mods[i], err = p.Module(d.(*opencl.Device), "axpy")
		require.NoError(t, err)
	}
	prog, err := c.Adopt("axpy", devs, mods)
	require.NoError(t, err)
	return prog
}

func openCL(devs []devices.Device) []*opencl.Device {
	var out []*opencl.Device
	for _, d := range devs {
		out = append(out, d.(*opencl.Device))
	}
	return out
}

// Kernels of a cl_program, compiled and linked or out of binaries, are launched
// as any: buffers migrate, const arguments only as far as they are read.
func TestKernelsOfNativeProgramsMigrateTheirBuffers(t *testing.T) {
	need(t)
	created, released := opencl.Objects()
	require.Equal(t, created, released)
	func() {
		devs, err := house("off", false)()
		require.NoError(t, err)
		on := openCL(devs)
		c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		src, err := on[0].NewSourceProgram([]byte(axpy))
		require.NoError(t, err)
		header, err := on[0].NewSourceProgram([]byte("#define OP(a, b, c) ((a) * (b) + (c))\n"))
		require.NoError(t, err)
		require.NoError(t, src.Compile(opencl.BuildCall{On: on}, []*opencl.NativeProgram{header}, []string{"op.h"}))
		p, err := opencl.Link(opencl.BuildCall{On: on}, []*opencl.NativeProgram{src})
		require.NoError(t, err)
		bins := make([][]byte, len(on))
		for i, d := range on {
			bins[i], err = p.Binary(d)
			require.NoError(t, err)
		}
		b, _, err := opencl.NewBinaryProgram(on, bins)
		require.NoError(t, err)
		require.NoError(t, b.Build(opencl.BuildCall{On: on}))
		for _, from := range []*opencl.NativeProgram{p, b} {
			handAround(t, c, devs, adopted(t, c, devs, from))
		}
		for _, x := range []*opencl.NativeProgram{src, header, p, b} {
			require.NoError(t, x.Close())
		}
	}()
	created, released = opencl.Objects()
	require.Equal(t, created, released)
}

// handAround adds 3*x to y on each device in turn, and checks content and bytes
// moved.
func handAround(t *testing.T, c *runtime.Context, devs []devices.Device, prog *runtime.Program) {
	t.Helper()
	const n, rounds = 1000, 6
	ctx := context.Background()
	k, err := prog.Kernel("axpy")
	require.NoError(t, err)
	ints := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(ints[4*i:], uint32(i))
	}
	x, err := c.CreateBuffer(4*n, runtime.CopyHostPtr, ints)
	require.NoError(t, err)
	y, err := c.CreateBuffer(4*n, runtime.CopyHostPtr, make([]byte, 4*n))
	require.NoError(t, err)
	before := c.Stats().BytesMoved
	var last runtime.Event
	var q *runtime.Queue
	for r := range rounds {
		q, err = c.NewQueue(devs[r%len(devs)], runtime.QueueOptions{})
		require.NoError(t, err)
		last, err = q.EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{n}, Args: []runtime.Arg{runtime.Buf(y), runtime.Buf(x), runtime.Int32(3)}})
		require.NoError(t, err)
	}
	got := make([]byte, 4*n)
	last, err = q.EnqueueRead(ctx, y, 0, got, last)
	require.NoError(t, err)
	require.NoError(t, last.Wait(ctx))
	for i := range n {
		require.EqualValues(t, rounds*3*i, binary.LittleEndian.Uint32(got[4*i:]))
	}
	// y comes to each device in turn, x once to each.
	require.EqualValues(t, 4*n*(rounds+len(devs)), c.Stats().BytesMoved-before)
	require.NoError(t, x.Release())
	require.NoError(t, y.Release())
	require.NoError(t, prog.Close())
}
