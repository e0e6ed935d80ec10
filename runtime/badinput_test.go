package runtime_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/migration"
	"godwit/runtime"
)

// args is a kernel with an argument of each kind.
var args = &devices.Program{Name: "args", Go: []devices.GoKernel{
	{
		Name: "args",
		Args: []devices.ArgInfo{
			{Name: "out", Kind: devices.ArgBuffer, Access: mem.ReadWrite},
			{Name: "in", Kind: devices.ArgBuffer, Access: mem.Read},
			{Name: "n", Kind: devices.ArgValue, Size: 4},
			{Name: "tmp", Kind: devices.ArgLocal},
		},
		Func: func(*work.Group) {},
	},
	{
		Name: "two",
		Args: []devices.ArgInfo{{Name: "t0", Kind: devices.ArgLocal}, {Name: "t1", Kind: devices.ArgLocal}},
		Func: func(*work.Group) {},
	},
}}

// limited is the null device with the limits of a real one.
type limited struct {
	devices.Device
	info devices.Info
}

func (l *limited) Info() devices.Info { return l.info }

func small(name string) devices.Device {
	d := null.New(devices.Config{Name: name, Memory: 1 << 16, Local: 1024})
	i := d.Info()
	i.MaxAlloc, i.MaxWorkGroup, i.MaxWorkItems = 1<<15, 64, [3]uint64{64, 32, 16}
	return &limited{d, i}
}

// state is what a refused call must leave as it was.
type state struct {
	stats    migration.Stats
	segments []migration.Segment
	blocks   [2]mem.ResourceStats
	records  int
}

func (h *house) state(b *runtime.Buffer) state {
	h.t.Helper()
	require.NoError(h.t, h.c.Check())
	s := state{stats: h.c.Stats(), records: len(h.rec.Commands())}
	s.segments = must(b.Segments())
	for i := range s.blocks {
		s.blocks[i] = h.c.Resource(mem.MemoryID(i)).Stats()
		s.blocks[i].Failures = 0 // a call that found no room is counted, rightly
	}
	return s
}

// TestBadInputIsRefusedWithItsStatusAndChangesNothing holds, for each rule of
// the API, a call that breaks it, the error, its OpenCL status and a word that
// the message must have.
func TestBadInputIsRefusedWithItsStatusAndChangesNothing(t *testing.T) {
	h := build(t, runtime.Options{Devices: []devices.Device{small("a")}, NoEviction: true}, runtime.QueueOptions{})
	other := build(t, runtime.Options{Name: "other", Devices: []devices.Device{small("b")}}, runtime.QueueOptions{})
	ctx := soon(t)
	q := h.q[0]
	buf, spare := h.buffer(4096, nil), h.buffer(4096, nil)
	h.ok(q.EnqueueFill(ctx, buf, []byte{1}, 0, 4096))
	foreign := other.buffer(4096, nil)
	released := h.buffer(64, nil)
	require.NoError(t, released.Release())
	sub := must(buf.Sub(128, 1024, 0))
	defer func() { require.NoError(t, sub.Release()) }()
	readonly := h.create(64, runtime.ReadOnly, nil)
	defer func() { require.NoError(t, readonly.Release()) }()
	huge := h.create(1<<15, 0, nil)
	defer func() { require.NoError(t, huge.Release()) }()

	prog := must(h.c.Build(ctx, args))
	kernel := must(prog.Kernel("args"))
	two := must(prog.Kernel("two"))
	otherProg := must(other.c.Build(ctx, args))
	otherKernel := must(otherProg.Kernel("args"))
	user := h.gate()
	require.NoError(t, user.SetStatus(runtime.Complete))
	gone := h.gate()
	require.NoError(t, gone.SetStatus(runtime.Complete))
	require.NoError(t, gone.Release())
	alien := must(other.c.NewUserEvent())
	require.NoError(t, alien.SetStatus(runtime.Complete))
	closed := h.queue(h.devs[0], runtime.QueueOptions{})
	require.NoError(t, closed.Close())

	data := make([]byte, 16)
	whole := func() []runtime.Arg {
		return []runtime.Arg{runtime.Buf(buf), runtime.Buf(spare), runtime.Int32(1), runtime.Local(16)}
	}
	with := func(i int, a runtime.Arg) runtime.Launch {
		l := whole()
		l[i] = a
		return runtime.Launch{Kernel: kernel, Global: []uint64{64}, Args: l}
	}
	space := func(global, local, offset []uint64) runtime.Launch {
		return runtime.Launch{Kernel: kernel, Global: global, Local: local, Offset: offset, Args: whole()}
	}
	type call = func() (runtime.Event, error)
	launch := func(l runtime.Launch) call {
		return func() (runtime.Event, error) { return q.EnqueueLaunch(ctx, l) }
	}
	create := func(size uint64, f runtime.Flags, init []byte) call {
		return func() (runtime.Event, error) { _, err := h.c.CreateBuffer(size, f, init); return runtime.Event{}, err }
	}
	suborder := func(b *runtime.Buffer, origin, size uint64, f runtime.Flags) call {
		return func() (runtime.Event, error) { _, err := b.Sub(origin, size, f); return runtime.Event{}, err }
	}
	write := func(b *runtime.Buffer, off uint64, d []byte, wait ...runtime.Event) call {
		return func() (runtime.Event, error) { return q.EnqueueWrite(ctx, b, off, d, wait...) }
	}
	cp := func(src, dst *runtime.Buffer, so, do, n uint64) call {
		return func() (runtime.Event, error) { return q.EnqueueCopy(ctx, src, dst, so, do, n) }
	}
	fill := func(p []byte, off, n uint64) call {
		return func() (runtime.Event, error) { return q.EnqueueFill(ctx, buf, p, off, n) }
	}
	migrate := func(f runtime.MigrateFlags, b ...*runtime.Buffer) call {
		return func() (runtime.Event, error) { return q.EnqueueMigrate(ctx, b, f) }
	}
	migrateTo := func(to ...mem.MemoryID) call {
		return func() (runtime.Event, error) { return q.EnqueueMigrateTo(ctx, []*runtime.Buffer{buf}, to) }
	}

	for _, tc := range []struct {
		name   string
		call   call
		err    error
		status mem.Status
		says   string
	}{
		{"a buffer of no bytes", create(0, 0, nil), mem.ErrInvalidSize, mem.InvalidBufferSize, "0 bytes"},
		{"a buffer larger than any device takes", create(1<<15+1, 0, nil), mem.ErrInvalidSize, mem.InvalidBufferSize, "32768"},
		{"a buffer of all addresses", create(math.MaxUint64, 0, nil), mem.ErrInvalidSize, mem.InvalidBufferSize, "18446744073709551615"},
		{"contradictory flags", create(8, runtime.ReadOnly|runtime.WriteOnly, nil), mem.ErrInvalidValue, mem.InvalidValue, "exclude"},
		{"content shorter than the buffer", create(8, 0, make([]byte, 7)), mem.ErrInvalidHostPtr, mem.InvalidHostPtr, "7 bytes"},

		{"a sub-buffer of no bytes", suborder(buf, 0, 0, 0), mem.ErrInvalidSize, mem.InvalidBufferSize, "0 bytes"},
		{"a sub-buffer past the end", suborder(buf, 4096-128, 256, 0), mem.ErrInvalidValue, mem.InvalidValue, "4096"},
		{"a sub-buffer that overflows", suborder(buf, math.MaxUint64-127, 256, 0), mem.ErrInvalidValue, mem.InvalidValue, "overflows"},
		{"a sub-buffer of a sub-buffer", suborder(sub, 0, 128, 0), mem.ErrInvalidBuffer, mem.InvalidMemObject, "sub-buffer"},
		{"an unaligned sub-buffer", suborder(buf, 64, 64, 0), mem.ErrMisaligned, mem.MisalignedSubBufferOffset, "128"},
		{"a sub-buffer with more access", suborder(readonly, 0, 64, runtime.ReadWrite), mem.ErrInvalidValue, mem.InvalidValue, "flags"},
		{"a sub-buffer of a released buffer", suborder(released, 0, 64, 0), mem.ErrInvalidBuffer, mem.InvalidMemObject, "released"},

		{"write of no bytes", write(buf, 0, nil), mem.ErrInvalidValue, mem.InvalidValue, "size 0"},
		{"write past the end", write(buf, 4090, data), mem.ErrInvalidValue, mem.InvalidValue, "[4090,4106)"},
		{"write past a sub-buffer's end", write(sub, 1020, data), mem.ErrInvalidValue, mem.InvalidValue, "1024"},
		{"write with an overflowing offset", write(buf, math.MaxUint64-3, data), mem.ErrInvalidValue, mem.InvalidValue, "overflows"},
		{"write to no buffer", write(nil, 0, data), mem.ErrInvalidBuffer, mem.InvalidMemObject, "nil buffer"},
		{"write to an unmade buffer", write(&runtime.Buffer{}, 0, data), mem.ErrInvalidBuffer, mem.InvalidMemObject, "nil buffer"},
		{"write to another context's buffer", write(foreign, 0, data), mem.ErrInvalidContext, mem.InvalidContext, "other"},
		{"write to a released buffer", write(released, 0, data), mem.ErrInvalidBuffer, mem.InvalidMemObject, "released"},
		{"release of no buffer", func() (runtime.Event, error) { return runtime.Event{}, (*runtime.Buffer)(nil).Release() }, mem.ErrInvalidBuffer, mem.InvalidMemObject, "nil buffer"},
		{"a sub-buffer of no buffer", suborder(nil, 0, 8, 0), mem.ErrInvalidBuffer, mem.InvalidMemObject, "nil buffer"},
		{"finish of no queue", func() (runtime.Event, error) { return runtime.Event{}, (*runtime.Queue)(nil).Finish(ctx) }, mem.ErrInvalidQueue, mem.InvalidCommandQueue, "nil queue"},
		{"an unmade buffer as argument", launch(with(1, runtime.Buf(&runtime.Buffer{}))), mem.ErrInvalidBuffer, mem.InvalidMemObject, "argument 1"},
		{"a second release", func() (runtime.Event, error) { return runtime.Event{}, released.Release() }, mem.ErrInvalidBuffer, mem.InvalidMemObject, "released"},
		{"waiting for no event", write(buf, 0, data, user, runtime.Event{}), mem.ErrInvalidWaitList, mem.InvalidEventWaitList, "entry 1"},
		{"waiting for a released event", write(buf, 0, data, gone), mem.ErrInvalidWaitList, mem.InvalidEventWaitList, "entry 0"},
		{"waiting for another context's event", write(buf, 0, data, alien), mem.ErrInvalidContext, mem.InvalidContext, "entry 0"},
		{"read to no bytes", func() (runtime.Event, error) { return q.EnqueueRead(ctx, buf, 0, nil) }, mem.ErrInvalidValue, mem.InvalidValue, "size 0"},
		{"a closed queue", func() (runtime.Event, error) { return closed.EnqueueWrite(ctx, buf, 0, data) }, mem.ErrInvalidQueue, mem.InvalidCommandQueue, "closed"},
		{"no queue", func() (runtime.Event, error) { return (*runtime.Queue)(nil).EnqueueWrite(ctx, buf, 0, data) }, mem.ErrInvalidQueue, mem.InvalidCommandQueue, "nil queue"},
		{"a marker on no queue", func() (runtime.Event, error) { return (*runtime.Queue)(nil).EnqueueMarker(ctx) }, mem.ErrInvalidQueue, mem.InvalidCommandQueue, "nil queue"},
		{"an unmade queue", func() (runtime.Event, error) { return new(runtime.Queue).EnqueueBarrier(ctx) }, mem.ErrInvalidQueue, mem.InvalidCommandQueue, "nil queue"},

		{"copy onto itself", cp(buf, buf, 0, 0, 16), mem.ErrOverlap, mem.MemCopyOverlap, "[0,16)"},
		{"copy with an overlap of one byte", cp(buf, buf, 0, 15, 16), mem.ErrOverlap, mem.MemCopyOverlap, "[15,16)"},
		{"copy that overlaps by way of a sub-buffer", cp(buf, sub, 120, 0, 16), mem.ErrOverlap, mem.MemCopyOverlap, "[128,136)"},
		{"copy past the source's end", cp(buf, spare, 4090, 0, 16), mem.ErrInvalidValue, mem.InvalidValue, "source"},
		{"copy past the destination's end", cp(buf, spare, 0, 4090, 16), mem.ErrInvalidValue, mem.InvalidValue, "destination"},
		{"copy of no bytes", cp(buf, spare, 0, 0, 0), mem.ErrInvalidValue, mem.InvalidValue, "size 0"},
		{"copy to another context", cp(buf, foreign, 0, 0, 16), mem.ErrInvalidContext, mem.InvalidContext, "other"},

		{"fill with no pattern", fill(nil, 0, 16), mem.ErrInvalidValue, mem.InvalidValue, "0 bytes"},
		{"fill with three bytes", fill(make([]byte, 3), 0, 12), mem.ErrInvalidValue, mem.InvalidValue, "3 bytes"},
		{"fill with too long a pattern", fill(make([]byte, 256), 0, 256), mem.ErrInvalidValue, mem.InvalidValue, "256"},
		{"fill of half a pattern", fill(make([]byte, 4), 0, 6), mem.ErrInvalidValue, mem.InvalidValue, "multiples"},
		{"fill at half a pattern", fill(make([]byte, 4), 2, 8), mem.ErrInvalidValue, mem.InvalidValue, "multiples"},

		{"migrate of nothing", migrate(0), mem.ErrInvalidValue, mem.InvalidValue, "no buffers"},
		{"migrate with unknown flags", migrate(1<<6, buf), mem.ErrInvalidValue, mem.InvalidValue, "0x40"},
		{"migrate of a nil buffer", migrate(0, buf, nil), mem.ErrInvalidBuffer, mem.InvalidMemObject, "nil buffer"},
		{"migrate to nowhere", migrateTo(), mem.ErrInvalidValue, mem.InvalidValue, ""},
		{"migrate to a memory that is not there", migrateTo(5), mem.ErrInvalidValue, mem.InvalidValue, "5"},
		{"migrate to a memory twice", migrateTo(1, 1), mem.ErrInvalidValue, mem.InvalidValue, ""},
		{"a host call of no function", func() (runtime.Event, error) { return q.EnqueueHostCall(ctx, nil) }, mem.ErrInvalidValue, mem.InvalidValue, "no function"},

		{"a launch of no kernel", launch(runtime.Launch{Global: []uint64{1}}), mem.ErrInvalidKernel, mem.InvalidKernel, "nil kernel"},
		{"a kernel of another context", launch(runtime.Launch{Kernel: otherKernel, Global: []uint64{1}, Args: whole()}), mem.ErrInvalidContext, mem.InvalidContext, "other"},
		{"too few arguments", launch(runtime.Launch{Kernel: kernel, Global: []uint64{1}, Args: whole()[:3]}), mem.ErrKernelArgs, mem.InvalidKernelArgs, "3 arguments"},
		{"too many arguments", launch(runtime.Launch{Kernel: kernel, Global: []uint64{1}, Args: append(whole(), runtime.Int32(1))}), mem.ErrKernelArgs, mem.InvalidKernelArgs, "5 arguments"},
		{"an argument left out", launch(with(1, runtime.Arg{})), mem.ErrKernelArgs, mem.InvalidKernelArgs, "argument 1 (in)"},
		{"an argument of the wrong kind", launch(with(0, runtime.Int32(1))), mem.ErrArgValue, mem.InvalidArgValue, "argument 0 (out)"},
		{"a value of the wrong size", launch(with(2, runtime.Int64(1))), mem.ErrArgSize, mem.InvalidArgSize, "8 bytes"},
		{"local memory of no bytes", launch(with(3, runtime.Local(0))), mem.ErrArgSize, mem.InvalidArgSize, "0 bytes"},
		{"local memory beyond the device's", launch(with(3, runtime.Local(1025))), mem.ErrNoResources, mem.OutOfResources, "1025"},
		{"local memory beyond the device's in sum", launch(runtime.Launch{Kernel: two, Global: []uint64{1}, Args: []runtime.Arg{runtime.Local(1000), runtime.Local(math.MaxUint64)}}), mem.ErrNoResources, mem.OutOfResources, "argument 1"},
		{"a write to a read-only buffer", launch(with(0, runtime.Out(readonly))), mem.ErrArgValue, mem.InvalidArgValue, "read-only"},
		{"a range past a buffer argument's end", launch(with(1, runtime.In(spare).Range(4000, 100))), mem.ErrInvalidValue, mem.InvalidValue, "[4000,4100)"},
		{"a range of a null pointer", launch(with(1, runtime.Buf(nil).Range(0, 1))), mem.ErrArgValue, mem.InvalidArgValue, "no buffer"},
		{"a released buffer argument", launch(with(1, runtime.Buf(released))), mem.ErrInvalidBuffer, mem.InvalidMemObject, "argument 1"},
		{"another context's buffer argument", launch(with(1, runtime.Buf(foreign))), mem.ErrInvalidContext, mem.InvalidContext, "argument 1"},
		{"no dimensions", launch(space(nil, nil, nil)), mem.ErrWorkDimension, mem.InvalidWorkDimension, "0 dimensions"},
		{"four dimensions", launch(space([]uint64{1, 1, 1, 1}, nil, nil)), mem.ErrWorkDimension, mem.InvalidWorkDimension, "4 dimensions"},
		{"a global size of 0", launch(space([]uint64{4, 0}, nil, nil)), mem.ErrGlobalSize, mem.InvalidGlobalWorkSize, "dimension 1"},
		{"a work-group that does not divide", launch(space([]uint64{10}, []uint64{4}, nil)), mem.ErrWorkGroupSize, mem.InvalidWorkGroupSize, "divide"},
		{"a work-group of 0", launch(space([]uint64{10}, []uint64{0}, nil)), mem.ErrWorkGroupSize, mem.InvalidWorkGroupSize, "size 0"},
		{"a work-group of other dimensions", launch(space([]uint64{8, 8}, []uint64{8}, nil)), mem.ErrWorkGroupSize, mem.InvalidWorkGroupSize, "dimensions"},
		{"too large a work-group", launch(space([]uint64{16, 16}, []uint64{16, 16}, nil)), mem.ErrWorkGroupSize, mem.InvalidWorkGroupSize, "256"},
		{"too wide a work-group", launch(space([]uint64{1, 64}, []uint64{1, 64}, nil)), mem.ErrWorkItemSize, mem.InvalidWorkItemSize, "32"},
		{"an overflowing offset", launch(space([]uint64{2}, nil, []uint64{math.MaxUint64 - 1})), mem.ErrGlobalOffset, mem.InvalidGlobalOffset, "overflows"},
		{"an offset of other dimensions", launch(space([]uint64{2}, nil, []uint64{1, 1})), mem.ErrGlobalOffset, mem.InvalidGlobalOffset, "dimensions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := h.state(buf)
			e, err := tc.call()
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.status, mem.StatusOf(err))
			require.ErrorContains(t, err, tc.says)
			require.True(t, e.IsZero())
			require.Equal(t, before, h.state(buf))
		})
	}

	t.Run("a region too small", func(t *testing.T) {
		h.ok(q.EnqueueFill(ctx, huge, []byte{1}, 0, 1<<15)) // half the device
		second := h.create(1<<15, 0, nil)
		before := h.state(buf)
		_, err := q.EnqueueFill(ctx, second, []byte{1}, 0, 1<<15)
		require.ErrorIs(t, err, mem.ErrNoMemory)
		require.Equal(t, mem.MemObjectAllocationFailure, mem.StatusOf(err))
		require.ErrorContains(t, err, "a: out of memory: 32 KiB asked for; 28 KiB free")
		require.Equal(t, before, h.state(buf))
		require.NoError(t, second.Release())
	})
	require.NoError(t, prog.Close())
	_, err := q.EnqueueLaunch(ctx, with(0, runtime.Buf(buf)))
	require.ErrorIs(t, err, mem.ErrInvalidKernel)
	require.NoError(t, otherProg.Close())
}

func TestContextsRefuseBadOptions(t *testing.T) {
	d := null.New(devices.Config{})
	defer func() { require.NoError(t, d.Close()) }()
	for _, tc := range []struct {
		name string
		o    runtime.Options
		err  error
	}{
		{"no devices", runtime.Options{}, mem.ErrInvalidValue},
		{"a nil device", runtime.Options{Devices: []devices.Device{nil}}, mem.ErrInvalidDevice},
		{"a device twice", runtime.Options{Devices: []devices.Device{d, d}}, mem.ErrInvalidDevice},
		{"caps of no memory", runtime.Options{Devices: []devices.Device{d}, Caps: make([]uint64, 3)}, mem.ErrInvalidValue},
		{"a link to nowhere", runtime.Options{Devices: []devices.Device{d}, Links: []runtime.Link{{From: 0, To: 7}}}, mem.ErrInvalidValue},
	} {
		_, err := runtime.NewContext(tc.o)
		require.ErrorIs(t, err, tc.err, tc.name)
	}
}

func TestQueuesAndProgramsWantDevicesOfTheContext(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	stranger := null.New(devices.Config{Name: "stranger"})
	defer func() { require.NoError(t, stranger.Close()) }()
	_, err := h.c.NewQueue(stranger, runtime.QueueOptions{})
	require.ErrorIs(t, err, mem.ErrInvalidDevice)
	_, err = h.c.NewQueue(nil, runtime.QueueOptions{})
	require.ErrorIs(t, err, mem.ErrInvalidDevice)
	_, err = h.c.Build(context.Background(), args, stranger)
	require.ErrorIs(t, err, mem.ErrInvalidDevice)
	_, err = h.c.Build(context.Background(), nil)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = h.c.Build(context.Background(), args) // the host's memory runs no kernels
	require.ErrorIs(t, err, mem.ErrInvalidOperation)

	two := build(t, runtime.Options{Devices: []devices.Device{small("a"), small("b")}}, runtime.QueueOptions{})
	p := must(two.c.Build(soon(t), three, two.devs[0]))
	k := must(p.Kernel("three"))
	_, err = two.q[1].EnqueueLaunch(soon(t), runtime.Launch{Kernel: k, Global: []uint64{1}})
	require.ErrorIs(t, err, runtime.ErrNotBuilt)
}

func TestEverythingAfterCloseIsRefused(t *testing.T) {
	c := must(runtime.NewContext(runtime.Options{Devices: memories(1), OwnDevices: true}))
	d := must(c.Device(1))
	_, err := c.Device(2)
	require.ErrorIs(t, err, mem.ErrInvalidDevice)
	q := must(c.NewQueue(d, runtime.QueueOptions{}))
	b := must(c.CreateBuffer(64, 0, nil))
	require.NoError(t, b.Release())
	ctx := soon(t)
	require.NoError(t, c.Close(ctx))
	require.ErrorIs(t, c.Close(ctx), mem.ErrClosed)
	_, err = c.CreateBuffer(64, 0, nil)
	require.Equal(t, mem.InvalidContext, mem.StatusOf(err))
	require.ErrorIs(t, err, mem.ErrInvalidContext)
	_, err = c.NewUserEvent()
	require.Equal(t, mem.InvalidContext, mem.StatusOf(err))
	_, err = c.NewQueue(d, runtime.QueueOptions{})
	require.Equal(t, mem.InvalidContext, mem.StatusOf(err))
	_, err = q.EnqueueMarker(ctx)
	require.Equal(t, mem.InvalidContext, mem.StatusOf(err))
	require.Equal(t, mem.InvalidContext, mem.StatusOf(q.Finish(ctx)))
	require.Equal(t, mem.InvalidContext, mem.StatusOf(q.Flush()))
}
