package runtime_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/null"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// follow adds up a list {next, value} whose links are addresses, and sets the
// values to 1000. out gets the sum and the address of the list's head.
var follow = &devices.Program{Name: "follow", Go: []devices.GoKernel{{
	Name: "follow",
	Args: []devices.ArgInfo{{Name: "list", Kind: devices.ArgBuffer, Access: mem.ReadWrite}, {Name: "out", Kind: devices.ArgBuffer, Access: mem.Write}},
	Func: func(g *devices.Group) {
		sum := uint64(0)
		for at := g.Addr(0); at != 0; at = devices.LoadAt[uint64](g, at) {
			sum += devices.LoadAt[uint64](g, at+8)
			devices.StoreAt(g, at+8, uint64(1000))
		}
		out := devices.Global[uint64](g, 1)
		out.Store(0, sum)
		out.Store(1, g.Addr(0))
	},
}, {
	Name: "increment", // every byte
	Args: []devices.ArgInfo{{Name: "data", Kind: devices.ArgBuffer, Access: mem.ReadWrite}},
	Func: func(g *devices.Group) {
		for v, i := devices.Global[uint8](g, 0), 0; i < v.Len(); i++ {
			v.Store(i, v.Load(i)+1)
		}
	},
}}}

// svmDevices are one of each kind: a cpu device with memory of its own, one that
// shares the host's, and a tce.
func svmDevices(t testing.TB) []devices.Device {
	own, err := cpu.New(cpu.Options{Name: "own", Memory: 4 << 20, Workers: 1})
	require.NoError(t, err)
	shares, err := cpu.New(cpu.Options{Name: "shares", SharesHost: true, Workers: 1})
	require.NoError(t, err)
	sim, err := tce.New(tce.Options{Name: "sim", Memory: 4 << 20})
	require.NoError(t, err)
	return []devices.Device{own, shares, sim}
}

const own, shares, sim = 0, 1, 2

// svmHouse is a context over svmDevices with the kernels of follow.
type svmHouse struct {
	*house
	kernel map[string]*runtime.Kernel
}

func svmBuild(t testing.TB) *svmHouse {
	h := &svmHouse{house: build(t, runtime.Options{Devices: svmDevices(t), SVMSize: 1 << 24}, runtime.QueueOptions{}), kernel: map[string]*runtime.Kernel{}}
	p, err := h.c.Build(soon(t), follow)
	require.NoError(t, err)
	for _, name := range p.Kernels() {
		h.kernel[name], err = p.Kernel(name)
		require.NoError(t, err)
	}
	return h
}

func (h *svmHouse) alloc(size uint64, f runtime.SVMFlags) runtime.Pointer {
	h.t.Helper()
	p, err := h.c.SVMAllocNamed("cells", size, 0, f)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = h.c.SVMFree(p) })
	return p
}

// ends waits for a command that must succeed.
func (h *svmHouse) ends(e runtime.Event, err error) {
	h.t.Helper()
	require.NoError(h.t, err)
	require.NoError(h.t, e.Wait(soon(h.t)))
	require.NoError(h.t, e.Release())
	require.NoError(h.t, h.c.Check())
}

// mapped is a blocking map.
func (h *svmHouse) mapped(q int, p runtime.Pointer, size uint64, f svm.MapFlags) []byte {
	h.t.Helper()
	b, e, err := h.q[q].EnqueueSVMMap(soon(h.t), p, size, f)
	h.ends(e, err)
	return b
}

func (h *svmHouse) unmap(q int, p runtime.Pointer) {
	h.t.Helper()
	h.ends(h.q[q].EnqueueSVMUnmap(soon(h.t), p))
}

func TestAPointerGoesAroundDevicesAndTheHost(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{1}, 4096))
	h.ends(h.q[sim].EnqueueLaunch(ctx, runtime.Launch{Kernel: h.kernel["increment"], Global: []uint64{1}, Args: []runtime.Arg{runtime.SVM(p+1024).Range(0, 1024)}}))
	want := append(append(bytes.Repeat([]byte{1}, 1024), bytes.Repeat([]byte{2}, 1024)...), bytes.Repeat([]byte{1}, 2048)...)
	// Only what a command reads moves: 1 KiB to the sim, half of the block here.
	b := h.mapped(shares, p+512, 2048, runtime.SVMMapRead|runtime.SVMMapWrite)
	require.Equal(t, want[512:2560], b)
	require.Equal(t, uint64(1024+2048), h.c.Stats().BytesMoved)
	for i := range b {
		b[i], want[512+i] = 7, 7
	}
	h.unmap(shares, p+512)
	err := h.c.SVMGuard(func() { b[3] = 1 })
	require.ErrorIs(t, err, svm.ErrFault)
	require.ErrorContains(t, err, "EnqueueSVMUnmap on queue shares")
	require.ErrorContains(t, err, "cells")
	got := make([]byte, 4096)
	h.ends(h.q[sim].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, want, got)
	h.ends(h.q[own].EnqueueSVMMigrate(ctx, []runtime.SVMRange{{p, 0}}, 0))
	moved := h.c.Stats().BytesMoved
	h.ends(h.q[own].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, want, got)
	require.Equal(t, moved, h.c.Stats().BytesMoved)

	// A map that invalidates brings nothing.
	b = h.mapped(own, p, 4096, runtime.SVMMapWriteInvalidate)
	require.Equal(t, moved, h.c.Stats().BytesMoved)
	copy(b, noise(4096))
	h.unmap(own, p)
	h.ends(h.q[sim].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, noise(4096), got)
	require.NoError(t, h.c.SVMFree(p))
	require.ErrorContains(t, h.c.SVMGuard(func() { b[0] = 1 }), "freed by SVMFree")
	require.Contains(t, h.c.SVMExplain(p), "freed by SVMFree")
}

// sink keeps loads from being optimised away.
var sink byte

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>3 + i)
	}
	return b
}

func TestPointersInMemoryAreTheSameEverywhere(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	a, b := h.alloc(4096, 0), h.alloc(8192, 0)
	out := h.buffer(16, nil)
	head, second, third := a+512, b+8000, a+64
	for _, q := range []int{own, sim, shares, own} {
		bytes := h.mapped(q, a, 4096, runtime.SVMMapWrite)
		put := func(at, next runtime.Pointer, v uint64) {
			binary.LittleEndian.PutUint64(bytes[at-a:], uint64(next))
			binary.LittleEndian.PutUint64(bytes[at-a+8:], v)
		}
		put(head, second, 1)
		put(third, 0, 4)
		h.unmap(q, a)
		h.ends(h.q[q].EnqueueSVMWrite(ctx, second, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(third)), 2)))
		l := runtime.Launch{Kernel: h.kernel["follow"], Global: []uint64{1}, Args: []runtime.Arg{runtime.SVM(head), runtime.Out(out)}}
		e := h.ok(h.q[q].EnqueueLaunch(ctx, l))
		require.ErrorIs(t, e.Wait(ctx), devices.ErrFault, "b was not named")
		require.NoError(t, e.Release())
		_ = h.q[q].Finish(ctx) // says so, too
		h.ends(h.q[q].EnqueueSVMFill(ctx, a, []byte{0}, 4096))
		h.ends(h.q[q].EnqueueSVMWrite(ctx, third, binary.LittleEndian.AppendUint64(make([]byte, 8), 4)))
		h.ends(h.q[q].EnqueueSVMWrite(ctx, head, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(second)), 1)))
		l.SVM = []runtime.Arg{runtime.SVM(second).Range(0, 16)}
		h.ends(h.q[q].EnqueueLaunch(ctx, l))
		got := make([]byte, 16)
		h.ends(h.q[q].EnqueueRead(ctx, out, 0, got))
		require.Equal(t, uint64(7), binary.LittleEndian.Uint64(got))
		require.Equal(t, uint64(head), binary.LittleEndian.Uint64(got[8:]))
		h.ends(h.q[sim].EnqueueSVMRead(ctx, second+8, got[:8]))
		require.Equal(t, uint64(1000), binary.LittleEndian.Uint64(got))
	}
}

func TestABufferOverACoarseGrainedPointerIsTheSameContent(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	bytes, err := h.c.SVMBytes(p+1024, 2048)
	require.NoError(t, err)
	b, err := h.c.CreateBuffer(2048, runtime.UseHostPtr, bytes)
	require.NoError(t, err)
	sub, err := b.Sub(1024, 512, 0)
	require.NoError(t, err)
	require.Equal(t, mem.Range{Start: 2048, End: 2560}, sub.View().Range)
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{1}, 4096))
	h.ends(h.q[sim].EnqueueFill(ctx, b, []byte{2}, 0, 2048))
	h.ends(h.q[own].EnqueueFill(ctx, sub, []byte{3}, 0, 512))
	got := make([]byte, 4096)
	h.ends(h.q[sim].EnqueueSVMRead(ctx, p, got))
	want := make([]byte, 4096)
	for i := range want {
		want[i] = 1
		if i >= 1024 && i < 3072 {
			want[i] = 2
		}
		if i >= 2048 && i < 2560 {
			want[i] = 3
		}
	}
	require.Equal(t, want, got)
	require.ErrorIs(t, h.c.SVMGuard(func() { sink = bytes[0] }), svm.ErrFault)
	require.Equal(t, want[1024:3072], h.mapped(own, p+1024, 2048, runtime.SVMMapRead))
	_, err = h.q[sim].EnqueueFill(ctx, sub, []byte{4}, 0, 512)
	require.ErrorIs(t, err, svm.ErrMapped)
	h.unmap(own, p+1024)

	// A map of the buffer is a map of the pointer.
	for _, view := range []*runtime.Buffer{b, sub} {
		m, err := h.q[own].Map(ctx, view, 256, 128, runtime.MapRead|runtime.MapWrite)
		require.NoError(t, err)
		at := view.View().Range.Start + 256
		inPlace, err := h.c.SVMBytes(p+runtime.Pointer(at), 128)
		require.NoError(t, err)
		require.Same(t, &inPlace[0], &m.Bytes()[0])
		require.Equal(t, want[at:at+128], m.Bytes())
		m.Bytes()[5], want[at+5] = 77, 77
		_, err = h.q[sim].EnqueueSVMFill(ctx, p+runtime.Pointer(at), []byte{4}, 8)
		require.ErrorIs(t, err, svm.ErrMapped)
		h.ends(h.q[sim].EnqueueUnmap(ctx, m))
		require.ErrorIs(t, h.c.SVMGuard(func() { m.Bytes()[5] = 1 }), svm.ErrFault)
		_, err = h.q[sim].EnqueueUnmap(ctx, m)
		require.Equal(t, mem.InvalidValue, mem.StatusOf(err))
	}
	h.ends(h.q[sim].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, want, got)

	// The pointer is freed, the buffer is not.
	require.NoError(t, h.c.SVMFree(p))
	h.ends(h.q[own].EnqueueRead(ctx, b, 0, got[:2048]))
	require.Equal(t, want[1024:3072], got[:2048])
	_, err = h.q[own].EnqueueSVMFill(ctx, p, []byte{1}, 1)
	require.ErrorIs(t, err, svm.ErrFreed)
	_, err = h.c.CreateBuffer(2048, runtime.UseHostPtr, bytes)
	require.ErrorIs(t, err, mem.ErrInvalidHostPtr)
	require.NoError(t, sub.Release())
	require.NoError(t, b.Release())
}

// A device whose kernels cannot have pointers still uses the buffer, on any command.
func TestABufferOverAPointerIsMappedOnDevicesWithoutSharedVirtualMemory(t *testing.T) {
	c, err := cpu.New(cpu.Options{})
	require.NoError(t, err)
	d, err := tce.New(tce.Options{})
	require.NoError(t, err)
	without := devicetest.FailNth(d, new(devicetest.Submits))
	h := build(t, runtime.Options{Devices: []devices.Device{c, without}, SVMSize: 1 << 20}, runtime.QueueOptions{})
	ctx := soon(t)
	p, err := h.c.SVMAlloc(4096, 0, 0)
	require.NoError(t, err)
	bytes, err := h.c.SVMBytes(p, 4096)
	require.NoError(t, err)
	b, err := h.c.CreateBuffer(4096, runtime.UseHostPtr, bytes)
	require.NoError(t, err)
	h.done(h.ok(h.q[1].EnqueueFill(ctx, b, []byte{3}, 0, 4096)))
	_, _, err = h.q[1].EnqueueSVMMap(ctx, p, 4096, runtime.SVMMapRead)
	require.ErrorIs(t, err, mem.ErrInvalidOperation, "by pointer")
	m, err := h.q[1].Map(ctx, b, 0, 4096, runtime.MapRead|runtime.MapWrite)
	require.NoError(t, err)
	require.Equal(t, byte(3), m.Bytes()[4095])
	m.Bytes()[0] = 4
	h.done(h.ok(h.q[1].EnqueueUnmap(ctx, m)))
	got := make([]byte, 2)
	h.done(h.ok(h.q[1].EnqueueRead(ctx, b, 0, got)))
	require.Equal(t, []byte{4, 3}, got)
	require.NoError(t, b.Release())
	require.NoError(t, h.c.SVMFree(p))
}

func TestFineGrainIsTheHostsMemoryInPlace(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(256, runtime.SVMFineGrain|runtime.SVMAtomics)
	b, err := h.c.SVMBytes(p, 256)
	require.NoError(t, err)
	copy(b, noise(256))
	h.ends(h.q[shares].EnqueueLaunch(ctx, runtime.Launch{Kernel: h.kernel["increment"], Global: []uint64{1}, Args: []runtime.Arg{runtime.SVM(p)}}))
	want := noise(256)
	for i := range want {
		want[i]++
	}
	require.Equal(t, want, b)
	h.ends(h.q[shares].EnqueueSVMMemcpy(ctx, p, p+128, 128))
	require.Equal(t, want[128:], b[:128])
	buf, err := h.c.CreateBuffer(128, runtime.UseHostPtr, b[:128])
	require.NoError(t, err)
	h.ends(h.q[shares].EnqueueFill(ctx, buf, []byte{9}, 0, 128))
	h.ends(h.q[shares].EnqueueLaunch(ctx, runtime.Launch{Kernel: h.kernel["increment"], Global: []uint64{1}, Args: []runtime.Arg{runtime.Buf(buf)}}))
	require.Equal(t, bytes.Repeat([]byte{10}, 128), b[:128])
	require.Zero(t, h.c.Stats().BytesMoved)
	for _, q := range []int{own, sim} {
		_, err = h.q[q].EnqueueSVMFill(ctx, p, []byte{1}, 256)
		require.ErrorIs(t, err, mem.ErrInvalidOperation)
		require.ErrorContains(t, err, "fine-grained")
		require.False(t, h.devs[q].Info().SVM.Fine)
	}
	require.NoError(t, buf.Release())
}

func TestARectanglePassesOverMappedBytes(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	bytes, err := h.c.SVMBytes(p, 4096)
	require.NoError(t, err)
	b, err := h.c.CreateBuffer(4096, runtime.UseHostPtr, bytes)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Release()) }()
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{5}, 4096))
	between := h.mapped(own, p+64, 64, runtime.SVMMapWrite)
	rows := runtime.Box{Row: 128} // of 64 bytes at 0, 128, ...
	write := func(at runtime.Box) (runtime.Event, error) {
		return h.q[sim].EnqueueWriteRect(ctx, b, at, make([]byte, 256), runtime.Box{}, [3]uint64{64, 4, 1})
	}
	h.ends(write(rows))
	rows.Origin[0] = 60
	_, err = write(rows)
	require.ErrorIs(t, err, svm.ErrMapped, "four bytes of it are mapped")
	between[0] = 9
	h.unmap(own, p+64)
	got := make([]byte, 129)
	h.ends(h.q[sim].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, []byte{0, 9, 5, 5, 0}, []byte{got[63], got[64], got[65], got[127], got[128]})
}

func TestEnqueuedFreeHappensWhenItsCommandRuns(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{5}, 4096))
	b := h.mapped(own, p, 4096, runtime.SVMMapRead)
	gate, err := h.c.NewUserEvent()
	require.NoError(t, err)
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
	gate, err := h.c.NewUserEvent()
	require.NoError(t, err)
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
		_, err := q.EnqueueLaunch(ctx, runtime.Launch{Kernel: h.kernel["increment"], Global: []uint64{1}, Args: []runtime.Arg{a}, SVM: more})
		return err
	}
	inside, err := h.c.SVMBytes(p, 8)
	require.NoError(t, err)
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
		"argument that is mapped":   {launch(runtime.SVM(p)), svm.ErrMapped, mem.InvalidOperation},
		"pointers that are buffers": {launch(runtime.SVM(ro), runtime.Int32(1)), mem.ErrInvalidValue, mem.InvalidValue},
		"pointers that are mapped":  {launch(runtime.SVM(ro), runtime.SVM(p)), svm.ErrMapped, mem.InvalidOperation},
		"nil queue":                 {noQueue, mem.ErrInvalidQueue, mem.InvalidCommandQueue},
	} {
		require.ErrorIs(t, c.got, c.want, name)
		require.Equal(t, c.status, mem.StatusOf(c.got), "%s: %v", name, c.got)
		require.NoError(t, h.c.Check(), name)
	}
	h.unmap(own, p+1024)

	plain := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}}, runtime.QueueOptions{})
	_, err = plain.c.SVMAlloc(64, 0, runtime.SVMFineGrain)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.ErrorContains(t, err, "no fine-grained")
	_, err = plain.c.SVMBytes(p, 1)
	require.ErrorIs(t, err, svm.ErrNotSVM)
}

func TestTheHostTouchesAMapUntilItsUnmapRuns(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	for _, fails := range []bool{false, true} {
		gate, err := h.c.NewUserEvent()
		require.NoError(t, err)
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
