package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

// three is a kernel of three buffers that the null driver looks up and never
// calls.
var three = &devices.Program{Name: "three", Go: []devices.GoKernel{{
	Name: "three",
	Args: []devices.ArgInfo{
		{Name: "c", Kind: devices.ArgBuffer, Access: mem.ReadWrite},
		{Name: "a", Kind: devices.ArgBuffer, Access: mem.Read},
		{Name: "b", Kind: devices.ArgBuffer, Access: mem.Read},
	},
	Func: func(*work.Group) {},
}}}

// BenchmarkEnqueueLaunch is a launch with three buffer arguments, enqueue to
// submitted, on a device that does nothing.
func BenchmarkEnqueueLaunch(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(map[int]string{1: "in place", 2: "ping-pong"}[n], func(b *testing.B) {
			var devs []devices.Device
			for range n {
				devs = append(devs, null.New(devices.Config{}))
			}
			c := must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true}))
			ctx := context.Background()
			p := must(c.Build(ctx, three))
			k := must(p.Kernel("three"))
			var queues []*runtime.Queue
			for _, d := range devs {
				q := must(c.NewQueue(d, runtime.QueueOptions{}))
				queues = append(queues, q)
			}
			var bufs [3]*runtime.Buffer
			for i := range bufs {
				bufs[i] = must(c.CreateBuffer(1<<20, 0, nil))
				e := must(queues[0].EnqueueFill(ctx, bufs[i], []byte{1}, 0, 1<<20))
				require.NoError(b, e.Wait(ctx))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				e, err := queues[i%n].EnqueueLaunch(ctx, runtime.Launch{
					Kernel: k, Global: []uint64{1 << 18},
					Args: []runtime.Arg{runtime.Buf(bufs[0]), runtime.Buf(bufs[1]), runtime.Buf(bufs[2])},
				})
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Release(); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.StopTimer()
			for _, buf := range bufs {
				require.NoError(b, buf.Release())
			}
			require.NoError(b, c.Close(ctx))
		})
	}
}
