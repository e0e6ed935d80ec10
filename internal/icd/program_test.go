//go:build cgo

package icd

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// What OpenCL calls what is asked for here.
const (
	programReferences = 0x1160
	programNumDevices = 0x1162
	programDevices    = 0x1163
	programSource     = 0x1164
	programSizes      = 0x1165
	programBinaries   = 0x1166
	programNumKernels = 0x1167
	programNames      = 0x1168
	programIL         = 0x1169

	buildStatusInfo = 0x1181
	buildOptions    = 0x1182
	buildLog        = 0x1183
	buildType       = 0x1184
)

const twoKernels = `
#ifndef BY
#define BY 1
#endif
typedef struct { int a; int b[9]; } big;
__kernel void add(__global int *a, __global const int *b, int n) { size_t i = get_global_id(0); a[i] += b[i] * n * BY; }
__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void four(__global int *a) { a[get_global_id(0)] += get_local_size(0); }
__kernel void whole(__global int *a, __local int *tmp, big s, __constant int *c) {
	size_t l = get_local_id(0);
	tmp[l] = s.a + s.b[8] + c[0];
	a[get_global_id(0) - get_global_offset(0)] = tmp[l];
}
__kernel void picture(read_only image2d_t im, sampler_t s, __global float4 *out) { out[0] = read_imagef(im, s, (int2)(0, 0)); }
`

func programOf(p uintptr, what uint32) func(uint64, unsafe.Pointer, unsafe.Pointer) int32 {
	return func(room uint64, value, size unsafe.Pointer) int32 {
		return gwGetProgramInfo(p, what, room, value, size)
	}
}

func buildOf(p, d uintptr, what uint32) func(uint64, unsafe.Pointer, unsafe.Pointer) int32 {
	return func(room uint64, value, size unsafe.Pointer) int32 {
		return gwGetProgramBuildInfo(p, d, what, room, value, size)
	}
}

// binaries are what there is for each device.
func (l *lab) binaries(p uintptr) [][]byte {
	l.Helper()
	sizes := make([]uint64, len(l.devs))
	require.Zero(l, gwGetProgramInfo(p, programSizes, uint64(8*len(sizes)), at(&sizes[0]), nil))
	out, places := make([][]byte, len(sizes)), make([]unsafe.Pointer, len(sizes))
	for i, n := range sizes {
		if n > 0 {
			out[i] = make([]byte, n)
			places[i] = at(&out[i][0])
		}
	}
	require.Zero(l, gwGetProgramInfo(p, programBinaries, uint64(8*len(sizes)), at(&places[0]), nil))
	return out
}

// fromBinaries makes a program of what binaries gave.
func (l *lab) fromBinaries(code [][]byte) uintptr {
	l.Helper()
	var lens []uint64
	var places []unsafe.Pointer
	for _, b := range code {
		lens, places = append(lens, uint64(len(b))), append(places, at(&b[0]))
	}
	each := make([]int32, len(code))
	p := l.make(gwCreateProgramWithBinary(l.ctx, uint32(len(code)), at(&l.devs[0]), at(&lens[0]), at(&places[0]), at(&each[0])))
	require.Equal(l, make([]int32, len(code)), each)
	return p
}

// link compiles with a header that says what BY is, and links.
func (l *lab) link(text, header string) uintptr {
	l.Helper()
	p, h := l.source("#include \"by.h\"\n"+text), l.source(header)
	name := cstr("by.h")
	require.Zero(l, gwCompileProgram(p, 0, nil, nil, 1, at(&h), at(&name), nil, nil))
	require.EqualValues(l, 1, word[uint32](l, buildOf(p, l.devs[1], buildType)))
	return l.make(gwLinkProgram(l.ctx, 0, nil, nil, 1, at(&p), nil, nil))
}

// However a program came to be, its kernels run on all devices, and the buffers
// follow.
func TestKernelsOfEveryKindOfProgramRunOnEveryDevice(t *testing.T) {
	before := [2]int{live(&programs), live(&kernels)}
	t.Run("use", func(t *testing.T) {
		l := newLab(t)
		built := l.build(l.source(twoKernels))
		fromBinary := l.build(l.fromBinaries(l.binaries(built)))
		for name, c := range map[string]struct {
			p  uintptr
			by int32
		}{"source": {built, 1}, "binary": {fromBinary, 1}, "linked": {l.link(twoKernels, "#define BY 5\n"), 5}} {
			k := l.kernel(c.p, "add")
			a, b := l.ints(1, 2, 3, 4), l.ints(10, 20, 30, 40)
			l.set(k, a, b, int32(2))
			for _, q := range l.queues {
				require.Zero(t, launch(q, k, 4, 0), name)
			}
			n := int32(len(l.devs)) * 2 * c.by
			require.Equal(t, []int32{1 + 10*n, 2 + 20*n, 3 + 30*n, 4 + 40*n}, l.read(l.queues[0], a, 4), name)
		}
	})
	require.Equal(t, before, [2]int{live(&programs), live(&kernels)})
}

func TestProgramsAnswerQueries(t *testing.T) {
	l := newLab(t)
	p := l.source(twoKernels)
	d := l.devs[0]
	n := len(l.devs)
	require.EqualValues(t, 1, word[uint32](l, programOf(p, programReferences)))
	require.EqualValues(t, n, word[uint32](l, programOf(p, programNumDevices)))
	require.Len(t, list(l, programOf(p, programDevices)), 8*n)
	require.Equal(t, twoKernels, str(l, programOf(p, programSource)))
	require.Empty(t, list(l, programOf(p, programIL)))
	require.Equal(t, clInvalidProgramExecutable, gwGetProgramInfo(p, programNames, 0, nil, nil))
	require.Equal(t, clInvalidProgramExecutable, gwGetProgramInfo(p, programNumKernels, 0, nil, nil))
	require.EqualValues(t, buildNone, word[int32](l, buildOf(p, d, buildStatusInfo)))
	require.Empty(t, str(l, buildOf(p, d, buildOptions)))
	require.Empty(t, str(l, buildOf(p, d, buildLog)))
	require.Zero(t, word[uint32](l, buildOf(p, d, buildType)))
	l.build(p)
	require.Equal(t, "add;four;picture;whole", str(l, programOf(p, programNames)))
	require.EqualValues(t, 4, word[uint64](l, programOf(p, programNumKernels)))
	require.EqualValues(t, buildDone, word[int32](l, buildOf(p, d, buildStatusInfo)))
	require.Equal(t, "-DA=1", str(l, buildOf(p, d, buildOptions)), "the user's own, not what we add")
	require.EqualValues(t, 4, word[uint32](l, buildOf(p, d, buildType)))
	for _, b := range l.binaries(p) {
		require.NotEmpty(t, b)
	}
	require.Equal(t, clInvalidValue, gwGetProgramInfo(p, 0x9999, 0, nil, nil))
	require.Equal(t, clInvalidValue, gwGetProgramBuildInfo(p, d, 0x9999, 0, nil, nil))
}

func TestABuildThatFailsSaysWhy(t *testing.T) {
	l := newLab(t)
	p := l.source("__kernel void bad(__global int *a) { a[0] = nothing; }")
	require.EqualValues(t, -11, gwBuildProgram(p, 0, nil, nil, nil, nil))
	require.EqualValues(t, buildFailed, word[int32](l, buildOf(p, l.devs[0], buildStatusInfo)))
	require.Contains(t, str(l, buildOf(p, l.devs[0], buildLog)), "nothing")
	require.Equal(t, clInvalidProgramExecutable, refused(gwCreateKernel(p, cstr("bad"))))
	require.Equal(t, clCompileProgramFailure, gwCompileProgram(p, 0, nil, nil, 0, nil, nil, nil, nil))
}

// Two devices may be one real device: what is built for one is not for the other.
func TestABuildForSomeDevicesIsForThoseOnly(t *testing.T) {
	l := newLab(t)
	p := l.source(twoKernels)
	last := len(l.devs) - 1
	require.Zero(t, gwBuildProgram(p, 1, at(&l.devs[last]), nil, nil, nil))
	require.EqualValues(t, buildNone, word[int32](l, buildOf(p, l.devs[0], buildStatusInfo)))
	require.EqualValues(t, buildDone, word[int32](l, buildOf(p, l.devs[last], buildStatusInfo)))
	k := l.made(gwCreateKernel(p, cstr("four")))
	a := l.ints(0, 0, 0, 0)
	l.set(k, a)
	require.Equal(t, clInvalidProgramExecutable, launch(l.queues[0], k, 4, 0))
	require.Zero(t, launch(l.queues[last], k, 4, 0))
	require.Equal(t, clInvalidOperation, gwBuildProgram(p, 0, nil, nil, nil, nil), "a kernel is attached")
	require.Equal(t, []int32{4, 4, 4, 4}, l.read(l.queues[0], a, 4))
	release(k)
	require.Zero(t, gwBuildProgram(p, 1, at(&l.devs[0]), nil, nil, nil))
	k = l.kernel(p, "four")
	l.set(k, a)
	require.Zero(t, launch(l.queues[0], k, 4, 0))
	require.Zero(t, launch(l.queues[last], k, 4, 0))
	require.Equal(t, []int32{12, 12, 12, 12}, l.read(l.queues[0], a, 4))
}

const numbered = "__kernel void number(__global int *a) { a[0] = NUMBER; }\n" +
	"#if NUMBER > 11\n__kernel void late(__global int *a) { a[0] = -NUMBER; }\n#endif\n"

// eachNumber runs the kernel on every device, which has another number.
func (l *lab) eachNumber(p uintptr) {
	l.Helper()
	k, a := l.made(gwCreateKernel(p, cstr("number"))), l.ints(0)
	defer release(k)
	l.set(k, a)
	for i, q := range l.queues {
		require.Zero(l, launch(q, k, 1, 0))
		require.Equal(l, []int32{int32(10 + i)}, l.read(q, a, 1), "device %d", i)
	}
}

// Several devices may be one real device: what is built with options for each, what
// comes of binaries for each and what is linked of it is each device's own.
func TestWhatIsBuiltForADeviceIsItsOwn(t *testing.T) {
	l := newLab(t)
	p, c := l.source(numbered), l.source(numbered)
	for i, d := range l.devs {
		require.Zero(t, gwBuildProgram(p, 1, at(&d), cstr(fmt.Sprint("-DNUMBER=", 10+i)), nil, nil))
		require.Zero(t, gwCompileProgram(c, 1, at(&d), cstr(fmt.Sprint("-DNUMBER=", 10+i)), 0, nil, nil, nil, nil))
	}
	l.eachNumber(p)
	for i, d := range l.devs {
		require.Equal(t, fmt.Sprint("-DNUMBER=", 10+i), str(l, buildOf(p, d, buildOptions)))
	}
	code := l.binaries(p)
	require.NotEqual(t, code[0], code[2], "they are one real device")
	binary := l.build(l.fromBinaries(code))
	l.eachNumber(binary)
	l.eachNumber(l.make(gwLinkProgram(l.ctx, 0, nil, nil, 1, at(&c), nil, nil)))

	// Each can be built again, alone or with the others.
	require.Zero(t, gwBuildProgram(binary, 1, at(&l.devs[2]), cstr("-DB"), nil, nil))
	l.eachNumber(binary)
	require.Zero(t, gwBuildProgram(p, 2, at(&l.devs[1]), cstr("-DNUMBER=12"), nil, nil))
	k, a := l.kernel(p, "number"), l.ints(0)
	l.set(k, a)
	for i, want := range []int32{10, 12, 12} {
		require.Zero(t, launch(l.queues[i], k, 1, 0))
		require.Equal(t, []int32{want}, l.read(l.queues[0], a, 1))
	}

	// A kernel that only some have can be made, and runs there.
	late := l.kernel(p, "late")
	l.set(late, a)
	require.Equal(t, clInvalidProgramExecutable, launch(l.queues[0], late, 1, 0))
	require.Zero(t, launch(l.queues[2], late, 1, 0))
	require.Equal(t, []int32{-12}, l.read(l.queues[0], a, 1))

	// A build that fails for one device leaves the others theirs.
	broken := l.source("#ifdef BAD\n#error no\n#endif\n" + numbered)
	require.Zero(t, gwBuildProgram(broken, 1, at(&l.devs[0]), cstr("-DNUMBER=10"), nil, nil))
	require.EqualValues(t, -11, gwBuildProgram(broken, 1, at(&l.devs[2]), cstr("-DNUMBER=12 -DBAD"), nil, nil))
	require.EqualValues(t, buildDone, word[int32](l, buildOf(broken, l.devs[0], buildStatusInfo)))
	require.EqualValues(t, buildFailed, word[int32](l, buildOf(broken, l.devs[2], buildStatusInfo)))
	require.Contains(t, str(l, buildOf(broken, l.devs[2], buildLog)), "error")
	k = l.kernel(broken, "number")
	l.set(k, a)
	require.Zero(t, launch(l.queues[0], k, 1, 0))
	require.Equal(t, []int32{10}, l.read(l.queues[1], a, 1))
	require.Equal(t, clInvalidProgramExecutable, launch(l.queues[2], k, 1, 0))
}

// The kernel of a name must be one kernel.
func TestAKernelThatDiffersFromDeviceToDeviceIsRefused(t *testing.T) {
	l := newLab(t)
	p := l.source("__kernel void k(__global int *a, TYPE b) { a[0] = b; }")
	for i, typ := range []string{"int", "long", "int"} {
		require.Zero(t, gwBuildProgram(p, 1, at(&l.devs[i]), cstr("-DTYPE="+typ), nil, nil))
	}
	require.EqualValues(t, -47, refused(gwCreateKernel(p, cstr("k"))))
}

// Programs are linked of objects and libraries; a link that fails makes a program
// with a log.
func TestLibrariesAreLinked(t *testing.T) {
	l := newLab(t)
	parts := []uintptr{
		l.source("void put(__global int *a); __kernel void go(__global int *a) { put(a); }"),
		l.source("void put(__global int *a) { a[0] = 7; }"),
	}
	for _, p := range parts {
		require.Zero(t, gwCompileProgram(p, 0, nil, nil, 0, nil, nil, nil, nil))
	}
	library := l.make(gwLinkProgram(l.ctx, 0, nil, cstr("-create-library"), 1, at(&parts[1]), nil, nil))
	require.EqualValues(t, 2, word[uint32](l, buildOf(library, l.devs[0], buildType)))
	require.Equal(t, clInvalidProgramExecutable, refused(gwCreateKernel(library, cstr("go"))))
	with := []uintptr{parts[0], library}
	linked := l.make(gwLinkProgram(l.ctx, 0, nil, nil, 2, at(&with[0]), nil, nil))
	a, k := l.ints(0), l.kernel(linked, "go")
	l.set(k, a)
	require.Zero(t, launch(l.queues[1], k, 1, 0))
	require.Equal(t, []int32{7}, l.read(l.queues[0], a, 1))

	failed, st := gwLinkProgram(l.ctx, 0, nil, nil, 1, at(&parts[0]), nil, nil)
	require.Equal(t, clLinkProgramFailure, st)
	require.NotZero(t, failed)
	require.EqualValues(t, buildFailed, word[int32](l, buildOf(failed, l.devs[0], buildStatusInfo)))
	require.Equal(t, clInvalidProgramExecutable, gwGetProgramInfo(failed, programNames, 0, nil, nil))
	_ = str(l, buildOf(failed, l.devs[0], buildLog))
	_ = l.binaries(failed)
	release(failed)
}
