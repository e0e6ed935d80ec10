package pack_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc/pack"
)

// BenchmarkPack packs MiniMalloc's A-E at their capacity and the
// PyTorch traces as low as 60 seconds
// allow. It reports the seconds and placements that took, and height / peak
// live.
func BenchmarkPack(b *testing.B) {
	for _, name := range []string{"A", "B", "C", "D", "E"} {
		b.Run(name, func(b *testing.B) {
			items := miniMalloc(b, name)
			measure(b, items, func(ctx context.Context) (pack.Result, error) {
				return pack.Minimize(ctx, items, pack.Options{Capacity: miniCapacity})
			})
		})
	}
	for _, name := range []string{"resnet50-train", "gpt2-train", "llama-generate"} {
		b.Run(name, func(b *testing.B) {
			items := pytorch(b, name)
			measure(b, items, func(ctx context.Context) (pack.Result, error) {
				return pack.Minimize(ctx, items, pack.Options{})
			})
		})
	}
}

func measure(b *testing.B, items []pack.Item, run func(context.Context) (pack.Result, error)) {
	b.ReportAllocs()
	var nodes, height uint64
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		r, err := run(ctx)
		cancel()
		require.NoError(b, err)
		require.NoError(b, pack.Verify(items, r.Offsets))
		nodes, height = r.Nodes, r.Height
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/solve")
	b.ReportMetric(float64(nodes), "nodes")
	b.ReportMetric(float64(height)/float64(peak(items)), "height/peak")
}
