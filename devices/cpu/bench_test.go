package cpu_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/lib/kernels"
	"godwit/mem"
)

// BenchmarkCopy copies between two blocks, warm, and reports its speed as a
// ratio of Go's copy between two slices of the same size in the same run (the
// two take turns, so that both see the same machine).
func BenchmarkCopy(b *testing.B) {
	for _, c := range []struct {
		name string
		size uint64
	}{{"4KiB", 4 << 10}, {"1MiB", 1 << 20}, {"64MiB", 64 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			d := open(b, cpu.Options{})
			blocks := make([]mem.Block, 2)
			_, err := d.Memory().AllocAll([]mem.Request{{Size: c.size}, {Size: c.size}}, blocks, nil)
			require.NoError(b, err)
			q, err := d.NewQueue(devices.QueueOptions{Name: "q"})
			require.NoError(b, err)
			src, dst := make([]byte, c.size), make([]byte, c.size)
			for i := range src {
				src[i], dst[i] = byte(i), 1 // touched before it is measured
			}
			cmd := &devices.Command{Op: devices.OpCopy, Size: c.size,
				Dst: devices.Loc{Device: d, Block: blocks[1]}, Src: devices.Loc{Device: d, Block: blocks[0]}}
			once := func() {
				p, err := q.Submit(cmd, nil)
				if err == nil {
					err = q.Wait(context.Background(), p, devices.Park)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			for _, bl := range blocks {
				view, err := d.View(bl, 0, c.size)
				require.NoError(b, err)
				copy(view, src)
			}
			once()
			var plain time.Duration
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				start := time.Now()
				copy(dst, src)
				plain += time.Since(start)
				b.StartTimer()
				once()
			}
			b.ReportMetric(float64(plain)/float64(b.Elapsed()), "of-copy")
			require.NoError(b, q.Close())
			for _, bl := range blocks {
				require.NoError(b, d.Memory().FreeAfter(bl, nil))
			}
			require.NoError(b, d.Close())
		})
	}
}

// BenchmarkLaunch is an add of two million floats, and an empty launch.
func BenchmarkLaunch(b *testing.B) {
	for _, n := range []uint64{1, 2 << 20} {
		b.Run(map[bool]string{true: "1", false: "2M"}[n == 1], func(b *testing.B) {
			d := open(b, cpu.Options{})
			blocks := make([]mem.Block, 3)
			_, err := d.Memory().AllocAll([]mem.Request{{Size: 4 * n}, {Size: 4 * n}, {Size: 4 * n}}, blocks, nil)
			require.NoError(b, err)
			m, err := d.Build(context.Background(), kernels.Program())
			require.NoError(b, err)
			k, err := m.Kernel("add")
			require.NoError(b, err)
			q, err := d.NewQueue(devices.QueueOptions{Name: "q"})
			require.NoError(b, err)
			cmd := &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{n}}
			for _, bl := range blocks {
				cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgBuffer, Block: bl, Size: bl.Size})
			}
			value := make([]byte, 8)
			value[0], value[1], value[2] = byte(n), byte(n>>8), byte(n>>16)
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgValue, Value: value})
			b.SetBytes(int64(12 * n))
			b.ReportAllocs()
			for b.Loop() {
				p, err := q.Submit(cmd, nil)
				if err == nil {
					err = q.Wait(context.Background(), p, devices.Park)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, q.Close())
			for _, bl := range blocks {
				require.NoError(b, d.Memory().FreeAfter(bl, nil))
			}
			require.NoError(b, d.Close())
		})
	}
}
