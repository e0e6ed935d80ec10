package machine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices/virtual"
	"godwit/lib/kernels"
	"godwit/mem"
	"godwit/runtime"
	"godwit/study/machine"
)

// whole is a context on a machine.
type whole struct {
	*testing.T
	w  *virtual.World
	c  *runtime.Context
	qs []*runtime.Queue // of each device; then others
	k  *runtime.Kernel
}

var bg = context.Background()

func openWhole(t *testing.T, host, device string, seed uint64) *whole {
	w, err := virtual.New(parse(t, fmt.Sprintf(`
host: {%s}
devices: [{name: g, count: 2, copy: 1 us, %s}]
links: [{between: [host, g], bandwidth: 1 GB/s}, {between: [g, g], bandwidth: 1 GB/s}]
`, host, device)), virtual.Options{Seed: seed})
	require.NoError(t, err)
	x := &whole{T: t, w: w}
	x.c, err = runtime.NewContext(runtime.Options{Devices: w.Devices(), Host: w.Host(), Executor: w, OwnDevices: true})
	require.NoError(t, err)
	for _, d := range w.Devices() {
		q, err := x.c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		x.qs = append(x.qs, q)
	}
	p, err := x.c.Build(bg, kernels.Program())
	require.NoError(t, err)
	x.k, err = p.Kernel("copy")
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.c.Close(bg) }) // buffers are left
	return x
}

func (x *whole) buffer(size uint64) *runtime.Buffer {
	b, err := x.c.CreateBuffer(size, 0, nil)
	require.NoError(x, err)
	return b
}

// on is a buffer of which a device has the content.
func (x *whole) on(q int, size uint64) *runtime.Buffer {
	b := x.buffer(size)
	x.ok(x.qs[q].EnqueueFill(bg, b, []byte{1}, 0, size))
	x.finish()
	return b
}

func (x *whole) ok(e runtime.Event, err error) runtime.Event {
	x.Helper()
	require.NoError(x, err)
	return e
}

func (x *whole) launch(q int) runtime.Event {
	b := x.on(q, 8)
	return x.ok(x.qs[q].EnqueueLaunch(bg, runtime.Launch{Kernel: x.k, Global: []uint64{1}, Args: []runtime.Arg{runtime.In(b), runtime.Out(x.on(q, 8)), runtime.Uint64(1)}, Takes: 50 * time.Microsecond}))
}

func (x *whole) finish() {
	for _, q := range x.qs {
		require.NoError(x, q.Finish(bg))
	}
}

// takes is how long some calls take until all has ended.
func (x *whole) takes(f func()) uint64 {
	start := x.w.Time()
	f()
	x.finish()
	return x.w.Time() - start
}

// launched starts a launch that is ready on each of some devices, and then does more.
func (x *whole) launched(more func(), on ...int) uint64 {
	var all []runtime.Launch
	for _, q := range on {
		all = append(all, runtime.Launch{Kernel: x.k, Global: []uint64{1}, Args: []runtime.Arg{runtime.In(x.on(q, 8)), runtime.Out(x.on(q, 8)), runtime.Uint64(1)}, Takes: 50 * time.Microsecond})
	}
	return x.takes(func() {
		for i, q := range on {
			x.ok(x.qs[q].EnqueueLaunch(bg, all[i]))
		}
		more()
	})
}

// TestWhatAFileSaysOfTheHost has each of the host's mechanisms by itself, with times computed by hand: a byte takes a
// nanosecond, a copy a microsecond more, a launch 50.
func TestWhatAFileSaysOfTheHost(t *testing.T) {
	const us, size = 1000, 10_000
	const pageable = "pageable_up: {1000 B: 1 us, 10000 B: 10 us}"
	writes := func(second int) func(x *whole) uint64 { // one on the first device, one on another
		return func(x *whole) uint64 {
			q, err := x.c.NewQueue(x.w.Devices()[second], runtime.QueueOptions{})
			require.NoError(x, err)
			x.qs = append(x.qs, q)
			return x.takes(func() {
				for _, q := range []*runtime.Queue{x.qs[0], q} {
					x.ok(q.EnqueueWrite(bg, x.buffer(size), 0, make([]byte, size)))
				}
			})
		}
	}
	for _, c := range []struct {
		name         string
		host, device string
		run          func(x *whole) uint64
		want         uint64
	}{
		{"memory of the program's is pageable", "pageable: 500 MB/s", "", func(x *whole) uint64 {
			return x.takes(func() { x.ok(x.qs[0].EnqueueWrite(bg, x.buffer(size), 0, make([]byte, size))) })
		}, 21 * us},
		{"a hop is not", "pageable: 500 MB/s", "", func(x *whole) uint64 {
			b := x.on(0, size)
			return x.takes(func() { x.ok(x.qs[1].EnqueueMigrate(bg, []*runtime.Buffer{b}, 0)) })
		}, 11 * us},
		{"what the context has on the host is", "pageable: 500 MB/s", "", func(x *whole) uint64 {
			b := x.on(0, size)
			return x.takes(func() { x.ok(x.qs[0].EnqueueMigrate(bg, []*runtime.Buffer{b}, runtime.MigrateToHost)) })
		}, 21 * us},
		{"unless it is to be locked", "pageable: 500 MB/s", "", func(x *whole) uint64 {
			b, err := x.c.CreateBuffer(size, runtime.AllocHostPtr, nil)
			require.NoError(x, err)
			down := x.takes(func() { x.ok(x.qs[0].EnqueueMigrate(bg, []*runtime.Buffer{b}, 0)) })
			x.ok(x.qs[0].EnqueueFill(bg, b, []byte{1}, 0, size))
			x.finish()
			return max(down, x.takes(func() { x.ok(x.qs[0].EnqueueMigrate(bg, []*runtime.Buffer{b}, runtime.MigrateToHost)) }))
		}, 11 * us},
		{"large copies of it take turns at the host's lanes", "staged: {from: 10000 B, lanes: 4, each: 2500 B}", pageable, writes(1), 20 * us},
		{"where there are enough they do not", "staged: {from: 10000 B, lanes: 4, each: 5000 B}", pageable, writes(1), 10 * us},
		{"nor where they are small", "staged: {from: 10001 B, lanes: 4, each: 2500 B}", pageable, writes(1), 10 * us},
		{"one that waits for what the host must see end the dispatcher enqueues", "", pageable + ", pageable_awaits_host: [up], classes: {up: {enqueue: 1 us}}, handover: {library-dispatcher: {delay: 7 us}}", func(x *whole) uint64 {
			return x.launched(func() { x.ok(x.qs[0].EnqueueWrite(bg, x.buffer(size), 0, make([]byte, size))) }, 0)
		}, (50 + 7 + 1 + 10) * us},
		{"from queue to queue of a device", "", "handover: {queues: {delay: 7 us}}", func(x *whole) uint64 {
			q, err := x.c.NewQueue(x.w.Devices()[0], runtime.QueueOptions{})
			require.NoError(x, err)
			x.qs = append(x.qs, q)
			b := x.buffer(size)
			return x.launched(func() {
				x.ok(x.qs[0].EnqueueWrite(bg, b, 0, make([]byte, size))) // 50 us later, without a delay
				x.ok(q.EnqueueRead(bg, b, 0, make([]byte, size)))
			}, 0)
		}, (50 + 11 + 7 + 11) * us},
		{"an enqueue beside the context's threads takes longer", "crowded: 3 us", "classes: {fill: {enqueue: 1 us}, peer: {by: pilot, enqueue: 1 us}}", func(x *whole) uint64 {
			b, other := x.on(0, size), x.buffer(size)
			start := x.w.Time()
			x.ok(x.qs[1].EnqueueMigrate(bg, []*runtime.Buffer{b}, 0))
			x.ok(x.qs[0].EnqueueFill(bg, other, []byte{1}, 0, size))
			took := x.w.Time() - start
			x.finish()
			start = x.w.Time()
			x.ok(x.qs[0].EnqueueFill(bg, other, []byte{1}, 0, size))
			return took + x.w.Time() - start
		}, (1 + 1 + 3 + 1) * us},
		{"its copies may have a table up", "", "pageable_up: {1 KiB: 5 us, 100 KiB: 104 us}", func(x *whole) uint64 {
			return x.takes(func() { x.ok(x.qs[0].EnqueueWrite(bg, x.buffer(51712), 0, make([]byte, 51712))) })
		}, 54*us + 500},
		{"and down", "", "pageable_down: {10 KiB: 70 us}", func(x *whole) uint64 {
			b := x.on(0, size)
			return x.takes(func() { x.ok(x.qs[0].EnqueueRead(bg, b, 0, make([]byte, size))) })
		}, 70 * us},
		{"what is lent is", "pageable: 500 MB/s", "", func(x *whole) uint64 {
			b, err := x.c.CreateBuffer(size, runtime.UseHostPtr, make([]byte, size))
			require.NoError(x, err)
			return x.takes(func() { x.ok(x.qs[0].EnqueueMigrate(bg, []*runtime.Buffer{b}, 0)) })
		}, 21 * us},
		{"rows cost something each", "", "rows: 10 ns", func(x *whole) uint64 {
			b := x.buffer(size)
			return x.takes(func() {
				x.ok(x.qs[0].EnqueueWriteRect(bg, b, runtime.Box{Row: 200}, make([]byte, 2000), runtime.Box{Row: 200}, [3]uint64{100, 10, 1}))
			})
		}, us + 100 + 1000},
		{"each moves a multiple of what memory moves at least", "", "row_bytes: 64 B", func(x *whole) uint64 {
			b := x.buffer(size)
			return x.takes(func() {
				x.ok(x.qs[0].EnqueueWriteRect(bg, b, runtime.Box{Row: 200}, make([]byte, 2000), runtime.Box{Row: 200}, [3]uint64{100, 10, 1}))
			})
		}, us + 1280},
		{"a hop that is a kernel below waits for the receiver's", "", "copies_wait_for_kernels: [inside, peer]", func(x *whole) uint64 {
			b := x.on(0, size)
			return x.launched(func() { x.ok(x.qs[0].EnqueueMigrateTo(bg, []*runtime.Buffer{b}, []mem.MemoryID{2})) }, 1)
		}, (50 + 11) * us},
		{"one that is none goes beside it", "", "copies_wait_for_kernels: [inside, up]", func(x *whole) uint64 {
			b := x.on(0, size)
			return x.launched(func() { x.ok(x.qs[0].EnqueueMigrateTo(bg, []*runtime.Buffer{b}, []mem.MemoryID{2})) }, 1)
		}, 50 * us},
		{"kernels of two devices share the host's cores", "", "cores: 2, compute_units: 2", func(x *whole) uint64 {
			return x.launched(func() {}, 0, 1)
		}, 100 * us},
		{"where each takes half, neither waits", "", "cores: 2, compute_units: 1", func(x *whole) uint64 {
			return x.launched(func() {}, 0, 1)
		}, 50 * us},
		{"a copy takes one of a kernel's two cores while its bytes go", "", "cores: 2, compute_units: 2", func(x *whole) uint64 {
			b := x.on(1, size)
			return x.launched(func() { x.ok(x.qs[1].EnqueueMigrateTo(bg, []*runtime.Buffer{b}, []mem.MemoryID{0})) }, 0)
		}, (1 + 10 + (100-2-10)/2) * us},
		{"a wake in place of a poll", "poll: 4 us, wake: 7 us", "", func(x *whole) uint64 {
			return waited(x)
		}, 57 * us},
		{"a poll where none is said", "poll: 4 us", "", func(x *whole) uint64 {
			return waited(x)
		}, 54 * us},
		{"a wake of nothing is said", "poll: 4 us, wake: 0 ns", "", func(x *whole) uint64 {
			return waited(x)
		}, 50 * us},
		{"and so is a setup of nothing", "", "classes: {up: {setup: 0 ns}}", func(x *whole) uint64 {
			return x.takes(func() { x.ok(x.qs[0].EnqueueWrite(bg, x.buffer(size), 0, make([]byte, size))) })
		}, 10 * us},
		{"and a table of nothing", "pageable: 1 TB/s", "pageable_up: {100 B: 0 ns, 30 KiB: 0 ns}", func(x *whole) uint64 {
			return x.takes(func() { x.ok(x.qs[0].EnqueueWrite(bg, x.buffer(size), 0, make([]byte, size))) })
		}, 10 * us},
		{"the first use of a block", "first: {each: 2 us, bandwidth: 1 GB/s}", "", func(x *whole) uint64 {
			return x.takes(func() { x.ok(x.qs[0].EnqueueWrite(bg, x.buffer(size), 0, make([]byte, size))) })
		}, (2 + 10 + 11) * us},
		{"and what has been used before", "first: {each: 2 us, bandwidth: 1 GB/s}", "", func(x *whole) uint64 {
			require.NoError(x, x.on(0, size).Release())
			return x.takes(func() { x.ok(x.qs[0].EnqueueWrite(bg, x.buffer(size), 0, make([]byte, size))) })
		}, 11 * us},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(2) {
				require.Equal(t, c.want, c.run(openWhole(t, c.host, c.device, seed)))
			}
		})
	}
}

// waited is a launch and a wait for it, from its enqueue on.
func waited(x *whole) uint64 {
	e := x.launch(0)
	start := x.w.Time()
	require.NoError(x, e.Wait(bg))
	return x.w.Time() - start
}

// TestWhatAFileMayNotSayOfCarriers has a rule a line.
func TestWhatAFileMayNotSayOfCarriers(t *testing.T) {
	for device, want := range map[string]string{
		"classes: {launch: {hold: 1 us}}":            "hold of launch",
		"classes: {peer: {by: program, hold: 1 us}}": "hold of peer",
		"classes: {peer: {by: me}}":                  `"me"`,
		"classes: {leg: {by: pilot}}":                `"leg"`,
		"handover: {library-library: {hold: 1 us}}":  "library-library: hold",
		"handover: {queue: {hold: 1 us}}":            "queue: hold",
		"handover: {pilot-program: {hold: 1 us}}":    "pilot-program: hold",
		"handover: {library-pilots: {hold: 1 us}}":   `"library-pilots"`,
		"copies_wait_for_kernels: [launch]":          `"launch": want some of`,
		"cores: 2}, {name: h, cores: 3":              "they share the host's",
		"cores: 0":                                   "want from 1",
		"pageable_awaits_host: [peer]":               "want some of up and down",
	} {
		_, err := machine.Parse("m.yaml", []byte("devices: [{name: g, "+device+"}]\nlinks: [{between: [host, g], bandwidth: 1 GB/s}]\n"), machine.Options{})
		require.ErrorContains(t, err, want, device)
	}
}
