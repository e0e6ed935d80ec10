package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/eviction"
	"godwit/runtime"
)

// TestSteadyStateAllocatesNothing counts the Go heap allocations of commands
// that were given before, copies between devices included.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	devs := []devices.Device{null.New(devices.Config{Name: "a"}), null.New(devices.Config{Name: "b"})}
	c := must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true}))
	ctx := context.Background()
	for _, o := range []runtime.QueueOptions{{}, outOfOrder} {
		var q [2]*runtime.Queue
		for i, d := range devs {
			q[i] = must(c.NewQueue(d, o))
		}
		p := must(c.Build(ctx, three))
		k := must(p.Kernel("three"))
		var b [3]*runtime.Buffer
		for i := range b {
			b[i] = must(c.CreateBuffer(4096, 0, nil))
		}
		sub, err := b[1].Sub(128, 1024, 0)
		require.NoError(t, err)
		data, pattern := make([]byte, 4096), []byte{1, 2, 3, 4}
		done := func(e runtime.Event, err error) runtime.Event {
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		free := func(e runtime.Event) {
			if err := e.Release(); err != nil {
				t.Fatal(err)
			}
		}
		for name, f := range map[string]func(){
			"launch": func() {
				for i := range q { // to and fro: copies each time
					free(done(q[i].EnqueueLaunch(ctx, runtime.Launch{
						Kernel: k, Global: []uint64{64, 2}, Local: []uint64{8, 1},
						Args: []runtime.Arg{runtime.Buf(b[0]), runtime.Buf(sub), runtime.In(b[2]).Range(8, 16)},
					})))
				}
			},
			"write": func() { free(done(q[0].EnqueueWrite(ctx, b[0], 0, data))) },
			"read":  func() { free(done(q[1].EnqueueRead(ctx, b[0], 0, data))) },
			"copy":  func() { free(done(q[0].EnqueueCopy(ctx, b[0], b[1], 0, 64, 512))) },
			"fill":  func() { free(done(q[1].EnqueueFill(ctx, sub, pattern, 0, 64))) },
			"wait list": func() {
				e := done(q[0].EnqueueFill(ctx, sub, pattern, 0, 64))
				free(done(q[1].EnqueueMarker(ctx, e)))
				free(done(q[1].EnqueueBarrier(ctx, e)))
				free(e)
			},
			"marker": func() { free(done(q[0].EnqueueMarker(ctx))) },
		} {
			for range 100 {
				f()
			}
			require.Zero(t, testing.AllocsPerRun(200, f), name)
		}
		for _, buf := range append(b[:], sub) {
			require.NoError(t, buf.Release())
		}
		require.NoError(t, p.Close())
	}
	require.NoError(t, c.Close(ctx))
}

// TestAnEnqueueThatEvictsAllocatesNothing: with so many blocks that their order is kept.
func TestAnEnqueueThatEvictsAllocatesNothing(t *testing.T) {
	const blocks, size = 100, 4096
	for _, name := range []string{"lru", "cost"} {
		policy := must(eviction.ByName(name))
		d := null.New(devices.Config{Name: "a", Memory: blocks * size})
		c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, Policy: policy}))
		q := must(c.NewQueue(d, runtime.QueueOptions{}))
		ctx, pattern, next := context.Background(), []byte{1}, 0
		var all []*runtime.Buffer
		for range 2 * blocks {
			b := must(c.CreateBuffer(size, 0, nil))
			all = append(all, b)
		}
		use := func() {
			e, err := q.EnqueueFill(ctx, all[next%len(all)], pattern, 0, size)
			if err == nil {
				err = e.Release()
			}
			if err != nil {
				t.Fatal(err)
			}
			next++
		}
		for range 10 * blocks {
			use()
		}
		before := c.Stats().Evictions
		require.Zero(t, testing.AllocsPerRun(4*blocks, use), name)
		require.Greater(t, c.Stats().Evictions-before, uint64(blocks))
		for _, b := range all {
			require.NoError(t, b.Release())
		}
		require.NoError(t, c.Close(ctx))
	}
}
