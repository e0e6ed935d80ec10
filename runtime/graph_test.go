package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// addTo is y[i] = x[i] + n.
var addTo = &devices.Program{Name: "add", Go: []devices.GoKernel{{
	Name: "add",
	Args: []devices.ArgInfo{devices.BufferArg[uint8]("y", mem.ReadWrite), devices.BufferArg[uint8]("x", mem.Read), devices.ValueArg[uint32]("n")},
	Func: func(g *work.Group) {
		y, x, n := work.Global[uint8](g, 0), work.Global[uint8](g, 1), work.Value[uint32](g, 2)
		for i := range int(g.Bytes(0)) {
			y.Store(i, x.Load(i)+uint8(n))
		}
	},
}}}

// graphHouse is two cpu devices with the kernel add.
func graphHouse(t *testing.T) (*house, *runtime.Kernel) {
	t.Helper()
	var devs []devices.Device
	for range 2 {
		devs = append(devs, must(cpu.New(cpu.Options{})))
	}
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	return h, must(must(h.c.Build(soon(t), addTo)).Kernel("add"))
}

func add(k *runtime.Kernel, y, x *runtime.Buffer, n uint32) runtime.Launch {
	return runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{runtime.Out(y), runtime.In(x), runtime.Uint32(n)}}
}

// TestAGraphRunsWithOtherBuffersAndValues: what is recorded runs only in replays, each with its own slots and values.
func TestAGraphRunsWithOtherBuffersAndValues(t *testing.T) {
	h, k := graphHouse(t)
	ctx := soon(t)
	x := h.buffer(256, bytes.Repeat([]byte{1}, 256))
	between := h.buffer(256, nil)
	rec := must(h.c.Record(h.q...))
	out := must(rec.Slot("out", 128, 0))
	first := must(h.q[0].EnqueueLaunch(ctx, add(k, between, x, 1)))
	part := must(between.Sub(0, 128, 0))
	second := must(h.q[1].EnqueueLaunch(ctx, add(k, out, part, 10), first))
	n := must(rec.Value(second, 2))
	require.Zero(t, h.c.Stats().Commands, "a command ran while it was recorded")
	g := must(rec.Finish(ctx))
	require.NoError(t, errors.Join(first.Release(), second.Release()))

	y := h.buffer(512, bytes.Repeat([]byte{77}, 512))
	half := must(y.Sub(256, 128, 0))
	other := h.buffer(128, nil)
	for _, tc := range []struct {
		to   *runtime.Buffer
		n    []runtime.NewValue
		want byte
	}{
		{half, nil, 12},
		{other, []runtime.NewValue{{Value: n, Arg: runtime.Uint32(20)}}, 22},
		{half, nil, 12},
	} {
		e := h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{Slots: []runtime.Binding{{Slot: out, Buffer: tc.to}}, Values: tc.n}))
		require.NoError(t, e.Wait(ctx))
		got := make([]byte, 128)
		require.NoError(t, h.q[0].Read(ctx, tc.to, 0, got))
		require.Equal(t, bytes.Repeat([]byte{tc.want}, 128), got)
	}
	got := make([]byte, 256)
	require.NoError(t, h.q[1].Read(ctx, y, 0, got))
	require.Equal(t, bytes.Repeat([]byte{77}, 256), got, "beside the slot")
	f := g.Figures()
	require.Zero(t, f.Plain, f.Why)
	require.EqualValues(t, 128, f.Bytes, "what the second launch reads of the first")
	require.Zero(t, f.Entry, "x is there since the first replay")
	require.NoError(t, errors.Join(half.Release(), part.Release()))
}

// TestWhatCannotBeRecordedOrReplayed is the table of errors.
func TestWhatCannotBeRecordedOrReplayed(t *testing.T) {
	h, k := graphHouse(t)
	ctx, q := soon(t), h.q[0]
	x, y := h.buffer(64, make([]byte, 64)), h.buffer(64, nil)
	outside := must(q.EnqueueMarker(ctx))
	_, err := h.c.Record()
	require.ErrorIs(t, err, mem.ErrInvalidQueue)
	rec := must(h.c.Record(q))
	_, err = h.c.Record(h.q[1], q)
	require.ErrorIs(t, err, mem.ErrInvalidOperation, "it records already")
	_, err = rec.Slot("s", 64, runtime.UseHostPtr)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	s := must(rec.Slot("s", 64, 0))
	inside := must(q.EnqueueLaunch(ctx, add(k, s, x, 1)))
	v := must(rec.Value(inside, 2))

	for name, tc := range map[string]struct {
		call func() error
		want error
	}{
		"map":                    {func() error { _, _, err := q.EnqueueMap(ctx, x, 0, 64, runtime.MapRead); return err }, mem.ErrInvalidOperation},
		"a call that waits":      {func() error { return q.Read(ctx, x, 0, make([]byte, 64)) }, mem.ErrInvalidOperation},
		"an event from outside":  {func() error { _, err := q.EnqueueMarker(ctx, outside); return err }, mem.ErrInvalidWaitList},
		"an event from inside":   {func() error { _, err := h.q[1].EnqueueMarker(ctx, inside); return err }, mem.ErrInvalidWaitList},
		"the state of one":       {func() error { _, err := inside.Status(); return err }, mem.ErrInvalidEvent},
		"a wait for one":         {func() error { return inside.Wait(ctx) }, mem.ErrInvalidEvent},
		"a value that is none":   {func() error { _, err := rec.Value(inside, 0); return err }, mem.ErrArgValue},
		"a value of another":     {func() error { _, err := rec.Value(outside, 0); return err }, mem.ErrInvalidEvent},
		"a slot outside":         {func() error { _, err := h.q[1].EnqueueFill(ctx, s, []byte{1}, 0, 64); return err }, mem.ErrInvalidBuffer},
		"a slot that is renamed": {func() error { return s.Release() }, mem.ErrInvalidBuffer},
	} {
		require.ErrorIs(t, tc.call(), tc.want, name)
	}
	g := must(rec.Finish(ctx))
	require.NoError(t, inside.Release())
	_, err = rec.Finish(ctx)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.ErrorIs(t, rec.Discard(), mem.ErrInvalidOperation)
	_, err = rec.Slot("late", 1, 0)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)

	readOnly := must(y.Sub(0, 64, runtime.ReadOnly))
	bound := []runtime.Binding{{Slot: s, Buffer: y}}
	for name, tc := range map[string]struct {
		in   runtime.Bindings
		want error
	}{
		"no slots":                 {runtime.Bindings{}, mem.ErrInvalidValue},
		"no slot":                  {runtime.Bindings{Slots: []runtime.Binding{{Slot: x, Buffer: y}}}, mem.ErrInvalidValue},
		"nothing in a slot":        {runtime.Bindings{Slots: []runtime.Binding{{Slot: s}}}, mem.ErrInvalidBuffer},
		"a slot in a slot":         {runtime.Bindings{Slots: []runtime.Binding{{Slot: s, Buffer: s}}}, mem.ErrInvalidBuffer},
		"another size":             {runtime.Bindings{Slots: []runtime.Binding{{Slot: s, Buffer: h.buffer(65, nil)}}}, mem.ErrInvalidValue},
		"what is read only":        {runtime.Bindings{Slots: []runtime.Binding{{Slot: s, Buffer: readOnly}}}, mem.ErrInvalidValue},
		"a longer value":           {runtime.Bindings{Slots: bound, Values: []runtime.NewValue{{Value: v, Arg: runtime.Uint64(1)}}}, mem.ErrArgSize},
		"a number of another kind": {runtime.Bindings{Slots: bound, Values: []runtime.NewValue{{Value: v, Arg: runtime.Float32(1)}}}, mem.ErrArgValue},
		"a buffer for value":       {runtime.Bindings{Slots: bound, Values: []runtime.NewValue{{Value: v, Arg: runtime.Buf(x)}}}, mem.ErrArgSize},
		"room for two":             {runtime.Bindings{Slots: bound, Events: make([]runtime.Event, 2)}, mem.ErrInvalidValue},
	} {
		_, err := g.Replay(ctx, q, tc.in)
		require.ErrorIs(t, err, tc.want, name)
	}
	_, err = g.Replay(ctx, nil, runtime.Bindings{})
	require.ErrorIs(t, err, mem.ErrInvalidQueue)
	_, err = new(runtime.Graph).Replay(ctx, q, runtime.Bindings{})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.ErrorIs(t, (*runtime.Graph)(nil).Close(), mem.ErrInvalidValue)
	require.Zero(t, new(runtime.Graph).Figures())
	require.ErrorIs(t, new(runtime.Recording).Discard(), mem.ErrInvalidValue)
	_, err = g.Replay(ctx, q, runtime.Bindings{Slots: bound}, runtime.Event{})
	require.ErrorIs(t, err, mem.ErrInvalidWaitList)
	require.NoError(t, x.Release())
	_, err = g.Replay(ctx, q, runtime.Bindings{Slots: bound})
	require.ErrorIs(t, err, mem.ErrInvalidBuffer, "a buffer of the graph was released")
	require.NoError(t, errors.Join(outside.Release(), readOnly.Release()))
}

// TestAReplayThatFailsTellsItsEvent: by a command in its middle, or by an event that all of it waits for.
func TestAReplayThatFailsTellsItsEvent(t *testing.T) {
	h, k := graphHouse(t)
	ctx := soon(t)
	x, y, z := h.buffer(64, make([]byte, 64)), h.buffer(64, nil), h.buffer(64, nil)
	broken, fails := errors.New("broken"), false
	rec := must(h.c.Record(h.q...))
	call := must(h.q[0].EnqueueHostCall(ctx, func(context.Context) error {
		if fails {
			return broken
		}
		return nil
	}))
	for _, e := range []runtime.Event{call, must(h.q[0].EnqueueLaunch(ctx, add(k, y, x, 1), call)), must(h.q[1].EnqueueLaunch(ctx, add(k, z, x, 1)))} {
		require.NoError(t, e.Release())
	}
	g := must(rec.Finish(ctx))
	replay := func(wait ...runtime.Event) (all runtime.Event, each []runtime.Event) {
		each = make([]runtime.Event, 3)
		return h.ok(g.Replay(ctx, h.q[1], runtime.Bindings{Events: each}, wait...)), each
	}
	got := make([]byte, 64)

	fails = true
	all, each := replay()
	require.ErrorIs(t, all.Wait(ctx), broken)
	require.ErrorIs(t, each[1].Wait(ctx), broken)
	require.NoError(t, each[2].Wait(ctx), "it waits for nothing that failed")
	require.ErrorIs(t, h.q[0].Read(ctx, y, 0, got), mem.ErrPoisoned)
	require.NoError(t, h.q[0].Read(ctx, z, 0, got))

	fails = false
	all, _ = replay()
	require.NoError(t, all.Wait(ctx))
	require.NoError(t, h.q[0].Read(ctx, y, 0, got), "the next replay has written it")

	gate := must(h.c.NewUserEvent())
	all, each = replay(gate)
	require.NoError(t, gate.SetStatus(-5))
	for _, e := range append(each, all) {
		require.Error(t, e.Wait(ctx))
	}
	require.ErrorIs(t, h.q[0].Read(ctx, z, 0, got), mem.ErrPoisoned)
	_ = h.q[0].Finish(ctx)
	_ = h.q[1].Finish(ctx)
}

// TestAPlainReplaySaysWhy: what the round's plan does not apply to is enqueued one by one.
func TestAPlainReplaySaysWhy(t *testing.T) {
	h, k := graphHouse(t)
	ctx := soon(t)
	x := h.buffer(256, make([]byte, 256))
	rec := must(h.c.Record(h.q...))
	a, b := must(rec.Slot("a", 128, 0)), must(rec.Slot("b", 128, 0))
	require.NoError(t, must(h.q[0].EnqueueLaunch(ctx, add(k, a, b, 1))).Release())
	g := must(rec.Finish(ctx))
	left, right := must(x.Sub(0, 128, 0)), must(x.Sub(128, 128, 0))
	for range 3 { // to and fro: right = left + 1, left = right + 1
		require.NoError(t, h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{Slots: []runtime.Binding{{Slot: a, Buffer: right}, {Slot: b, Buffer: left}}})).Wait(ctx))
		require.NoError(t, h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{Slots: []runtime.Binding{{Slot: a, Buffer: left}, {Slot: b, Buffer: right}}})).Wait(ctx))
	}
	got := make([]byte, 256)
	require.NoError(t, h.q[1].Read(ctx, x, 0, got))
	require.Equal(t, append(bytes.Repeat([]byte{6}, 128), bytes.Repeat([]byte{5}, 128)...), got)
	f := g.Figures()
	require.EqualValues(t, 6, f.Plain)
	require.Equal(t, "two buffers of the graph are one", f.Why)
	require.NoError(t, errors.Join(left.Release(), right.Release()))
}

// TestAPlainReplayOrdersNothingThatItsQueuesDoNot: on queues out of order commands wait for what they use, and for no more.
func TestAPlainReplayOrdersNothingThatItsQueuesDoNot(t *testing.T) {
	h, _ := graphHouse(t)
	ctx := soon(t)
	loose := h.queue(must(h.c.Device(1)), runtime.QueueOptions{OutOfOrder: true})
	x := h.buffer(256, nil)
	rec := must(h.c.Record(loose))
	a, b := must(rec.Slot("a", 128, 0)), must(rec.Slot("b", 128, 0))
	for _, slot := range []*runtime.Buffer{a, b} {
		require.NoError(t, must(loose.EnqueueFill(ctx, slot, []byte{1}, 0, 128)).Release())
	}
	g := must(rec.Finish(ctx))
	left, right := must(x.Sub(0, 128, 0)), must(x.Sub(128, 128, 0))
	require.NoError(t, h.ok(g.Replay(ctx, loose, runtime.Bindings{Slots: []runtime.Binding{{Slot: a, Buffer: left}, {Slot: b, Buffer: right}}})).Wait(ctx))
	require.EqualValues(t, 1, g.Figures().Plain)
	commands := h.rec.Commands() // a fill, a fill, and the replay's end
	for _, c := range commands[len(commands)-3 : len(commands)-1] {
		require.Empty(t, c.Waits, "%+v", c)
	}
	require.NoError(t, errors.Join(left.Release(), right.Release(), g.Close()))
}

// TestAReplayIsOneRecordEach: the sink hears of each command of a replay, and of the copies
// ahead of them, in order.
func TestAReplayIsOneRecordEach(t *testing.T) {
	h, k := graphHouse(t)
	ctx := soon(t)
	x, y := h.buffer(64, make([]byte, 64)), h.buffer(64, nil)
	rec := must(h.c.Record(h.q...))
	for i, q := range h.q {
		from, to := x, y
		if i > 0 {
			from, to = y, x
		}
		require.NoError(t, must(q.EnqueueLaunch(ctx, add(k, to, from, 1))).Release())
	}
	g := must(rec.Finish(ctx))
	for range 2 {
		require.NoError(t, h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{})).Wait(ctx))
	}
	var ops []string
	var versions []mem.Version
	for _, c := range h.rec.Commands() {
		ops = append(ops, c.Op)
		for _, s := range c.Steps {
			versions = append(versions, s.Newest)
		}
	}
	once := []string{"launch", "ahead", "launch", "ahead", "marker"}
	require.Equal(t, append(append([]string{"ahead"}, once...), once...), ops)
	commands := h.rec.Commands()
	require.Equal(t, commands[1].Version, versions[1], "the copy behind the first launch brings what that wrote")
	require.Equal(t, commands[3].Version, versions[2], "what the next round begins with is there when it does")
	require.IsType(t, []trace.CommandRecord{}, commands)
}

// TestWhatTheNextRoundReadsComesAtTheEndOfThisOne: behind its last writer, but for a slot, which may be another buffer then, and
// without more bytes in a steady round.
func TestWhatTheNextRoundReadsComesAtTheEndOfThisOne(t *testing.T) {
	h, k := graphHouse(t)
	ctx := soon(t)
	x, y, z := h.buffer(64, make([]byte, 64)), h.buffer(64, nil), h.buffer(64, make([]byte, 64))
	rec := must(h.c.Record(h.q...))
	s := must(rec.Slot("s", 64, 0))
	for _, l := range []struct {
		q     int
		to, x *runtime.Buffer
	}{{0, y, x}, {0, y, s}, {1, x, x}, {1, s, s}} {
		if l.to == l.x {
			require.NoError(t, must(h.q[l.q].EnqueueFill(ctx, l.to, []byte{5}, 0, 64)).Release())
			continue
		}
		require.NoError(t, must(h.q[l.q].EnqueueLaunch(ctx, add(k, l.to, l.x, 1))).Release())
	}
	g := must(rec.Finish(ctx))
	require.EqualValues(t, 64, g.Figures().Bytes, "x, to where the first launch reads it")
	for i := range 3 {
		before := h.c.Stats().BytesMoved
		require.NoError(t, h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{Slots: []runtime.Binding{{Slot: s, Buffer: z}}})).Wait(ctx))
		if f := g.Figures(); i > 0 {
			require.EqualValues(t, 64, f.Entry, "the slot's bytes")
			require.EqualValues(t, 2*64, h.c.Stats().BytesMoved-before)
		}
	}
	got := make([]byte, 64)
	require.NoError(t, h.q[0].Read(ctx, x, 0, got))
	require.Equal(t, bytes.Repeat([]byte{5}, 64), got)
}

// TestReplaysAllocateNothing, whatever is bound to their slots.
func TestReplaysAllocateNothing(t *testing.T) {
	devs := []devices.Device{null.New(devices.Config{Name: "a"}), null.New(devices.Config{Name: "b"})}
	c := must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true}))
	ctx := context.Background()
	k := must(must(c.Build(ctx, addTo)).Kernel("add"))
	var q []*runtime.Queue
	for _, d := range devs {
		q = append(q, must(c.NewQueue(d, runtime.QueueOptions{})))
	}
	x, y, z := must(c.CreateBuffer(4096, 0, nil)), must(c.CreateBuffer(4096, 0, nil)), must(c.CreateBuffer(4096, 0, nil))
	rec := must(c.Record(q...))
	out := must(rec.Slot("out", 4096, 0))
	e := must(q[0].EnqueueLaunch(ctx, add(k, x, y, 1)))
	v := must(rec.Value(e, 2))
	for range 5 {
		require.NoError(t, must(q[1].EnqueueLaunch(ctx, add(k, out, x, 1))).Release())
		require.NoError(t, must(q[0].EnqueueLaunch(ctx, add(k, x, out, 1))).Release())
	}
	g := must(rec.Finish(ctx))
	require.NoError(t, e.Release())
	slots := []runtime.Binding{{Slot: out, Buffer: y}}
	values := []runtime.NewValue{{Value: v, Arg: runtime.Uint32(3)}}
	f := func() {
		e, err := g.Replay(ctx, q[1], runtime.Bindings{Slots: slots, Values: values})
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
		if slots[0].Buffer == y {
			slots[0].Buffer = z
		} else {
			slots[0].Buffer = y
		}
	}
	for range 50 {
		f()
	}
	// Bound to y, which the graph names itself, a replay is plain.
	require.EqualValues(t, 25, g.Figures().Plain)
	slots[0].Buffer = z
	require.Zero(t, testing.AllocsPerRun(100, func() { slots[0].Buffer = z; f() }))
	for _, b := range []*runtime.Buffer{x, y, z} {
		require.NoError(t, b.Release())
	}
	require.NoError(t, c.Close(ctx))
}

// TestPreparedCommandsFollowBlocksAndSlots: what a queue was given before is made again where a
// block has moved since, or a slot is another buffer.
func TestPreparedCommandsFollowBlocksAndSlots(t *testing.T) {
	h, k := graphHouse(t)
	ctx := soon(t)
	x, y, z := h.buffer(128, bytes.Repeat([]byte{1}, 128)), h.buffer(128, nil), h.buffer(128, nil)
	rec := must(h.c.Record(h.q[0]))
	out := must(rec.Slot("out", 128, 0))
	require.NoError(t, must(h.q[0].EnqueueLaunch(ctx, add(k, out, x, 1))).Release())
	g := must(rec.Finish(ctx))
	for i, to := range []*runtime.Buffer{y, z, y, y, z, z} {
		n := byte(10 * (i + 1))
		require.NoError(t, h.q[1].Write(ctx, x, 0, bytes.Repeat([]byte{n}, 128)))
		if i > 2 { // its block on the first device is another one from now on
			require.NoError(t, x.Drop(must(h.c.Device(1))))
			more := h.buffer(128, nil)
			require.NoError(t, must(h.q[0].EnqueueFill(ctx, more, []byte{99}, 0, 128)).Wait(ctx))
		}
		require.NoError(t, h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{Slots: []runtime.Binding{{Slot: out, Buffer: to}}})).Wait(ctx))
		got := make([]byte, 128)
		require.NoError(t, h.q[1].Read(ctx, to, 0, got))
		require.Equal(t, bytes.Repeat([]byte{n + 1}, 128), got, "replay %d", i)
	}
	require.Zero(t, g.Figures().Plain, g.Figures().Why)
}

// TestLaunchesChangeWhileOthersReplay: a launch may be changed for good while another goroutine
// replays with a value of its own.
func TestLaunchesChangeWhileOthersReplay(t *testing.T) {
	h, k := graphHouse(t)
	ctx := soon(t)
	x, y := h.buffer(64, make([]byte, 64)), h.buffer(64, nil)
	rec := must(h.c.Record(h.q...))
	e := must(h.q[0].EnqueueLaunch(ctx, add(k, y, x, 1)))
	v := must(rec.Value(e, 2))
	g := must(rec.Finish(ctx))
	require.NoError(t, e.Release())
	var work sync.WaitGroup
	work.Go(func() {
		for n := range uint32(100) {
			require.NoError(t, g.SetLaunch(0, add(k, y, x, n)))
		}
	})
	for range 100 {
		h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{Values: []runtime.NewValue{{Value: v, Arg: runtime.Uint32(7)}}}))
	}
	work.Wait()
	got := make([]byte, 64)
	require.NoError(t, h.q[1].Read(ctx, y, 0, got))
	require.EqualValues(t, 7, got[63])
}
