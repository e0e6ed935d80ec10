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

// TestARoundOnShortMemoriesMovesNoLessThanTheBound records random fills and copies on 2 to 8 devices with room for
// a few buffers, some of which are transient, and replays them for long: no run of rounds moves less than the bound says, but for what
// may be in place at its begin.
func TestARoundOnShortMemoriesMovesNoLessThanTheBound(t *testing.T) {
	const unit, rounds = 128, 24
	ctx := t.Context()
	plain, moves, bounds := 0, uint64(0), uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "devices")
		var devs []devices.Device
		capacity := []uint64{0}
		for range n {
			capacity = append(capacity, unit*rapid.Uint64Range(6, 10).Draw(t, "memory"))
			devs = append(devs, null.New(devices.Config{Memory: capacity[len(devs)+1]}))
		}
		c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(ctx)) }()
		var queues []*runtime.Queue
		for _, d := range devs {
			q, err := c.NewQueue(d, runtime.QueueOptions{})
			require.NoError(t, err)
			queues = append(queues, q)
		}
		rec, err := c.Record(queues...)
		require.NoError(t, err)
		var bufs []*runtime.Buffer
		var transient, written []bool
		var data uint64
		for i := range rapid.IntRange(3, 9).Draw(t, "buffers") {
			size, ends := unit*rapid.Uint64Range(1, 3).Draw(t, "size"), rapid.IntRange(0, 3).Draw(t, "transient") == 0
			var b *runtime.Buffer
			if ends {
				b, err = rec.Transient(fmt.Sprint("t", i), size)
			} else if b, err = c.CreateBuffer(size, 0, make([]byte, size)); err == nil {
				defer func() { require.NoError(t, b.Release()) }()
			}
			require.NoError(t, err)
			bufs, transient, written, data = append(bufs, b), append(transient, ends), append(written, false), data+size
		}
		var commands [][]mem.Access
		for range rapid.IntRange(2, 30).Draw(t, "commands") {
			q := rapid.SampledFrom(queues).Draw(t, "queue")
			from, to := rapid.IntRange(0, len(bufs)-1).Draw(t, "from"), rapid.IntRange(0, len(bufs)-1).Draw(t, "to")
			size := min(bufs[from].Size(), bufs[to].Size())
			use := func(b int, size uint64, mode mem.Mode) mem.Access {
				return mem.Access{Buffer: mem.BufferID(b), Memory: q.Memory(), Range: mem.Range{End: size}, Mode: mode}
			}
			var e runtime.Event
			if from == to || transient[from] && !written[from] || transient[to] && !written[to] {
				e, err = q.EnqueueFill(ctx, bufs[to], []byte{1}, 0, bufs[to].Size())
				commands = append(commands, []mem.Access{use(to, bufs[to].Size(), mem.Write)})
			} else {
				e, err = q.EnqueueCopy(ctx, bufs[from], bufs[to], 0, 0, size)
				commands = append(commands, []mem.Access{use(from, size, mem.Read), use(to, size, mem.Write)})
			}
			require.NoError(t, err)
			require.NoError(t, e.Release())
			written[to] = true
		}
		g, err := rec.Finish(ctx)
		require.NoError(t, err)
		defer func() { require.NoError(t, g.Close()) }()
		before := c.Stats().BytesMoved
		for range rounds {
			e, err := g.Replay(ctx, queues[0], runtime.Bindings{})
			require.NoError(t, err)
			require.NoError(t, e.Wait(ctx))
			require.NoError(t, e.Release())
		}
		require.NoError(t, c.Check())
		moved := c.Stats().BytesMoved - before
		least := bound.WithinRound(c.Topology().Store, capacity, func(b mem.BufferID) bool { return transient[b] }, commands)
		sum := rounds * (least.Compulsory + least.Capacity)
		require.LessOrEqual(t, sum, moved+data*uint64(n), "%+v", least)
		plain, moves, bounds = plain+int(g.Figures().Plain), moves+moved, bounds+sum
	})
	t.Logf("%d replays were plain; %.4f of the bound moved", plain, float64(moves)/float64(bounds))
	require.Positive(t, plain)
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
