package tracelog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/devices/work"
	"godwit/internal/icd/tracelog"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// BenchmarkLaunch is what an account without lines adds to a launch that moves nothing.
func BenchmarkLaunch(b *testing.B) {
	for _, account := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "account"}[account], func(b *testing.B) {
			var sink trace.CommandSink
			if account {
				sink = tracelog.New(nil).Context([]string{"host", "d"}, []uint64{0, 0})
			}
			d := null.New(devices.Config{})
			c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, Trace: sink})
			require.NoError(b, err)
			ctx := context.Background()
			q, err := c.NewQueue(d, runtime.QueueOptions{})
			require.NoError(b, err)
			p, err := c.Build(ctx, &devices.Program{Name: "p", Go: []devices.GoKernel{{Name: "k", Args: []devices.ArgInfo{
				{Name: "b", Kind: devices.ArgBuffer, Access: mem.ReadWrite},
			}, Func: func(*work.Group) {}}}})
			require.NoError(b, err)
			k, err := p.Kernel("k")
			require.NoError(b, err)
			buf, err := c.CreateBuffer(1<<20, 0, nil)
			require.NoError(b, err)
			l := runtime.Launch{Kernel: k, Global: []uint64{1024}, Args: []runtime.Arg{runtime.Buf(buf)}, NoEvent: true}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := q.EnqueueLaunch(ctx, l); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			require.NoError(b, q.Close())
			require.NoError(b, buf.Release())
			require.NoError(b, c.Close(ctx))
		})
	}
}
