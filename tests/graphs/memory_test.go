package graphs_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/mem"
	"godwit/runtime"
	"godwit/study/alloc/formats"
	"godwit/study/bound"
)

// open is a context of null devices with so much memory each (0 is no limit), and a queue for each.
func open(t testing.TB, memory ...uint64) (*runtime.Context, []*runtime.Queue) {
	t.Helper()
	var devs []devices.Device
	for _, m := range memory {
		devs = append(devs, null.New(devices.Config{Memory: m}))
	}
	return openOn(t, devs)
}

// openPlaces is open of cpu devices, in whose memory blocks have places, and so leave holes.
func openPlaces(t testing.TB, memory ...uint64) (*runtime.Context, []*runtime.Queue) {
	t.Helper()
	var devs []devices.Device
	for _, m := range memory {
		d, err := cpu.New(cpu.Options{Memory: m})
		require.NoError(t, err)
		devs = append(devs, d)
	}
	return openOn(t, devs)
}

func openOn(t testing.TB, devs []devices.Device) (*runtime.Context, []*runtime.Queue) {
	t.Helper()
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(t.Context())) })
	var queues []*runtime.Queue
	for _, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		queues = append(queues, q)
	}
	return c, queues
}

// record records a graph until the end of the test.
func record(t testing.TB, g *Graph, c *runtime.Context, queues []*runtime.Queue) *runtime.Graph {
	t.Helper()
	r, err := g.Record(t.Context(), c, queues)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r.Graph
}

// replay replays a graph, and says how many bytes moved.
func replay(t testing.TB, g *runtime.Graph, c *runtime.Context, q *runtime.Queue) uint64 {
	t.Helper()
	before := c.Stats().BytesMoved
	e, err := g.Replay(t.Context(), q, runtime.Bindings{})
	require.NoError(t, err)
	require.NoError(t, e.Wait(t.Context()))
	require.NoError(t, e.Release())
	return c.Stats().BytesMoved - before
}

// TestRealGraphsTakeThePeakOfWhatLives: transients take at most 1.005 of the bytes of
// them that are in use at once (a training step on four devices 1.02), and a steady round moves the bound.
func TestRealGraphsTakeThePeakOfWhatLives(t *testing.T) {
	for _, n := range []int{2, 4} {
		for _, g := range Real(n) {
			c, queues := open(t, make([]uint64, n)...)
			r := record(t, g, c, queues)
			var moved uint64
			for range 3 {
				moved = replay(t, r, c, queues[0])
			}
			f := r.Figures()
			require.Zero(t, f.Plain, f.Why)
			t.Logf("%s on %d: %d bytes of transients, %d live at once (%.4f); %d bytes a round", g.Name, n, f.Transients, f.Live, float64(f.Transients)/float64(f.Live), moved)
			most := 1.005
			if g.Name == "mlp" && n == 4 { // what two neighbours on the ring share has one place on both
				most = 1.02
			}
			require.LessOrEqual(t, float64(f.Transients), most*float64(f.Live), "%s on %d", g.Name, n)
			require.Equal(t, bound.Round(func(m mem.MemoryID) mem.MemoryID { return m }, g.Accesses()), moved, "%s on %d", g.Name, n)
		}
	}
}

// TestTracesAsGraphsTakeThePeakOfWhatLives makes each allocation of a recorded training step or generation a
// transient, written where it was allocated and read where it was freed.
func TestTracesAsGraphsTakeThePeakOfWhatLives(t *testing.T) {
	names, some := []string{"gpt2-train"}, 4000
	if os.Getenv("GODWIT_SOAK") != "" {
		names, some = append(names, "resnet50-train", "llama-generate"), math.MaxInt
	}
	for _, name := range names {
		traces, err := formats.OpenAllocs(t.Context(), filepath.Join("..", "..", "testdata", "traces", name+".csv.gz"))
		require.NoError(t, err)
		items, err := traces[0].Items(1)
		require.NoError(t, err)
		items = items[:min(some, len(items))]
		c, queues := open(t, 0)
		r := record(t, Lives(items), c, queues)
		replay(t, r, c, queues[0])
		f := r.Figures()
		require.Zero(t, f.Plain, f.Why)
		t.Logf("%s: %d transients, %d bytes of them, %d live at once (%.4f)", name, len(items), f.Transients, f.Live, float64(f.Transients)/float64(f.Live))
		require.LessOrEqual(t, float64(f.Transients), 1.012*float64(f.Live), name)
	}
}

// shares are memory by data, with how much more than the bound a round may move there at most: without holes, and with. What is left is
// blocks of several sizes that leave whole, and with holes the halo's edges, which are as much as one of the three blocks that have to be away.
// With places much depends on what has ended when: the halo at 50 % was seen from 1.02 to 1.11.
var shares = []struct {
	memory float64
	most   map[string][2]float64
}{
	{0.9, map[string][2]float64{"mlp": {1.005, 1.10}, "decoder": {1.26, 1.40}, "halo": {1.18, 1.80}}},
	{0.7, map[string][2]float64{"mlp": {1.05, 1.15}, "decoder": {1.12, 1.25}, "halo": {1.09, 1.25}}},
	{0.5, map[string][2]float64{"mlp": {1.03, 1.15}, "decoder": {1.08, 1.20}, "halo": {1.02, 1.25}}},
}

// short is how much memory each device has: a share of its data, but what its widest command needs.
func short(g *Graph, share float64) (memory []uint64) {
	for d := range g.Devices {
		memory = append(memory, max(uint64(share*float64(g.Data(d))), g.Widest(d)))
	}
	return memory
}

// steady is how many bytes a round moves on average, once it is steady.
func steady(t testing.TB, g *runtime.Graph, c *runtime.Context, q *runtime.Queue) float64 {
	t.Helper()
	var moved uint64
	for i := range 56 {
		if n := replay(t, g, c, q); i >= 16 {
			moved += n
		}
	}
	return float64(moved) / 40
}

func boundOf(g *Graph, memory []uint64) float64 {
	self := func(m mem.MemoryID) mem.MemoryID { return m }
	b := bound.WithinRound(self, append([]uint64{0}, memory...), func(b mem.BufferID) bool { return g.Buffers[b].Transient }, g.Accesses())
	return float64(b.Compulsory + b.Capacity)
}

// TestLessMemoryThanData holds the bytes of steady rounds against the bound.
func TestLessMemoryThanData(t *testing.T) {
	devices := []int{2}
	if os.Getenv("GODWIT_SOAK") != "" {
		devices = append(devices, 4)
	}
	for _, n := range devices {
		for _, g := range Real(n) {
			for _, s := range shares {
				memory := short(g, s.memory)
				least := boundOf(g, memory)
				for i, open := range [...]func(testing.TB, ...uint64) (*runtime.Context, []*runtime.Queue){open, openPlaces} {
					c, queues := open(t, memory...)
					r := record(t, g, c, queues)
					moved, f := steady(t, r, c, queues[0]), r.Figures()
					t.Logf("%s on %d, memory %.0f%%, %s: %.0f bytes a round, bound %.0f: %.4f; plain %d of %d",
						g.Name, n, 100*s.memory, [...]string{"no places", "places"}[i], moved, least, moved/least, f.Plain, f.Replays)
					require.GreaterOrEqual(t, moved, least)
					require.LessOrEqual(t, moved, s.most[g.Name][i]*least)
				}
			}
		}
	}
}
