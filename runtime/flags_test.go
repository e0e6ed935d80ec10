package runtime_test

import (
	"bytes"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/devices/work"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/runtime"
)

func TestHostPointerAndFlagsMustAgree(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	for _, tc := range []struct {
		name  string
		flags runtime.Flags
		host  []byte
		want  error
	}{
		{"use of no memory", runtime.UseHostPtr, nil, mem.ErrInvalidHostPtr},
		{"copy of no memory", runtime.CopyHostPtr, nil, mem.ErrInvalidHostPtr},
		{"use of too little", runtime.UseHostPtr, make([]byte, 7), mem.ErrInvalidHostPtr},
		{"copy of too much", runtime.CopyHostPtr, make([]byte, 9), mem.ErrInvalidHostPtr},
		{"use and allocate", runtime.UseHostPtr | runtime.AllocHostPtr, make([]byte, 8), mem.ErrInvalidValue},
		{"use and copy", runtime.UseHostPtr | runtime.CopyHostPtr, make([]byte, 8), mem.ErrInvalidValue},
	} {
		_, err := h.c.CreateBuffer(8, tc.flags, tc.host)
		require.ErrorIs(t, err, tc.want, tc.name)
	}
	require.NoError(t, h.c.Check())
}

func TestHostAccessIsEnforced(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx := soon(t)
	for _, tc := range []struct {
		flags         runtime.Flags
		reads, writes bool
	}{
		{0, true, true}, {runtime.HostReadOnly, true, false}, {runtime.HostWriteOnly, false, true}, {runtime.HostNoAccess, false, false},
	} {
		b := h.create(8, tc.flags|runtime.CopyHostPtr, make([]byte, 8))
		sub := must(b.Sub(0, 4, 0))
		for _, v := range []*runtime.Buffer{b, sub} {
			_, err := h.q[0].EnqueueRead(ctx, v, 0, make([]byte, 4))
			require.Equal(t, tc.reads, err == nil)
			if err != nil {
				require.Equal(t, mem.InvalidOperation, mem.StatusOf(err))
			}
			_, err = h.q[0].EnqueueWrite(ctx, v, 0, make([]byte, 4))
			require.Equal(t, tc.writes, err == nil)
			if err != nil {
				require.Equal(t, mem.InvalidOperation, mem.StatusOf(err))
			}
		}
		require.NoError(t, h.q[0].Finish(ctx))
		require.NoError(t, sub.Release())
		require.NoError(t, b.Release())
	}
}

func TestAllocHostPtrTakesTheHostsMemoryAtOnce(t *testing.T) {
	h := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}}, runtime.QueueOptions{})
	b := h.create(4096, runtime.AllocHostPtr, nil)
	require.Equal(t, uint64(4096), h.c.Resource(mem.Host).Stats().Live)
	require.NoError(t, h.c.Check())
	segs := must(b.Segments())
	require.Zero(t, segs[0].Version, "it has no content")
	require.NoError(t, b.Release())
	require.Zero(t, h.c.Resource(mem.Host).Stats().Live)
}

// Where a device has its memory apart and locks pages, AllocHostPtr's are such, its
// maps and transfers are of that memory, and it goes back when nothing uses it.
func TestAllocHostPtrIsPageLockedWhereThatHelps(t *testing.T) {
	for _, shares := range []bool{false, true} {
		d := must(cpu.New(cpu.Options{Workers: 1, SharesHost: shares}))
		pages := must(d.PinnedMemory(d.NUMANode()))
		h := build(t, runtime.Options{Devices: []devices.Device{d}}, runtime.QueueOptions{})
		ctx := soon(t)
		content := bytes.Repeat([]byte{5}, 1<<12)
		b := h.create(1<<12, runtime.AllocHostPtr, content)
		content[0] = 6
		if shares {
			require.Zero(t, pages.Stats().Live)
			require.Equal(t, uint64(1<<12), h.c.Resource(mem.Host).Stats().Live)
			require.NoError(t, b.Release())
			continue
		}
		require.Equal(t, uint64(1<<12), pages.Stats().Live)
		locking := pages.Locking()
		require.NotZero(t, locking.Locked+locking.Unlocked)
		require.NoError(t, h.c.Check())

		h.done(h.ok(h.q[0].EnqueueFill(ctx, b, []byte{7}, 0, 100)))
		m := must(h.q[0].Map(ctx, b, 0, 1<<12, runtime.MapRead))
		require.Equal(t, append(bytes.Repeat([]byte{7}, 100), bytes.Repeat([]byte{5}, 1<<12-100)...), m.Bytes())
		h.done(h.ok(h.q[0].EnqueueUnmap(ctx, m)))

		gate := h.gate()
		use := h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{b}, runtime.MigrateToHost, gate))
		require.NoError(t, b.Release())
		require.Equal(t, uint64(1<<12), pages.Stats().Live, "a command uses it")
		require.NoError(t, gate.SetStatus(runtime.Complete))
		h.done(use)
		require.Eventually(t, func() bool { return pages.Stats().Live == 0 }, time.Minute, time.Millisecond)
		require.NoError(t, pages.Check())
	}
}

// A buffer that was never released gives its pages back with the context.
func TestPageLockedMemoryGoesBackWithItsContext(t *testing.T) {
	d := must(cpu.New(cpu.Options{Workers: 1}))
	pages := must(d.PinnedMemory(d.NUMANode()))
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}}))
	_ = must(c.CreateBuffer(1<<12, runtime.AllocHostPtr, nil))
	require.NotZero(t, pages.Stats().Live)
	require.ErrorIs(t, c.Close(soon(t)), runtime.ErrLeak)
	require.Zero(t, pages.Stats().Live)
	_, err := c.CreateBuffer(1<<12, runtime.AllocHostPtr, nil)
	require.ErrorContains(t, err, "closed")
	require.Zero(t, pages.Stats().Live)
	require.NoError(t, d.Close())
}

func TestUseHostPtrIsTheHostsBlockAndPassesEveryLayerBy(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1), Resource: func(id mem.MemoryID, base mem.Resource) mem.Resource {
		if id != mem.Host {
			return base
		}
		l, err := resource.NewLimit(base, 1) // too little for any block of its own
		require.NoError(t, err)
		return l
	}}, runtime.QueueOptions{})
	ctx := soon(t)
	user := bytes.Repeat([]byte{3}, 1<<12)
	b := h.create(1<<12, runtime.UseHostPtr, user)
	h.done(h.ok(h.q[0].EnqueueFill(ctx, b, []byte{4}, 0, 100)))
	require.Equal(t, byte(3), user[0], "the device has its own copy")
	h.done(h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{b}, runtime.MigrateToHost)))
	require.Equal(t, append(bytes.Repeat([]byte{4}, 100), bytes.Repeat([]byte{3}, 1<<12-100)...), user)
	require.NoError(t, h.c.Check())
	require.NoError(t, b.Release())
	require.Zero(t, h.c.Resource(mem.Host).Stats().Live)
}

var double = &devices.Program{Name: "double", Go: []devices.GoKernel{{
	Name: "double",
	Args: []devices.ArgInfo{{Name: "a", Kind: devices.ArgBuffer, Access: mem.ReadWrite}},
	Func: func(g *work.Group) {
		a := work.Global[uint8](g, 0)
		g.Items(func(it work.Item) { a.Store(it.Global(0), 2*a.Load(it.Global(0))) })
	},
}}}

func TestUseHostPtrIsUsedInPlaceWhereADeviceSharesIt(t *testing.T) {
	d := must(cpu.New(cpu.Options{Workers: 1, SharesHost: true}))
	h := build(t, runtime.Options{Devices: []devices.Device{d}, Shared: [][2]mem.MemoryID{{mem.Host, 1}}}, runtime.QueueOptions{})
	ctx := soon(t)
	user := []byte{1, 2, 3, 4}
	b := h.create(4, runtime.UseHostPtr, user)
	p := must(h.c.Build(ctx, double))
	k := must(p.Kernel("double"))
	h.done(h.ok(h.q[0].EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{4}, Args: []runtime.Arg{runtime.Buf(b)}})))
	require.Equal(t, []byte{2, 4, 6, 8}, user, "the kernel worked on the caller's bytes")
	require.Zero(t, h.c.Stats().BytesMoved)
	require.Zero(t, h.c.Resource(1).Stats().Blocks)
	require.NoError(t, b.Release())
}

func TestUseHostPtrIsLeftWhereItIsUntilTheCommandsEnd(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx := soon(t)
	user := []byte{1, 2, 3, 4}
	addr := unsafe.SliceData(user)
	b := h.create(4, runtime.UseHostPtr, user)
	gate := h.gate()
	got := make([]byte, 4)
	e := h.ok(h.q[0].EnqueueRead(ctx, b, 0, got, gate))
	require.NoError(t, b.Release())
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.done(e)
	require.Equal(t, user, got)
	require.Same(t, addr, unsafe.SliceData(user))
}
