package graphs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/mem"
	"godwit/runtime"
	"godwit/study/bound"
)

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
