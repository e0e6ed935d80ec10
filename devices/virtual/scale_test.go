package virtual_test

import (
	"os"
	goruntime "runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices/virtual"
	"godwit/runtime"
)

// groups has devices fill and hand on a buffer to the next of their group, round after
// round: every second command copies. at is called after so many commands.
func groups(t testing.TB, devices, group, commands int, shared uint64, at map[int]func()) (*house, time.Duration) {
	b := &bench{devices: devices, rate: 10 * gig, peers: 100 * gig, shared: shared, latency: 1500, setup: 700, kernel: 1000 * gig, call: 50}
	h := open(t, b, virtual.Options{})
	const size = 4 << 10
	bufs := make([]*runtime.Buffer, devices)
	for i := range bufs {
		bufs[i] = h.buffer(size)
	}
	one := make([]*runtime.Buffer, 1)
	start := time.Now()
	for n := 0; n < commands; n += 2 {
		i := n / 2 % devices
		next := i/group*group + (i+1)%group
		h.ok(h.qs[i].EnqueueFill(bg, bufs[i], []byte{1}, 0, size))
		one[0] = bufs[i]
		h.ok(h.qs[next].EnqueueMigrate(bg, one, 0))
		if f := at[n+2]; f != nil {
			f()
		}
	}
	for _, q := range h.qs {
		require.NoError(t, q.Finish(bg))
	}
	return h, time.Since(start)
}

// liveHeap is how much the heap holds that is in use.
func liveHeap() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestAThousandDevicesAndAMillionCommands is the scale of docs/measured.md; its short form
// is a tenth of the devices and a fiftieth of the commands, GODWIT_SCALE=1 the whole.
func TestAThousandDevicesAndAMillionCommands(t *testing.T) {
	devices, commands := 128, 20_000
	if os.Getenv("GODWIT_SCALE") != "" {
		devices, commands = 1024, 1_000_000
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	}
	var early, late uint64
	opened := time.Now()
	h, took := groups(t, devices, 8, commands, 0, map[int]func(){
		commands / 5: func() { early = liveHeap() },
		commands:     func() { late = liveHeap() },
	})
	opening := time.Since(opened) - took
	s := h.c.Stats()
	require.GreaterOrEqual(t, s.Copies, uint64(commands/2-devices))
	if commands == 1_000_000 { // before, tables still grow to what they need
		require.InEpsilon(t, early, late, 0.10, "live heap")
	}
	t.Logf("%d devices, %d commands, %d copies: %v (opened in %v), heap %d MiB and %d MiB, %+v, network %+v", devices, commands, s.Copies, took.Round(time.Millisecond), opening.Round(time.Millisecond), early>>20, late>>20, h.w.Counts(), h.w.Network().Work())
}

// fatTree is a bench whose devices reach each other over leaves and spines: so many devices have a leaf, and each leaf
// has a link to and from each spine.
type fatTree struct {
	*bench
	leaf, spines int
}

func (f *fatTree) Bandwidths() []uint64 {
	out := f.bench.Bandwidths()
	for range 2 * f.devices / f.leaf * f.spines {
		out = append(out, f.shared)
	}
	return out
}

func (f *fatTree) Copy(from, to int, size uint64) virtual.Work {
	w := f.bench.Copy(from, to, size)
	if from == 0 || to == 0 || from == to {
		return w
	}
	w.Path = append([]virtual.Channel{virtual.Channel(3*from - 1)}, w.Path...)
	if a, b := (from-1)/f.leaf, (to-1)/f.leaf; a != b {
		first, spine := 2+3*f.devices, (a*7+b)%f.spines
		w.Path = append(w.Path, virtual.Channel(first+2*(a*f.spines+spine)), virtual.Channel(first+2*(b*f.spines+spine)+1))
	}
	return w
}

// allToAll has every device hand a buffer that it fills to each of the others, round after round, by a fat tree of 8
// spines: those of a leaf to those of all leaves. Buffers differ in size, so that hardly two copies end together.
func allToAll(t testing.TB, devices, leaf, commands int) (*house, time.Duration) {
	b := &bench{devices: devices, rate: 50 * gig, peers: 50 * gig, shared: 100 * gig, latency: 1500, setup: 700, kernel: 1000 * gig, call: 1}
	h := open(t, &fatTree{b, leaf, 8}, virtual.Options{Stamps: true})
	var bufs []*runtime.Buffer
	for i := range devices {
		bufs = append(bufs, h.buffer(4<<20+uint64(i*7919%devices)<<10))
	}
	finish := func() {
		for _, q := range h.qs {
			require.NoError(t, q.Finish(bg))
		}
	}
	one := make([]*runtime.Buffer, 1)
	start := time.Now()
	for n := 0; n < commands; n += 2 {
		i, round := n/2%devices, n/2/devices
		if i == 0 && round%8 == 0 {
			finish()
		}
		h.ok(h.qs[i].EnqueueFill(bg, bufs[i], []byte{1}, 0, bufs[i].Size()))
		one[0] = bufs[i]
		h.ok(h.qs[(i*37+round)%devices].EnqueueMigrate(bg, one, 0))
	}
	finish()
	return h, time.Since(start)
}

// TestAThousandDevicesOnAFatTree is an all-to-all over shared spines; its short form is 128 devices and 20,000 commands,
// with GODWIT_SCALE=1 1,024 devices and 1,000,000 commands on one core.
func TestAThousandDevicesOnAFatTree(t *testing.T) {
	devices, leaf, commands := 128, 8, 20_000
	if os.Getenv("GODWIT_SCALE") != "" {
		devices, leaf, commands = 1024, 32, 1_000_000
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	}
	h, took := allToAll(t, devices, leaf, commands)
	work := h.w.Network().Work()
	require.GreaterOrEqual(t, h.c.Stats().Copies, uint64(commands/2-devices))
	require.Positive(t, h.w.Network().Usage(virtual.Channel(2+3*devices)).Full, "the first spine's first link")
	require.NoError(t, h.w.Network().Check())
	t.Logf("%d devices, %d commands: %v, %+v, %d us of virtual time, network %+v", devices, commands, took.Round(time.Millisecond), h.w.Counts(), h.w.Time()/1000, work)
}

// BenchmarkGroups is the cost of a command, of which every second copies, where groups of 8
// devices share nothing: of one group, and of 128.
func BenchmarkGroups(b *testing.B) {
	for _, devices := range []int{8, 1024} {
		b.Run(strconv.Itoa(devices), func(b *testing.B) {
			_, took := groups(b, devices, 8, 200_000, 0, nil)
			b.ReportMetric(float64(took.Nanoseconds())/200_000, "ns/command")
		})
	}
}

// BenchmarkSharedCore has 1,024 transfers of different lengths under way that share one
// channel, again and again: what one costs, and the solver's work for each of its events.
func BenchmarkSharedCore(b *testing.B) {
	const devices, rounds = 1024, 20
	h := open(b, &bench{devices: devices, rate: 10 * gig, shared: 100 * gig, call: 1}, virtual.Options{})
	var bufs []*runtime.Buffer
	for i := range devices {
		bufs = append(bufs, h.buffer(uint64(64<<10+64*i)))
	}
	data := make([]byte, 128<<10)
	var took time.Duration
	for range rounds {
		start := time.Now()
		for i, x := range bufs {
			h.ok(h.qs[i].EnqueueWrite(bg, x, 0, data[:x.Size()]))
		}
		for _, q := range h.qs {
			require.NoError(b, q.Finish(bg))
		}
		took += time.Since(start)
	}
	n := h.w.Network().Work()
	b.ReportMetric(float64(took.Nanoseconds())/devices/rounds, "ns/command")
	b.ReportMetric(float64(n.Classes)/float64(n.Solves), "classes/solve")
	b.ReportMetric(float64(n.Channels)/float64(n.Solves), "channels/solve")
}
