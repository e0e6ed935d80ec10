package runtime_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/mem"
	"godwit/runtime"
)

// TestTransientsAreBuffersWithinARound: commands over buffers that stay and transients, on some devices, leave in
// those that stay what they leave in plain bytes, also when several replays run at once over the same
// memory, and where devices have too little of it; and the memory is no less than what is in use at once.
func TestTransientsAreBuffersWithinARound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx := soon(t)
		n := rapid.IntRange(1, 3).Draw(rt, "devices")
		short := rapid.Bool().Draw(rt, "short")
		devs := memories(n)
		for i := range devs {
			if short {
				devs[i] = must(cpu.New(cpu.Options{Memory: 128 * rapid.Uint64Range(2, 5).Draw(rt, "memory")}))
			}
		}
		c := must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true}))
		var q []*runtime.Queue
		for i := range n {
			d := must(c.Device(mem.MemoryID(i + 1)))
			q = append(q, must(c.NewQueue(d, runtime.QueueOptions{OutOfOrder: rapid.Bool().Draw(rt, "out of order")})))
		}
		const stay, size = 3, 96
		model, first := make([][]byte, stay), make([]*runtime.Buffer, stay)
		bufs := make([]*runtime.Buffer, 0, stay)
		for i := range model {
			model[i] = make([]byte, size)
			first[i] = must(c.CreateBuffer(size, 0, model[i]))
			bufs = append(bufs, first[i])
		}
		rec := must(c.Record(q...))
		for range rapid.IntRange(1, 6).Draw(rt, "transients") {
			bufs = append(bufs, must(rec.Transient("t", size)))
			model = append(model, make([]byte, size))
		}
		var round []func()
		known := make([]bool, len(bufs))
		fill := func(i int) {
			v := byte(rapid.IntRange(1, 255).Draw(rt, "value"))
			require.NoError(rt, must(rapid.SampledFrom(q).Draw(rt, "queue").EnqueueFill(ctx, bufs[i], []byte{v}, 0, size)).Release())
			round = append(round, func() {
				for k := range model[i] {
					model[i][k] = v
				}
			})
			known[i] = true
		}
		for range rapid.IntRange(1, 20).Draw(rt, "commands") {
			from, to := rapid.IntRange(0, len(bufs)-1).Draw(rt, "from"), rapid.IntRange(0, len(bufs)-1).Draw(rt, "to")
			if from == to {
				fill(to)
				continue
			}
			for _, i := range []int{from, to} {
				if i >= stay && !known[i] {
					fill(i)
				}
			}
			off, length := rapid.IntRange(0, size/2).Draw(rt, "off"), rapid.IntRange(1, size/2).Draw(rt, "length")
			require.NoError(rt, must(rapid.SampledFrom(q).Draw(rt, "queue").EnqueueCopy(ctx, bufs[from], bufs[to], uint64(off), 0, uint64(length))).Release())
			round = append(round, func() { copy(model[to][:length], model[from][off:]) })
		}
		g := must(rec.Finish(ctx))
		for range 3 {
			require.NoError(rt, must(g.Replay(ctx, q[0], runtime.Bindings{})).Release())
			for _, f := range round {
				f()
			}
			require.NoError(rt, c.Check())
		}
		got := make([]byte, size)
		for i, b := range first {
			require.NoError(rt, q[0].Read(ctx, b, 0, got))
			require.Equal(rt, model[i], got, "buffer %d", i)
			require.NoError(rt, b.Release())
		}
		f := g.Figures()
		require.True(rt, short || f.Plain == 0, f.Why)
		require.LessOrEqual(rt, f.Live, f.Transients)
		require.NoError(rt, g.Close())
		require.ErrorIs(rt, g.Close(), mem.ErrClosed)
		_, err := g.Replay(ctx, q[0], runtime.Bindings{})
		require.Error(rt, err)
		require.NoError(rt, c.Close(ctx))
	})
}

// TestTransientsTakeWhatIsInUseAtOnce: in a chain of layers two are in use at a time, whatever their number; nothing of
// them moves at the begin of a round, or is written back.
func TestTransientsTakeWhatIsInUseAtOnce(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{})
	ctx := soon(t)
	const layers, size = 8, 1 << 10
	x, y := h.buffer(size, make([]byte, size)), h.buffer(size, nil)
	rec := must(h.c.Record(h.q...))
	last := x
	for range layers {
		next := must(rec.Transient("layer", size))
		require.NoError(t, must(h.q[0].EnqueueCopy(ctx, last, next, 0, 0, size)).Release())
		last = next
	}
	require.NoError(t, must(h.q[0].EnqueueCopy(ctx, last, y, 0, 0, size)).Release())
	g := must(rec.Finish(ctx))
	for i := range 3 {
		before := h.c.Stats().BytesMoved
		require.NoError(t, h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{})).Wait(ctx))
		require.Equal(t, i == 0, h.c.Stats().BytesMoved > before, "x, in the first round")
	}
	f := g.Figures()
	require.EqualValues(t, 2*size, f.Live)
	require.Equal(t, f.Live, f.Transients)
	d := must(h.c.Device(1))
	require.EqualValues(t, (2+2)*size, h.c.Footprint(must(h.c.Memory(d))).Now, "x, y and two layers")
	require.NoError(t, g.Close())
}

// TestTransientsOfWhichTooManyAreUsedAreNotWrittenBack: where the arena does not fit beside what stays, each transient has
// memory until its last command, and what moves is what has to be readable.
func TestTransientsOfWhichTooManyAreUsedAreNotWrittenBack(t *testing.T) {
	const layers, size = 8, 1 << 10
	h := build(t, runtime.Options{Devices: []devices.Device{must(cpu.New(cpu.Options{Memory: 2 * size}))}}, runtime.QueueOptions{})
	ctx := soon(t)
	y, z := h.buffer(size, nil), h.buffer(size, nil)
	rec := must(h.c.Record(h.q...))
	last := must(rec.Transient("first", size))
	require.NoError(t, must(h.q[0].EnqueueFill(ctx, last, []byte{7}, 0, size)).Release())
	for i := range layers {
		next := must(rec.Transient("layer", size))
		if i == layers/2 {
			next = y
		}
		require.NoError(t, must(h.q[0].EnqueueCopy(ctx, last, next, 0, 0, size)).Release())
		last = next
	}
	require.NoError(t, must(h.q[0].EnqueueCopy(ctx, last, z, 0, 0, size)).Release())
	g := must(rec.Finish(ctx))
	for range 3 {
		before := h.c.Stats().BytesMoved
		require.NoError(t, h.ok(g.Replay(ctx, h.q[0], runtime.Bindings{})).Wait(ctx))
		require.LessOrEqual(t, h.c.Stats().BytesMoved-before, uint64(2*size), "y and z")
	}
	require.EqualValues(t, 3, g.Figures().Plain)
	require.NoError(t, g.Close())
	for _, b := range []*runtime.Buffer{y, z} {
		got := make([]byte, size)
		require.NoError(t, h.q[0].Read(ctx, b, 0, got))
		require.Equal(t, bytes.Repeat([]byte{7}, size), got)
	}
}

func TestNobodysTransientIsNowhere(t *testing.T) {
	h, k := graphHouse(t)
	x := h.buffer(64, nil)
	rec := must(h.c.Record(h.q[0]))
	some, idle := must(rec.Transient("some", 64)), must(rec.Transient("idle", 64))
	require.NoError(t, must(h.q[0].EnqueueLaunch(soon(t), add(k, some, x, 1))).Release())
	g := must(rec.Finish(soon(t)))
	in, _, used := g.Placed(some)
	require.True(t, used)
	require.NotZero(t, in)
	for _, b := range []*runtime.Buffer{nil, {}, x, idle} {
		_, _, used := g.Placed(b)
		require.False(t, used)
	}
	_, _, used = new(runtime.Graph).Placed(some)
	require.False(t, used)
	require.NoError(t, g.Close())
}
