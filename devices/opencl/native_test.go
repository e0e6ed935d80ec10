//go:build cgo

package opencl

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

const nativeSource = `#include "by.h"
__kernel void scale(__global int *out, __global const int *in, __constant int *plus, __local int *tmp, int n) {
	size_t i = get_global_id(0);
	tmp[get_local_id(0)] = in[i] * BY;
	out[i] = tmp[get_local_id(0)] + plus[0] + n;
}
__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void four(__global int *a) { a[get_global_id(0)] += 1; }
__kernel void look(read_only image2d_t im, sampler_t s, __global float4 *out) { out[0] = read_imagef(im, s, (int2)(0, 0)); }
`

// What clGetProgramInfo and others are asked for.
const (
	buildStatus       = 0x1181
	buildOptions      = 0x1182
	buildLogText      = 0x1183
	buildBinaryType   = 0x1184
	binaryTypeObject  = 1
	binaryTypeProgram = 4
	groupCompileSize  = 0x11B1
)

// closed has the test close what it may have left open when it ends.
func closed[C interface{ Close() error }](t *testing.T, c C) C {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			require.ErrorIs(t, err, mem.ErrClosed)
		}
	})
	return c
}

// linked compiles nativeSource with a header and links it, for devices.
func linked(t *testing.T, devs []*Device) *NativeProgram {
	t.Helper()
	src, err := devs[0].NewSourceProgram([]byte(nativeSource))
	require.NoError(t, err)
	closed(t, src)
	header, err := devs[0].NewSourceProgram([]byte("#define BY 3\n"))
	require.NoError(t, err)
	closed(t, header)
	require.NoError(t, src.Compile(BuildCall{On: devs}, []*NativeProgram{header}, []string{"by.h"}))
	for _, d := range devs {
		typ, err := src.BuildInfo(d, buildBinaryType)
		require.NoError(t, err)
		require.EqualValues(t, binaryTypeObject, binary.NativeEndian.Uint32(typ))
	}
	p, err := Link(BuildCall{On: devs}, []*NativeProgram{src})
	require.NoError(t, err)
	require.NoError(t, header.Close())
	require.NoError(t, src.Close())
	return closed(t, p)
}

// scale runs the kernel of p on d, and returns what it made of 1, 2, 3, 4.
func scale(t *testing.T, d *Device, p *NativeProgram) []int32 {
	t.Helper()
	m, err := p.Module(d, "p")
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	k, err := m.Kernel("scale")
	require.NoError(t, err)
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	out, in, plus := alloc(t, d, 16), alloc(t, d, 16), alloc(t, d, 4)
	run(t, q, write(d, in, 0, words(1, 2, 3, 4)))
	run(t, q, write(d, plus, 0, words(100)))
	run(t, q, &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{4}, Local: [3]uint64{2}, Args: []devices.Arg{
		{Kind: devices.ArgBuffer, Block: out, Size: 16}, {Kind: devices.ArgBuffer, Block: in, Size: 16}, {Kind: devices.ArgBuffer, Block: plus, Size: 4},
		{Kind: devices.ArgLocal, Size: 8}, {Kind: devices.ArgValue, Value: words(1000)}}})
	got := make([]byte, 16)
	finishPoint(t, q, run(t, q, read(d, out, 0, got)))
	var ints []int32
	for i := 0; i < 16; i += 4 {
		ints = append(ints, int32(binary.NativeEndian.Uint32(got[i:])))
	}
	return ints
}

func words(v ...uint32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.NativeEndian.AppendUint32(b, x)
	}
	return b
}

var scaled = []int32{1103, 1106, 1109, 1112}

func TestProgramsAreCompiledWithHeadersLinkedAndMadeOfBinaries(t *testing.T) {
	made := leakless(t, func(t *testing.T) {
		devs := open(t, 2, nil)
		p := linked(t, devs)
		names, err := p.KernelNames()
		require.NoError(t, err)
		require.Equal(t, []string{"four", "look", "scale"}, names)
		binaries := make([][]byte, 2)
		for i, d := range devs {
			require.Equal(t, scaled, scale(t, d, p))
			binaries[i], err = p.Binary(d)
			require.NoError(t, err)
			require.NotEmpty(t, binaries[i])
		}
		require.NoError(t, p.Close())

		b, each, err := NewBinaryProgram(devs, binaries)
		require.NoError(t, err)
		closed(t, b)
		require.Equal(t, []mem.Status{0, 0}, each)
		require.NoError(t, b.Build(BuildCall{On: devs}))
		for _, d := range devs {
			require.Equal(t, scaled, scale(t, d, b))
		}
		require.NoError(t, b.Close())
		require.ErrorIs(t, b.Close(), mem.ErrClosed)
	})
	require.Positive(t, made.Programs)
	require.Positive(t, made.Kernels)
}

// An opened device twice is one real device: OpenCL refuses lists that name one
// twice, so builds name it once.
func TestTwoDevicesOnOneRealDeviceBuildTogether(t *testing.T) {
	a, b := open(t, 1, map[string]string{"device": "0"})[0], open(t, 1, map[string]string{"device": "0"})[0]
	require.Equal(t, a.id, b.id)
	p := linked(t, []*Device{a, b, a})
	require.Equal(t, scaled, scale(t, a, p))
	require.Equal(t, scaled, scale(t, b, p))
	bin, err := p.Binary(b)
	require.NoError(t, err)
	again, each, err := NewBinaryProgram([]*Device{a, b}, [][]byte{bin, bin})
	require.NoError(t, err)
	closed(t, again)
	require.Len(t, each, 2)
}

func TestAModuleOutlivesItsProgramsClose(t *testing.T) {
	d := open(t, 1, nil)[0]
	p := linked(t, []*Device{d})
	m, err := p.Module(d, "p")
	require.NoError(t, err)
	closed(t, m)
	require.NoError(t, p.Close())
	_, err = p.Module(d, "p")
	require.ErrorIs(t, err, mem.ErrClosed)
	k, err := m.Kernel("four")
	require.NoError(t, err)
	require.Equal(t, "four", k.Name())
	require.NoError(t, m.Close())
}

func TestKernelsAnswerOpenCLsQueries(t *testing.T) {
	d := open(t, 1, nil)[0]
	p := linked(t, []*Device{d})
	m, err := p.Module(d, "p")
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	four, err := m.Kernel("four")
	require.NoError(t, err)
	size, err := four.(*Kernel).GroupInfo(groupCompileSize)
	require.NoError(t, err)
	require.Equal(t, []uint64{4, 1, 1}, []uint64{binary.NativeEndian.Uint64(size), binary.NativeEndian.Uint64(size[8:]), binary.NativeEndian.Uint64(size[16:])})
	_, err = four.(*Kernel).GroupInfo(0x9999)
	require.EqualValues(t, mem.InvalidValue, mem.StatusOf(err))
	for _, i := range []int{-1, 1, 7} {
		_, err = four.(*Kernel).ArgInfo(i, 0x119A)
		require.EqualValues(t, mem.InvalidArgIndex, mem.StatusOf(err))
		require.EqualValues(t, mem.InvalidArgIndex, mem.StatusOf(four.(*Kernel).CheckArg(i, 4, words(1))))
	}

	k, err := m.Kernel("scale")
	require.NoError(t, err)
	require.Equal(t, []devices.ArgInfo{
		{Name: "out", Kind: devices.ArgBuffer, Access: mem.ReadWrite, Type: "int"},
		{Name: "in", Kind: devices.ArgBuffer, Access: mem.Read, Type: "int"},
		{Name: "plus", Kind: devices.ArgBuffer, Access: mem.Read, Type: "int"},
		{Name: "tmp", Kind: devices.ArgLocal, Type: "int"},
		{Name: "n", Kind: devices.ArgValue, Type: "int", Size: 4},
	}, k.Args())
	require.NoError(t, k.(*Kernel).CheckArg(4, 4, words(1)))
	require.NoError(t, k.(*Kernel).CheckArg(3, 64, nil))
	require.EqualValues(t, mem.InvalidArgSize, mem.StatusOf(k.(*Kernel).CheckArg(4, 8, words(1, 2))))

	look, err := m.Kernel("look")
	require.NoError(t, err)
	require.Equal(t, []devices.ArgKind{devices.ArgBuffer, devices.ArgSampler, devices.ArgBuffer},
		[]devices.ArgKind{look.Args()[0].Kind, look.Args()[1].Kind, look.Args()[2].Kind})
}

// Without information about arguments any kind is taken.
func TestArgumentsThatOpenCLSaysNothingOfTakeAnyKind(t *testing.T) {
	d := open(t, 1, nil)[0]
	p, err := d.NewSourceProgram([]byte(strings.ReplaceAll(nativeSource, `#include "by.h"`, "#define BY 3")))
	require.NoError(t, err)
	closed(t, p)
	require.Zero(t, p.cl.Build([]ocl.DeviceID{d.id}, "")) // not as Build does it
	m, err := p.Module(d, "p")
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	k, err := m.Kernel("scale")
	require.NoError(t, err)
	if k.Args()[0].Kind != devices.ArgUnknown {
		t.Skip("this OpenCL always knows arguments")
	}
	require.Equal(t, scaled, scale(t, d, p))
}

func TestProgramErrorsCarryOpenCLsStatus(t *testing.T) {
	d := open(t, 1, nil)[0]
	p, err := d.NewSourceProgram([]byte("__kernel void bad(__global int *a) { a[0] = nothing; }"))
	require.NoError(t, err)
	closed(t, p)
	_, err = p.KernelNames()
	require.EqualValues(t, mem.InvalidProgramExecutable, mem.StatusOf(err))
	_, err = p.Module(d, "p")
	require.EqualValues(t, mem.InvalidProgramExecutable, mem.StatusOf(err))
	require.ErrorIs(t, p.Build(BuildCall{On: []*Device{d}}), mem.ErrBuild)
	log, err := p.BuildInfo(d, buildLogText)
	require.NoError(t, err)
	require.Contains(t, string(log), "nothing")
	st, err := p.BuildInfo(d, buildStatus)
	require.NoError(t, err)
	require.EqualValues(t, -2, int32(binary.NativeEndian.Uint32(st)))
	require.ErrorIs(t, p.Build(BuildCall{}), mem.ErrInvalidValue)
	require.Error(t, p.Build(BuildCall{On: []*Device{d}, Options: "--no-such-option"}))
	_, err = p.BuildInfo(d, 0x9999)
	require.EqualValues(t, mem.InvalidValue, mem.StatusOf(err))
	require.Error(t, p.Compile(BuildCall{On: []*Device{d}}, []*NativeProgram{p}, nil))
	_, err = Link(BuildCall{On: []*Device{d}}, nil)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.NoError(t, p.Close())

	b, each, err := NewBinaryProgram([]*Device{d}, [][]byte{[]byte("no binary at all")})
	if err == nil { // OpenCL allows to find it out when it is built
		closed(t, b)
		require.Equal(t, []mem.Status{0}, each)
		err = b.Build(BuildCall{On: []*Device{d}})
	} else {
		require.Equal(t, []mem.Status{-42}, each)
	}
	require.EqualValues(t, -42, mem.StatusOf(err))
	_, _, err = NewBinaryProgram([]*Device{d, d}, [][]byte{[]byte("one binary"), []byte("another")})
	require.ErrorIs(t, err, mem.ErrInvalidValue, "they are one real device")
	_, _, err = NewBinaryProgram([]*Device{d}, nil)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = d.NewILProgram([]byte{1, 2, 3, 4})
	require.Error(t, err)
}

// NVIDIA's library crashes where it is asked for the names of no kernels.
func TestAProgramMayHaveNoKernels(t *testing.T) {
	d := open(t, 1, nil)[0]
	const none = "int twice(int a) { return 2 * a; }"
	m, err := d.Build(context.Background(), &devices.Program{Name: "none", Source: none})
	require.NoError(t, err)
	closed(t, m)
	require.Empty(t, m.Kernels())
	_, err = m.Kernel("twice")
	require.ErrorIs(t, err, mem.ErrKernelName)
	p, err := d.NewSourceProgram([]byte(none))
	require.NoError(t, err)
	closed(t, p)
	require.NoError(t, p.Compile(BuildCall{On: []*Device{d}}, nil, nil))
	_, err = p.KernelNames()
	require.EqualValues(t, mem.InvalidProgramExecutable, mem.StatusOf(err), "it is compiled, not linked")
	globals, err := p.BuildInfo(d, ocl.BuildGlobals)
	require.NoError(t, err)
	require.Len(t, globals, 8)
	l, err := Link(BuildCall{On: []*Device{d}}, []*NativeProgram{p})
	require.NoError(t, err)
	closed(t, l)
	names, err := l.KernelNames()
	require.NoError(t, err)
	require.Empty(t, names)
}

// A kernel in flight keeps what it needs when its program goes.
func TestAProgramMayGoWhileItsKernelRuns(t *testing.T) {
	d := open(t, 1, nil)[0]
	p := linked(t, []*Device{d})
	m, err := p.Module(d, "p")
	require.NoError(t, err)
	closed(t, m)
	k, err := m.Kernel("four")
	require.NoError(t, err)
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	a := alloc(t, d, 16)
	run(t, q, write(d, a, 0, words(1, 2, 3, 4)))
	gate := make(chan struct{})
	run(t, q, &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { <-gate; return nil }})
	launch := run(t, q, &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{4}, Local: [3]uint64{4},
		Args: []devices.Arg{{Kind: devices.ArgBuffer, Block: a, Size: 16}}})
	require.NoError(t, m.Close())
	require.NoError(t, p.Close())
	close(gate)
	got := make([]byte, 16)
	finishPoint(t, q, run(t, q, read(d, a, 0, got)))
	require.NoError(t, launch.Err())
	require.Equal(t, words(2, 3, 4, 5), got)
}

// OpenCL need not start what is not flushed, so what was held while its queue was
// flushed is flushed when OpenCL gets it.
func TestWhatWasHeldIsFlushedWhenOpenCLGetsIt(t *testing.T) {
	d := open(t, 1, nil)[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	user := mem.NewTimeline("user", false, nil)
	gate := user.Next()
	p := run(t, q, write(d, alloc(t, d, 64), 0, make([]byte, 64)), mem.Wait{Point: gate})
	require.NoError(t, q.Flush())
	user.End(gate, nil)
	require.NoError(t, p.Wait(context.Background()))
	require.False(t, q.dirty.Load())
}

// TestFormatsOfNoFlagsAreThoseForAll: an image of no flags is for reading and writing.
func TestFormatsOfNoFlagsAreThoseForAll(t *testing.T) {
	d := open(t, 1, nil)[0]
	all, err := d.ImageFormats(0, devices.Image2D)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	same, err := d.ImageFormats(1, devices.Image2D) // CL_MEM_READ_WRITE
	require.NoError(t, err)
	require.Equal(t, same, all)
}
