package poolreplay_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/study/alloc/formats"
	"godwit/study/poolreplay"
)

func open(t testing.TB, name string) *formats.Allocs {
	t.Helper()
	ts, err := formats.OpenAllocs(t.Context(), filepath.Join("..", "..", "testdata", "traces", name))
	require.NoError(t, err)
	require.Len(t, ts, 1)
	return ts[0]
}

func kind(t testing.TB, s string) poolreplay.Kind {
	t.Helper()
	k, err := poolreplay.ParseKind(s)
	require.NoError(t, err)
	require.Equal(t, s, k.String())
	return k
}

// A trace worked out by hand: two sizes of one power of two, one of another.
func TestASmallTraceByHand(t *testing.T) {
	var b formats.AllocBuilder
	for i, size := range []uint64{1000, 600, 3000} {
		require.NoError(t, b.Alloc(uint64(i), size, 0))
	}
	require.True(t, b.Free(0, 1))
	require.NoError(t, b.Alloc(7, 513, 2))
	tr := b.Build("hand", formats.FormatGodwit)
	r, err := poolreplay.Run(context.Background(), tr, kind(t, "power-of-two"), 2)
	require.NoError(t, err)
	require.EqualValues(t, 4600, r.PeakLive)
	require.InDelta(t, 0.25, r.Passes[0].HitRate, 1e-9, "the last of four requests")
	require.EqualValues(t, 1024+1024+4096, r.Passes[0].Held)
	require.InDelta(t, 6144.0/4600, r.Passes[0].Overhead, 1e-9)
	require.InDelta(t, 1, r.Passes[1].HitRate, 1e-9, "everything is there in the second pass")

	r, err = poolreplay.Run(context.Background(), tr, kind(t, "power-of-two:1"), 1)
	require.NoError(t, err)
	require.Equal(t, 1, r.Passes[0].Failures, "4,600 bytes do not hold the 6,144 of the buckets")
	require.LessOrEqual(t, r.Passes[0].Held, r.Ceiling)
}

func TestRealTracesHitInTheSecondPass(t *testing.T) {
	for _, name := range []string{"resnet50-train.csv.gz", "gpt2-train.csv.gz", "llama-generate.csv.gz"} {
		tr := open(t, name)
		for _, k := range []string{"power-of-two", "leading-bits"} {
			r, err := poolreplay.Run(context.Background(), tr, kind(t, k), 2)
			require.NoError(t, err)
			require.Greater(t, r.Passes[1].HitRate, 0.99, "%s through %s", name, k)
			require.GreaterOrEqual(t, r.Passes[0].Overhead, 1.0)
			require.Zero(t, r.Passes[0].Failures+r.Passes[1].Failures)
			t.Logf("%s %s: %+v", name, k, r.Passes)
		}
		r, err := poolreplay.Run(context.Background(), tr, kind(t, "leading-bits:1.1"), 2)
		require.NoError(t, err)
		require.LessOrEqual(t, r.Passes[1].Held, r.Ceiling)
		t.Logf("%s bounded: %+v", name, r.Passes)
	}
}

func TestPoolNames(t *testing.T) {
	for _, s := range []string{"", "pow2", "power-of-two:", "leading-bits:-1", "leading-bits:NaN", "leading-bits:0", "power-of-two:0.5", "x:1"} {
		_, err := poolreplay.ParseKind(s)
		require.ErrorIs(t, err, mem.ErrInvalidValue, s)
	}
}

func TestReplayStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := poolreplay.Run(ctx, open(t, "resnet50-train.csv.gz"), kind(t, "leading-bits"), 1)
	require.ErrorIs(t, err, context.Canceled)
}
