package metamorphic_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/internal/history"
	"godwit/mem"
	"godwit/runtime"
	"godwit/study/bound"
)

// TestGraphsDoWhatTheirCommandsWould replays histories of which neighbouring operations are
// recorded and replayed, once or more, at once and later, on 1 to 8 devices (C16): with maps,
// releases and evictions between them, and with every call that a driver gets struck now and then.
func TestGraphsDoWhatTheirCommandsWould(t *testing.T) {
	all, faulty := configs(), faultyConfigs()
	total := history.Test(t, 8000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		cfg, failing := all[dice.IntN(len(all))], dice.IntN(2) == 0
		if failing && dice.IntN(6) > 0 {
			cfg = faulty[dice.IntN(len(faulty))]
		}
		cfg.Graphs, cfg.Name = true, cfg.Name+"/graphs"
		return history.Generate(history.Draw{Seed: seed, Ops: 20 + dice.IntN(200), Failing: failing}), cfg
	})
	require.Positive(t, total.Ops["replay, plain"])
	require.Positive(t, total.Ops["replay, prepared"])
	require.Positive(t, total.Ops["replay, prepared with copies"])
	require.Positive(t, total.Ops["to a transient"])
	require.Positive(t, total.Struck)
	require.Positive(t, total.Evictions)
}

// TestASteadyRoundMovesTheBound records random commands on 2 to 8 devices, replays them three times, and
// compares what the last one moved with a bound that knows the accesses alone. Enqueued one
// by one the same commands move as much.
func TestASteadyRoundMovesTheBound(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		var devs []devices.Device
		n := rapid.IntRange(2, 8).Draw(t, "devices")
		for i := range n {
			devs = append(devs, null.New(devices.Config{Name: fmt.Sprint("n", i)}))
		}
		c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(ctx)) }()
		var queues []*runtime.Queue
		for _, d := range devs {
			q, err := c.NewQueue(d, runtime.QueueOptions{OutOfOrder: rapid.Bool().Draw(t, "out of order")})
			require.NoError(t, err)
			queues = append(queues, q)
		}
		const size = 64
		var bufs []*runtime.Buffer
		for range rapid.IntRange(1, 4).Draw(t, "buffers") {
			b, err := c.CreateBuffer(size, 0, make([]byte, size))
			require.NoError(t, err)
			defer func() { require.NoError(t, b.Release()) }()
			bufs = append(bufs, b)
		}
		rec, err := c.Record(queues...)
		require.NoError(t, err)
		var commands [][]mem.Access
		for range rapid.IntRange(1, 30).Draw(t, "commands") {
			commands = append(commands, enqueueAny(ctx, t, queues, bufs))
		}
		g, err := rec.Finish(ctx)
		require.NoError(t, err)
		moved := uint64(0)
		for range 3 {
			before := c.Stats().BytesMoved
			e, err := g.Replay(ctx, queues[0], runtime.Bindings{})
			require.NoError(t, err)
			require.NoError(t, e.Wait(ctx))
			moved = c.Stats().BytesMoved - before
		}
		f := g.Figures()
		require.Zero(t, f.Plain, f.Why)
		require.Equal(t, f.Bytes+f.Entry, moved)
		require.Equal(t, bound.Round(c.Topology().Store, commands), moved)
		require.NoError(t, c.Check())
	})
}

// enqueueAny enqueues a command that rapid draws, and says what it accesses.
func enqueueAny(ctx context.Context, t *rapid.T, queues []*runtime.Queue, bufs []*runtime.Buffer) []mem.Access {
	q := rapid.SampledFrom(queues).Draw(t, "queue")
	part := func(of string, size uint64) (*runtime.Buffer, mem.Range) {
		b := rapid.SampledFrom(bufs).Draw(t, of)
		if size == 0 {
			size = rapid.Uint64Range(1, b.Size()).Draw(t, "size")
		}
		start := rapid.Uint64Range(0, b.Size()-size).Draw(t, "start")
		return b, mem.Range{Start: start, End: start + size}
	}
	use := func(b *runtime.Buffer, r mem.Range, mode mem.Mode) mem.Access {
		return mem.Access{Buffer: b.ID(), Memory: q.Memory(), Range: r, Mode: mode}
	}
	b, r := part("buffer", 0)
	var err error
	var accs []mem.Access
	switch rapid.IntRange(0, 3).Draw(t, "command") {
	case 0:
		_, err = q.EnqueueFill(ctx, b, []byte{1}, r.Start, r.Size())
		accs = []mem.Access{use(b, r, mem.Write)}
	case 1:
		_, err = q.EnqueueRead(ctx, b, r.Start, make([]byte, r.Size()))
		accs = []mem.Access{use(b, r, mem.Read)}
	case 2:
		_, err = q.EnqueueMigrate(ctx, []*runtime.Buffer{b}, 0)
		accs = []mem.Access{use(b, mem.Range{End: b.Size()}, mem.Read)}
	default:
		to, dst := part("destination", r.Size())
		if to == b && dst.Overlaps(r) {
			return nil
		}
		_, err = q.EnqueueCopy(ctx, b, to, r.Start, dst.Start, r.Size())
		accs = []mem.Access{use(b, r, mem.Read), use(to, dst, mem.Write)}
	}
	require.NoError(t, err)
	return accs
}
