//go:build cgo

package icd

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
)

const (
	kernelName    = 0x1190
	kernelNumArgs = 0x1191
	kernelRefs    = 0x1192
	kernelContext = 0x1193
	kernelProgram = 0x1194
	kernelAttrs   = 0x1195

	argAddress = 0x1196
	argAccess  = 0x1197
	argType    = 0x1198
	argQuals   = 0x1199
	argName    = 0x119A

	groupSize      = 0x11B0
	groupCompiled  = 0x11B1
	groupLocalMem  = 0x11B2
	groupPrefer    = 0x11B3
	groupPrivate   = 0x11B4
	subGroupsMax   = 0x2033
	execSVMPtrs    = 0x11B6
	execFineSystem = 0x11B7
)

func kernelOf(k uintptr, what uint32) func(uint64, unsafe.Pointer, unsafe.Pointer) int32 {
	return func(room uint64, value, size unsafe.Pointer) int32 {
		return gwGetKernelInfo(k, what, room, value, size)
	}
}

func argOf(k uintptr, i, what uint32) func(uint64, unsafe.Pointer, unsafe.Pointer) int32 {
	return func(room uint64, value, size unsafe.Pointer) int32 {
		return gwGetKernelArgInfo(k, i, what, room, value, size)
	}
}

func groupOf(k, d uintptr, what uint32) func(uint64, unsafe.Pointer, unsafe.Pointer) int32 {
	return func(room uint64, value, size unsafe.Pointer) int32 {
		return gwGetKernelWorkGroupInfo(k, d, what, room, value, size)
	}
}

func TestKernelsAnswerQueries(t *testing.T) {
	l := newLab(t)
	p := l.build(l.source(twoKernels))
	k, d := l.kernel(p, "add"), l.devs[0]
	require.Equal(t, "add", str(l, kernelOf(k, kernelName)))
	require.EqualValues(t, 3, word[uint32](l, kernelOf(k, kernelNumArgs)))
	require.EqualValues(t, 1, word[uint32](l, kernelOf(k, kernelRefs)))
	require.Equal(t, l.ctx, word[uintptr](l, kernelOf(k, kernelContext)))
	require.Equal(t, p, word[uintptr](l, kernelOf(k, kernelProgram)))
	_ = str(l, kernelOf(k, kernelAttrs))
	require.EqualValues(t, 0x119B, word[uint32](l, argOf(k, 1, argAddress)))
	require.EqualValues(t, 0x11A3, word[uint32](l, argOf(k, 1, argAccess)))
	require.EqualValues(t, 1, word[uint64](l, argOf(k, 1, argQuals)))
	require.Equal(t, "int*", str(l, argOf(k, 1, argType)))
	require.Equal(t, "b", str(l, argOf(k, 1, argName)))
	require.Positive(t, word[uint64](l, groupOf(k, d, groupSize)))
	require.Positive(t, word[uint64](l, groupOf(k, d, groupPrefer)))
	_ = word[uint64](l, groupOf(k, d, groupPrivate))
	require.Equal(t, [3]uint64{4, 1, 1}, word[[3]uint64](l, groupOf(l.kernel(p, "four"), d, groupCompiled)))

	whole := l.kernel(p, "whole")
	less := word[uint64](l, groupOf(whole, d, groupLocalMem))
	require.Zero(t, gwSetKernelArg(whole, 1, 4096, nil))
	require.GreaterOrEqual(t, word[uint64](l, groupOf(whole, d, groupLocalMem)), less+4096-64, "local arguments count")

	var all [4]uintptr
	var n uint32
	require.Zero(t, gwCreateKernelsInProgram(p, 4, at(&all[0]), at(&n)))
	require.EqualValues(t, 4, n)
	for i, name := range []string{"add", "four", "picture", "whole"} {
		require.Equal(t, name, str(l, kernelOf(all[i], kernelName)))
		release(all[i])
	}
}

// What a program set when it enqueued counts, whatever it sets afterwards; NULL
// for the work-group size is what the kernel was compiled for; offsets count; a
// struct of any size goes by value.
func TestLaunchesTakeTheirArgumentsAsTheyAreThen(t *testing.T) {
	l := newLab(t)
	p := l.build(l.source(twoKernels))
	gate := l.make(gwCreateUserEvent(l.ctx))
	q := l.queues[0]
	a, c := l.ints(0, 0, 0, 0), l.ints(1000)
	k := l.kernel(p, "whole")
	l.set(k, a, localBytes(64))
	big := [10]int32{7, 9: 30}
	require.Zero(t, gwSetKernelArg(k, 2, 40, at(&big)))
	require.Zero(t, gwSetKernelArg(k, 3, 8, at(&c)))
	offset, global, local := uint64(1<<20), uint64(4), uint64(2)
	require.Zero(t, gwEnqueueNDRangeKernel(q, k, 1, at(&offset), at(&global), at(&local), 1, at(&gate), nil))
	big[0] = 5000
	require.Zero(t, gwSetKernelArg(k, 2, 40, at(&big)))
	four := l.kernel(p, "four")
	l.set(four, a)
	require.Zero(t, launch(q, four, 4, 0))
	require.Zero(t, gwSetUserEventStatus(gate, 0))
	require.Equal(t, []int32{1041, 1041, 1041, 1041}, l.read(q, a, 4))

	clone := l.make(gwCloneKernel(k))
	big[0] = 1
	require.Zero(t, gwSetKernelArg(k, 2, 40, at(&big)))
	require.Zero(t, launch(q, clone, 4, 2))
	require.Equal(t, []int32{6030, 6030, 6030, 6030}, l.read(q, a, 4), "a clone has arguments of its own")

	task := l.build(l.source("__kernel void one(__global int *a, __global int *b) { a[0] = b == 0 ? get_global_size(0) : -1; }"))
	k = l.kernel(task, "one")
	l.set(k, a, uintptr(0))
	require.Zero(t, gwEnqueueTask(q, k, 0, nil, nil))
	require.EqualValues(t, 1, l.read(q, a, 1)[0], "NULL buffers arrive as NULL")
}

// OpenCL has a vector of three be as long as one of four. Programs pass three elements all the
// same, which PoCL takes.
func TestAVectorOfThreeIsThreeElementsOrFour(t *testing.T) {
	l := newLab(t)
	k := l.kernel(l.build(l.source(`
		kernel void sum(global long *out, float3 f, double3 d, char3 c, float4 g, int2 i) {
			out[0] = f.x + 10 * f.y + 100 * f.z + d.x + 10 * d.y + 100 * d.z + c.x + 10 * c.y + 100 * c.z + g.w + i.y;
		}`)), "sum")
	f, d, c := [4]float32{1, 2, 3}, [4]float64{1, 2, 3}, [4]int8{1, 2, 3}
	g, pair := [4]float32{3: 1000}, [2]int32{0, 1e4}
	out := l.ints(0, 0)
	l.set(k, out)
	require.Zero(t, gwSetKernelArg(k, 4, 16, at(&g)))
	require.Zero(t, gwSetKernelArg(k, 5, 8, at(&pair)))
	for _, n := range []uint64{3, 4} {
		require.Zero(t, gwSetKernelArg(k, 1, 4*n, at(&f)))
		require.Zero(t, gwSetKernelArg(k, 2, 8*n, at(&d)))
		require.Zero(t, gwSetKernelArg(k, 3, n, at(&c)))
		for i, q := range l.queues {
			require.Zero(t, launch(q, k, 1, 0))
			require.EqualValues(t, 3*321+11000, l.read(q, out, 1)[0], "%d elements on device %d", n, i)
		}
	}
	for i, sizes := range map[uint32][]uint64{1: {4, 8, 11, 13, 20}, 2: {12, 16, 23}, 3: {1, 2, 5}, 4: {12}, 5: {6}} {
		for _, n := range sizes {
			require.Equal(t, clInvalidArgSize, gwSetKernelArg(k, i, n, at(&d)), "%d bytes for argument %d", n, i)
		}
	}
}

// Since OpenCL 2.1 an empty index space is a launch that does nothing.
func TestAnEmptyIndexSpaceDoesNothing(t *testing.T) {
	l := newLab(t)
	k := l.kernel(l.build(l.source(twoKernels)), "add")
	a := l.ints(5)
	l.set(k, a, a, int32(1))
	outOfOrder := l.make(gwCreateCommandQueue(l.ctx, l.devs[0], 1))
	gate := l.make(gwCreateUserEvent(l.ctx))
	require.Zero(t, gwEnqueueMarkerWithWaitList(outOfOrder, 1, at(&gate), nil))
	for _, q := range []uintptr{l.queues[0], outOfOrder} {
		var done uintptr
		require.Zero(t, gwEnqueueNDRangeKernel(q, k, 1, nil, nil, nil, 0, nil, at(&done)))
		require.Zero(t, gwWaitForEvents(1, at(&done)), "it waits for nothing else")
		release(done)
		require.Zero(t, launch(q, k, 0, 0))
	}
	require.Zero(t, gwSetUserEventStatus(gate, 0))
	require.Zero(t, gwFinish(outOfOrder))
	require.Equal(t, []int32{5}, l.read(l.queues[0], a, 1))
}

// Kernels out of binaries may say nothing of their arguments.
func TestArgumentsOfUnknownKindAreLookedUp(t *testing.T) {
	l := newLab(t)
	p := l.build(l.source(twoKernels))
	h := l.kernel(p, "whole")
	k := kernels.get(h)
	info := make([]devices.ArgInfo, len(k.info))
	for i := range info {
		info[i].Kind = devices.ArgUnknown
	}
	k.info = info
	a, c := l.ints(0, 0), l.ints(3)
	l.set(h, a, localBytes(64))
	big := [10]int32{1, 9: 20}
	require.Zero(t, gwSetKernelArg(h, 2, 40, at(&big)))
	require.Zero(t, gwSetKernelArg(h, 3, 8, at(&c)))
	require.Equal(t, clInvalidArgSize, gwSetKernelArg(h, 2, 0, at(&big)))
	far := l.make(gwCreateBuffer(l.other, 0, 64, nil))
	require.Equal(t, clInvalidMemObject, gwSetKernelArg(h, 3, 8, at(&far)))
	require.Zero(t, launch(l.queues[1], h, 2, 2))
	require.Equal(t, []int32{24, 24}, l.read(l.queues[0], a, 2))
}

// Wrong handles, and more wrong values, are in tests/icd: testdata/errors.c.
func TestWrongArgumentsAreRefused(t *testing.T) {
	l := newLab(t)
	p := l.build(l.source(twoKernels))
	k, picture := l.kernel(p, "add"), l.kernel(p, "picture")
	a, junk := l.ints(1), l.ctx+1
	far := l.make(gwCreateBuffer(l.other, 0, 64, nil))
	for name, c := range map[string]struct {
		want int32
		call func() int32
	}{
		"NULL of 4 bytes":        {clInvalidArgSize, func() int32 { return gwSetKernelArg(k, 0, 4, nil) }},
		"no buffer":              {clInvalidMemObject, func() int32 { return gwSetKernelArg(k, 0, 8, at(&junk)) }},
		"another's buffer":       {clInvalidMemObject, func() int32 { return gwSetKernelArg(k, 0, 8, at(&far)) }},
		"an image":               {clInvalidMemObject, func() int32 { return gwSetKernelArg(picture, 0, 8, at(&a)) }},
		"a sampler":              {clInvalidSampler, func() int32 { return gwSetKernelArg(picture, 1, 8, at(&a)) }},
		"unknown info":           {clInvalidValue, func() int32 { return gwGetKernelInfo(k, 0x9999, 0, nil, nil) }},
		"argument info, index":   {clInvalidArgIndex, func() int32 { return gwGetKernelArgInfo(k, 3, argName, 0, nil, nil) }},
		"argument info, unknown": {clInvalidValue, func() int32 { return gwGetKernelArgInfo(k, 0, 0x9999, 0, nil, nil) }},
		"group info, device":     {clInvalidDevice, func() int32 { return gwGetKernelWorkGroupInfo(k, junk, groupSize, 0, nil, nil) }},
		"group info, which?":     {clInvalidDevice, func() int32 { return gwGetKernelWorkGroupInfo(k, 0, groupSize, 0, nil, nil) }},
		"group info, unknown":    {clInvalidValue, func() int32 { return gwGetKernelWorkGroupInfo(k, l.devs[0], 0x9999, 0, nil, nil) }},
		"sub-groups, kernel": {clInvalidKernel, func() int32 {
			return gwGetKernelSubGroupInfo(junk, l.devs[0], subGroupsMax, 0, nil, 0, nil, nil)
		}},
		"svm pointer, no kernel": {clInvalidKernel, func() int32 { return gwSetKernelArgSVMPointer(junk, 0, 0) }},
		"exec info, no kernel":   {clInvalidKernel, func() int32 { return gwSetKernelExecInfo(junk, execSVMPtrs, 0, nil) }},
		"native kernel":          {clInvalidValue, func() int32 { return gwEnqueueNativeKernel(l.queues[0], nil, nil, 0, 0, nil, nil, 0, nil, nil) }},
		"native kernel, queue":   {clInvalidCommandQueue, func() int32 { return gwEnqueueNativeKernel(junk, nil, nil, 0, 0, nil, nil, 0, nil, nil) }},
	} {
		require.Equal(t, c.want, c.call(), name)
	}
	if !kernels.get(k).p.c.hasSVM() {
		require.Equal(t, clInvalidOperation, gwSetKernelArgSVMPointer(k, 0, 0))
		require.Equal(t, clInvalidOperation, gwSetKernelExecInfo(k, execSVMPtrs, 0, nil))
		return
	}
	yes, odd := uint32(1), uint64(0)
	for name, c := range map[string]struct {
		want int32
		call func() int32
	}{
		"svm pointer, no such argument": {clInvalidArgIndex, func() int32 { return gwSetKernelArgSVMPointer(k, 9, 0) }},
		"svm pointer for a value":       {clInvalidArgValue, func() int32 { return gwSetKernelArgSVMPointer(k, 2, 0) }},
		"exec info, unknown":            {clInvalidValue, func() int32 { return gwSetKernelExecInfo(k, 0x9999, 4, at(&yes)) }},
		"exec info, odd size":           {clInvalidValue, func() int32 { return gwSetKernelExecInfo(k, execSVMPtrs, 7, at(&odd)) }},
		"exec info, no value":           {clInvalidValue, func() int32 { return gwSetKernelExecInfo(k, execSVMPtrs, 8, nil) }},
		"exec info, system":             {clInvalidOperation, func() int32 { return gwSetKernelExecInfo(k, execFineSystem, 4, at(&yes)) }},
	} {
		require.Equal(t, c.want, c.call(), name)
	}
}

func TestWrongIndexSpacesAreRefused(t *testing.T) {
	l := newLab(t)
	p := l.build(l.source(twoKernels))
	k, four := l.kernel(p, "add"), l.kernel(p, "four")
	a := l.ints(0, 0, 0, 0)
	l.set(k, a, a, int32(1))
	l.set(four, a)
	q := l.queues[0]
	junk := l.ctx + 1
	most := word[uint64](l, groupOf(k, l.devs[0], groupSize))
	nd := func(k uintptr, dims uint32, offset, global, local []uint64) int32 {
		var o, lo unsafe.Pointer
		if offset != nil {
			o = at(&offset[0])
		}
		if local != nil {
			lo = at(&local[0])
		}
		return gwEnqueueNDRangeKernel(q, k, dims, o, at(&global[0]), lo, 0, nil, nil)
	}
	max64 := ^uint64(0)
	for name, c := range map[string]struct {
		want, got int32
	}{
		"groups that do not divide":  {clInvalidWorkGroupSize, nd(k, 1, nil, []uint64{5}, []uint64{2})},
		"groups of 0":                {clInvalidWorkGroupSize, nd(k, 1, nil, []uint64{4}, []uint64{0})},
		"groups too large":           {clInvalidWorkGroupSize, nd(k, 2, nil, []uint64{most, 2}, []uint64{most, 2})},
		"an offset too large":        {-56, nd(k, 1, []uint64{max64}, []uint64{4}, nil)},
		"not the compiled size":      {clInvalidWorkGroupSize, nd(four, 1, nil, []uint64{4}, []uint64{2})},
		"not the compiled dimension": {clInvalidWorkGroupSize, nd(four, 2, nil, []uint64{4, 4}, []uint64{4, 4})},
		"too many work-items":        {clInvalidGlobalWorkSize, nd(k, 3, nil, []uint64{1 << 40, 1 << 40, 1 << 40}, nil)},
		"an event that is none":      {clInvalidEventWaitList, gwEnqueueTask(q, k, 1, at(&junk), nil)},
		"a wait list that is none":   {clInvalidEventWaitList, gwEnqueueTask(q, k, 1, nil, nil)},
	} {
		require.Equal(t, c.want, c.got, name)
	}
	require.Equal(t, []int32{0, 0, 0, 0}, l.read(q, a, 4), "nothing ran")
}

// A kernel may be launched from many threads; its program may go meanwhile.
func TestKernelsAreLaunchedFromManyThreads(t *testing.T) {
	l := newLab(t)
	const threads, rounds = 4, 50
	a, b := l.ints(make([]int32, 64)...), l.ints(make([]int32, 64)...)
	ones := make([]int32, 64)
	for i := range ones {
		ones[i] = 1
	}
	require.Zero(t, gwEnqueueWriteBuffer(l.queues[0], b, 1, 0, 256, at(&ones[0]), 0, nil, nil))
	p := l.build(l.source(twoKernels))
	shared := l.kernel(p, "add")
	one := int32(1)
	l.set(shared, a, b, one)
	var all sync.WaitGroup
	for i := range threads {
		all.Go(func() {
			own, _ := gwCreateKernel(p, cstr("add"))
			for r := range rounds {
				k := own
				if r%2 == 0 {
					k = shared
				}
				st := gwSetKernelArg(own, 0, 8, at(&a)) + gwSetKernelArg(own, 1, 8, at(&b)) + gwSetKernelArg(own, 2, 4, at(&one))
				if st += launch(l.queues[i%len(l.queues)], k, 64, 0); st != 0 {
					t.Errorf("launch: %d", st)
				}
			}
			release(own)
		})
	}
	all.Wait()
	got := l.read(l.queues[0], a, 64)
	for _, v := range got {
		require.EqualValues(t, threads*rounds, v)
	}
}

func TestLaunchesAllocateNothingInSteadyState(t *testing.T) {
	l := newLab(t)
	k := l.kernel(l.build(l.source(twoKernels)), "add")
	a, b := l.ints(make([]int32, 64)...), l.ints(make([]int32, 64)...)
	l.set(k, a, b, int32(1))
	const launches = 50
	v := int32(3)
	q, global := l.queues[0], uint64(64)
	some := func() {
		for range launches {
			if gwSetKernelArg(k, 2, 4, at(&v))+gwEnqueueNDRangeKernel(q, k, 1, nil, at(&global), nil, 0, nil, nil) != 0 {
				t.Error("launch failed")
			}
		}
		if gwFinish(q) != 0 {
			t.Error("finish failed")
		}
	}
	for range 20 {
		some()
	}
	require.Less(t, testing.AllocsPerRun(50, some)/launches, 0.5, "a finish may, a launch must not")
}

func TestALaunchAndABlockingReadAllocateNothingInSteadyState(t *testing.T) {
	l := newLab(t)
	k := l.kernel(l.build(l.source(twoKernels)), "add")
	a, b := l.ints(make([]int32, 64)...), l.ints(make([]int32, 64)...)
	l.set(k, a, b, int32(1))
	q, global := l.queues[0], uint64(64)
	got := make([]int32, 64)
	step := func() {
		if gwEnqueueNDRangeKernel(q, k, 1, nil, at(&global), nil, 0, nil, nil)+
			gwEnqueueReadBuffer(q, a, 1, 0, 256, at(&got[0]), 0, nil, nil)+
			gwEnqueueWriteBuffer(q, b, 1, 0, 256, at(&got[0]), 0, nil, nil)+gwEnqueueBarrier(q) != 0 {
			t.Error("a step failed")
		}
	}
	for range 500 {
		step()
	}
	require.Less(t, testing.AllocsPerRun(500, step), 0.5)
}

// What local memory a kernel takes is a matter of its own arguments, not of what other
// kernels of the name were given or launched with.
func TestLocalMemoryIsWhatAKernelsOwnArgumentsTake(t *testing.T) {
	l := newLab(t)
	p := l.build(l.source("__kernel void k(__global int *a, __local int *t) { t[get_local_id(0)] = 3; a[0] = t[0]; }"))
	takes := func(k uintptr) uint64 {
		return word[uint64](l, func(room uint64, value, size unsafe.Pointer) int32 {
			return gwGetKernelWorkGroupInfo(k, l.devs[0], 0x11B2, room, value, size)
		})
	}
	one, other := l.kernel(p, "k"), l.kernel(p, "k")
	own := takes(other)
	l.set(one, l.ints(0), localBytes(1024))
	require.Zero(t, launch(l.queues[0], one, 1, 1))
	require.Equal(t, own+1024, takes(one))
	require.Equal(t, own, takes(other))
	l.set(other, l.ints(0), localBytes(16))
	require.Equal(t, []uint64{own + 1024, own + 16}, []uint64{takes(one), takes(other)})
	require.Zero(t, gwFinish(l.queues[0]))
}
