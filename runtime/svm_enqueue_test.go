package runtime_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/internal/history"
	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

func TestEnqueuedFreeHappensWhenItsCommandRuns(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{5}, 4096))
	b := h.mapped(own, p, 4096, runtime.SVMMapRead)
	gate := h.gate()
	e := h.ok(h.q[own].EnqueueSVMFree(ctx, []runtime.Pointer{p}, gate))
	require.NoError(t, h.c.Check())
	require.ErrorIs(t, h.c.SVMFree(p), svm.ErrFreed)
	require.Equal(t, byte(5), b[17], "until then the host may touch it")
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, e.Wait(ctx))
	require.ErrorContains(t, h.c.SVMGuard(func() { sink = b[17] }), "freed by EnqueueSVMFree on queue own")
}

func TestAMapThatFailsGivesNoRights(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{5}, 4096))
	gate := h.gate()
	b, e, err := h.q[shares].EnqueueSVMMap(ctx, p, 4096, runtime.SVMMapRead, gate)
	require.NoError(t, err)
	require.ErrorContains(t, h.c.SVMGuard(func() { sink = b[0] }), "the map has not ended")
	require.NoError(t, gate.SetStatus(-5))
	require.ErrorIs(t, e.Wait(ctx), mem.ErrDependency)
	require.ErrorIs(t, h.c.SVMGuard(func() { sink = b[0] }), svm.ErrFault)
	h.unmap(own, p)
	require.Equal(t, bytes.Repeat([]byte{5}, 4096), h.mapped(sim, p, 4096, runtime.SVMMapRead))
	h.unmap(sim, p)
}

func TestAMapOfAPointerThatFailsLeavesTheContentThoughItIsUnmapped(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{5}, 4096))
	gate := h.gate()
	_, e, err := h.q[own].EnqueueSVMMap(ctx, p, 1024, runtime.SVMMapWriteInvalidate, gate)
	require.NoError(t, err)
	u, err := h.q[own].EnqueueSVMUnmap(ctx, p)
	require.NoError(t, err)
	require.NoError(t, gate.SetStatus(-5))
	require.ErrorIs(t, e.Wait(ctx), mem.ErrDependency)
	require.ErrorIs(t, u.Wait(ctx), mem.ErrDependency)
	require.Equal(t, bytes.Repeat([]byte{5}, 4096), h.mapped(sim, p, 4096, runtime.SVMMapRead))
	h.unmap(sim, p)
}

func TestWhatOpenCLRefusesOfSVM(t *testing.T) {
	h := svmBuild(t)
	ctx, q := soon(t), h.q[own]
	p, ro, gone := h.alloc(4096, 0), h.alloc(64, svm.ReadOnly), h.alloc(64, 0)
	require.NoError(t, h.c.SVMFree(gone))
	require.NoError(t, h.c.SVMFree(0))
	h.mapped(own, p+1024, 1024, runtime.SVMMapWrite)
	alloc := func(size, align uint64, f runtime.SVMFlags) error { _, err := h.c.SVMAlloc(size, align, f); return err }
	cpy := func(dst, src runtime.Pointer, n uint64) error {
		_, err := q.EnqueueSVMMemcpy(ctx, dst, src, n)
		return err
	}
	fill := func(p runtime.Pointer, pattern, n uint64) error {
		_, err := q.EnqueueSVMFill(ctx, p, make([]byte, pattern), n)
		return err
	}
	toMap := func(p runtime.Pointer, n uint64, f svm.MapFlags) error {
		_, _, err := q.EnqueueSVMMap(ctx, p, n, f)
		return err
	}
	unmap := func(p runtime.Pointer) error { _, err := q.EnqueueSVMUnmap(ctx, p); return err }
	free := func(p ...runtime.Pointer) error { _, err := q.EnqueueSVMFree(ctx, p); return err }
	migrate := func(f runtime.MigrateFlags, r ...runtime.SVMRange) error {
		_, err := q.EnqueueSVMMigrate(ctx, r, f)
		return err
	}
	launch := func(a runtime.Arg, more ...runtime.Arg) error {
		l := history.Increment(h.kernel["increment"], a, 64)
		l.SVM = more
		_, err := q.EnqueueLaunch(ctx, l)
		return err
	}
	inside := must(h.c.SVMBytes(p, 8))
	write := func(p runtime.Pointer, data []byte) error { _, err := q.EnqueueSVMWrite(ctx, p, data); return err }
	var none *runtime.Queue
	_, noQueue := none.EnqueueSVMFill(ctx, p, []byte{1}, 1)
	for name, c := range map[string]struct {
		got, want error
		status    mem.Status
	}{
		"alloc of nothing":          {alloc(0, 0, 0), mem.ErrInvalidSize, mem.InvalidBufferSize},
		"alloc with odd alignment":  {alloc(1, 3, 0), mem.ErrInvalidValue, mem.InvalidValue},
		"alloc with two accesses":   {alloc(1, 0, svm.ReadOnly|svm.WriteOnly), mem.ErrInvalidValue, mem.InvalidValue},
		"alloc of atomics alone":    {alloc(1, 0, svm.Atomics), mem.ErrInvalidValue, mem.InvalidValue},
		"alloc beyond the arena":    {alloc(1<<30, 0, 0), mem.ErrNoHostMemory, mem.OutOfHostMemory},
		"free inside":               {h.c.SVMFree(p + 1), mem.ErrInvalidValue, mem.InvalidValue},
		"free twice":                {h.c.SVMFree(gone), svm.ErrFreed, mem.InvalidValue},
		"memcpy of nothing":         {cpy(p, p+8, 0), mem.ErrInvalidValue, mem.InvalidValue},
		"memcpy onto itself":        {cpy(p, p+8, 9), mem.ErrOverlap, mem.MemCopyOverlap},
		"memcpy from null":          {cpy(p, 0, 8), svm.ErrNotSVM, mem.InvalidValue},
		"memcpy past the end":       {cpy(p+4000, p, 97), mem.ErrInvalidValue, mem.InvalidValue},
		"memcpy from mapped":        {cpy(p, p+2000, 8), svm.ErrMapped, mem.InvalidOperation},
		"write of svm bytes":        {write(p+64, inside), mem.ErrInvalidValue, mem.InvalidValue},
		"write of nothing":          {write(p, nil), mem.ErrInvalidValue, mem.InvalidValue},
		"fill with 3 bytes":         {fill(p, 3, 3), mem.ErrInvalidValue, mem.InvalidValue},
		"fill with 256 bytes":       {fill(p, 256, 256), mem.ErrInvalidValue, mem.InvalidValue},
		"fill at an odd address":    {fill(p+2, 4, 8), mem.ErrInvalidValue, mem.InvalidValue},
		"fill of odd size":          {fill(p, 4, 6), mem.ErrInvalidValue, mem.InvalidValue},
		"fill of mapped":            {fill(p+1023, 1, 2), svm.ErrMapped, mem.InvalidOperation},
		"map of nothing":            {toMap(p, 0, svm.MapRead), mem.ErrInvalidValue, mem.InvalidValue},
		"map of null":               {toMap(0, 1, svm.MapRead), svm.ErrNotSVM, mem.InvalidValue},
		"map without flags":         {toMap(p, 1, 0), mem.ErrInvalidValue, mem.InvalidValue},
		"map with bad flags":        {toMap(p, 1, svm.MapRead|svm.MapWriteInvalidate), mem.ErrInvalidValue, mem.InvalidValue},
		"map of mapped":             {toMap(p+2047, 1, svm.MapRead), svm.ErrMapped, mem.InvalidOperation},
		"unmap of no map":           {unmap(p), svm.ErrMapped, mem.InvalidOperation},
		"unmap of freed":            {unmap(gone), svm.ErrFreed, mem.InvalidValue},
		"enqueued free of nothing":  {free(), mem.ErrInvalidValue, mem.InvalidValue},
		"enqueued free of null":     {free(0), svm.ErrNotSVM, mem.InvalidValue},
		"enqueued free twice":       {free(ro, ro), mem.ErrInvalidValue, mem.InvalidValue},
		"enqueued free inside":      {free(ro + 1), mem.ErrInvalidValue, mem.InvalidValue},
		"migrate of nothing":        {migrate(0), mem.ErrInvalidValue, mem.InvalidValue},
		"migrate with bad flags":    {migrate(8, runtime.SVMRange{Pointer: p}), mem.ErrInvalidValue, mem.InvalidValue},
		"migrate past the end":      {migrate(0, runtime.SVMRange{Pointer: p + 1, Size: 4096}), mem.ErrInvalidValue, mem.InvalidValue},
		"argument that is freed":    {launch(runtime.SVM(gone)), svm.ErrFreed, mem.InvalidValue},
		"argument that is no svm":   {launch(runtime.SVM(12)), mem.ErrArgValue, mem.InvalidValue},
		"argument past its block":   {launch(runtime.SVM(p+4).Range(0, 4093)), mem.ErrInvalidValue, mem.InvalidValue},
		"argument written, const":   {launch(runtime.SVMOut(ro)), mem.ErrArgValue, mem.InvalidArgValue},
		"argument updated, const":   {launch(runtime.SVMInOut(ro)), mem.ErrArgValue, mem.InvalidArgValue},
		"argument that is mapped":   {launch(runtime.SVM(p)), svm.ErrMapped, mem.InvalidOperation},
		"pointers that are buffers": {launch(runtime.SVM(ro), runtime.Int32(1)), mem.ErrInvalidValue, mem.InvalidValue},
		"pointers that are mapped":  {launch(runtime.SVM(ro), runtime.SVM(p)), svm.ErrMapped, mem.InvalidOperation},
		"pointers that are no svm":  {launch(runtime.SVM(ro), runtime.SVM(12)), svm.ErrNotSVM, mem.InvalidValue},
		"nil queue":                 {noQueue, mem.ErrInvalidQueue, mem.InvalidCommandQueue},
	} {
		require.ErrorIs(t, c.got, c.want, name)
		require.Equal(t, c.status, mem.StatusOf(c.got), "%s: %v", name, c.got)
		require.NoError(t, h.c.Check(), name)
	}
	h.unmap(own, p+1024)

	plain := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}}, runtime.QueueOptions{})
	_, err := plain.c.SVMAlloc(64, 0, runtime.SVMFineGrain)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.ErrorContains(t, err, "no fine-grained")
	_, err = plain.c.SVMBytes(p, 1)
	require.ErrorIs(t, err, svm.ErrNotSVM)
}

// OpenCL lets a kernel keep the pointers that clSetKernelExecInfo was given: they may be freed before a launch that does
// not reach them.
func TestALaunchLeavesOutFreedPointersThatItNames(t *testing.T) {
	h := svmBuild(t)
	ctx, q := soon(t), h.q[own]
	p, gone, going := h.alloc(4096, 0), h.alloc(64, 0), h.alloc(64, 0)
	h.ends(q.EnqueueSVMFill(ctx, p, []byte{0}, 4096))
	require.NoError(t, h.c.SVMFree(gone))
	gate := h.gate()
	free := h.ok(q.EnqueueSVMFree(ctx, []runtime.Pointer{going}, gate))
	l := history.Increment(h.kernel["increment"], runtime.SVM(p), 64)
	l.SVM = []runtime.Arg{runtime.SVM(gone), runtime.SVM(gone + 8), runtime.SVM(going)}
	run := h.ok(h.q[shares].EnqueueLaunch(ctx, l))
	require.NoError(t, run.Wait(ctx), "it does not wait for the free")
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, free.Wait(ctx))
	h.ends(q.EnqueueLaunch(ctx, l))
	require.NoError(t, h.c.Check())
}

func TestTheHostTouchesAMapUntilItsUnmapRuns(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	for _, fails := range []bool{false, true} {
		gate := h.gate()
		b, ready, err := h.q[own].EnqueueSVMMap(ctx, p, 4096, runtime.SVMMapWriteInvalidate)
		require.NoError(t, err)
		require.NoError(t, ready.Wait(ctx))
		copy(b, noise(4096))
		e := h.ok(h.q[shares].EnqueueSVMUnmap(ctx, p, gate))
		b[0] = 99
		got := make([]byte, 4096)
		read := h.ok(h.q[sim].EnqueueSVMRead(ctx, p, got)) // not in the way any more
		if fails {
			require.NoError(t, gate.SetStatus(-5))
			require.ErrorIs(t, e.Wait(ctx), mem.ErrDependency)
			require.Error(t, read.Wait(ctx))
		} else {
			require.NoError(t, gate.SetStatus(runtime.Complete))
			require.NoError(t, read.Wait(ctx))
			require.Equal(t, append([]byte{99}, noise(4096)[1:]...), got)
		}
		require.Eventually(t, func() bool { return h.c.SVMGuard(func() { sink = b[0] }) != nil }, 10*time.Second, time.Millisecond)
		require.NoError(t, h.c.Check())
	}
}
