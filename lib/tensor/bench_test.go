package tensor_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/lib/backend"
	"godwit/lib/tensor"
	"godwit/mem"
)

// BenchmarkUpload reports, for 256 MiB on GODWIT_TEST_DEVICE (cpu), the time until
// FromHost returns and until the device has the bytes, borrowed and staged, and that
// of a plain copy in the host's memory; and FromHost and ToHost together against the
// same transfers without tensors.
func BenchmarkUpload(b *testing.B) {
	name := os.Getenv("GODWIT_TEST_DEVICE")
	if name == "" {
		name = "cpu"
	}
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	h, err := m.Default(name)
	require.NoError(b, err)
	src, dst := make([]byte, 256<<20), make([]byte, 256<<20)
	for i := range src {
		src[i] = byte(i)
	}
	copy(dst, src) // both are there
	for _, o := range []struct {
		name string
		opts []tensor.Option
	}{{"borrowed", []tensor.Option{tensor.Async(), tensor.Borrow()}}, {"staged", []tensor.Option{tensor.Async()}}} {
		b.Run(o.name, func(b *testing.B) {
			var returned, plain time.Duration
			for range 2 { // buffers and staging are made before
				x, err := tensor.FromHost(ctx, h, src, o.opts...)
				require.NoError(b, err)
				require.NoError(b, x.Ready(ctx))
				require.NoError(b, x.Release())
			}
			for b.Loop() {
				start := time.Now()
				x, err := tensor.FromHost(ctx, h, src, o.opts...)
				returned += time.Since(start)
				require.NoError(b, err)
				require.NoError(b, x.Ready(ctx))
				require.NoError(b, x.Release())
				b.StopTimer()
				start = time.Now()
				copy(dst, src)
				plain += time.Since(start)
				b.StartTimer()
			}
			b.ReportMetric(float64(returned.Microseconds())/float64(b.N), "us-to-return")
			b.ReportMetric(float64(plain.Microseconds())/float64(b.N), "us-memcpy")
		})
	}
	b.Run("round trip", func(b *testing.B) {
		q, err := h.Device().NewQueue(devices.QueueOptions{})
		require.NoError(b, err)
		blocks := make([]mem.Block, 1)
		_, err = h.Device().Memory().AllocAll([]mem.Request{{Size: 256 << 20}}, blocks, nil)
		require.NoError(b, err)
		on := devices.Loc{Device: h.Device(), Block: blocks[0]}
		move := func(to, from devices.Loc) { // by the driver alone
			p, err := q.Submit(&devices.Command{Op: devices.OpCopy, Size: 256 << 20, Dst: to, Src: from}, nil)
			require.NoError(b, err)
			require.NoError(b, q.Wait(ctx, p, devices.Park))
		}
		move(on, devices.Loc{Bytes: src})
		var plain time.Duration
		for b.Loop() {
			x, err := tensor.FromHost(ctx, h, src, tensor.Sync())
			require.NoError(b, err)
			require.NoError(b, tensor.CopyTo(ctx, x, dst))
			require.NoError(b, x.Release())
			b.StopTimer()
			start := time.Now()
			move(on, devices.Loc{Bytes: src})
			move(devices.Loc{Bytes: dst}, on)
			plain += time.Since(start)
			b.StartTimer()
		}
		b.ReportMetric(float64(plain.Microseconds())/float64(b.N), "us-raw")
		require.NoError(b, h.Device().Memory().FreeAfter(blocks[0], nil))
		require.NoError(b, q.Close())
	})
	require.NoError(b, m.Close(ctx))
}
