package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/lib/backend"
	"godwit/lib/pool"
	"godwit/mem"
)

func TestMain(m *testing.M) {
	if os.Getenv("POCL_DEVICES") == "" {
		_ = os.Setenv("POCL_DEVICES", "pthread pthread")
	}
	os.Exit(m.Run())
}

// places are the devices to train on: any backend, one device and several.
var places = []options{{device: "cpu", n: 1}, {device: "cpu", n: 2}, {device: "tce", n: 3}, {device: "cl", n: 1}, {device: "cl", n: 2}}

// on runs f for each place with a manager that is closed, with nothing leaked.
func on(t *testing.T, f func(t *testing.T, ctx context.Context, o options)) {
	for _, o := range places {
		o.epochs, o.samples, o.batch, o.hidden, o.rate, o.seed, o.record = 6, 1200, 240, 8, 1, 1, true
		t.Run(fmt.Sprintf("%d x %s", o.n, o.device), func(t *testing.T) {
			m := backend.NewManager(backend.Options{})
			if _, err := m.Group(o.device, o.n); errors.Is(err, mem.ErrDeviceNotFound) {
				t.Skipf("not here: %v", err)
			}
			f(t, backend.WithManager(context.Background(), m), o)
			require.NoError(t, m.Close(context.Background()))
		})
	}
}

var epochLine = regexp.MustCompile(`epoch +\d+  loss (\S+)`)

func TestLossesFallAndAreTheSameOnEveryBackend(t *testing.T) {
	first := make(map[int][]float64) // by devices: shares are summed in another order
	on(t, func(t *testing.T, ctx context.Context, o options) {
		var out strings.Builder
		require.NoError(t, run(ctx, o, &out, io.Discard))
		var losses []float64
		for _, m := range epochLine.FindAllStringSubmatch(out.String(), -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			losses = append(losses, v)
		}
		require.Len(t, losses, o.epochs)
		require.Less(t, losses[o.epochs-1], losses[0])
		if first[0] == nil {
			first[0] = losses
		}
		require.InDeltaSlice(t, first[0], losses, 2e-3, "the same batches, however they are shared")
	})
}

// TestARecordedStepTrainsTheSame: losses are those of steps that are enqueued.
func TestARecordedStepTrainsTheSame(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context, o options) {
		var recorded, enqueued strings.Builder
		require.NoError(t, run(ctx, o, &recorded, io.Discard))
		o.record = false
		require.NoError(t, run(ctx, o, &enqueued, io.Discard))
		require.Equal(t, epochLine.FindAllString(enqueued.String(), -1), epochLine.FindAllString(recorded.String(), -1))
		require.Regexp(t, `recorded: .* 30 steps, 0 enqueued one by one`, recorded.String())
		require.NotContains(t, enqueued.String(), "recorded")
	})
}

// TestHalfTheMemoryTrainsTheSame: pools, tensors and the device allocator over devices
// with half of the memory that the training takes; its losses are what they were.
func TestHalfTheMemoryTrainsTheSame(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context, o options) {
		if o.device == "cpu" {
			t.Skip("its memory is the host's")
		}
		var all strings.Builder
		require.NoError(t, run(ctx, o, &all, io.Discard))
		hs, err := backend.ManagerOf(ctx).Group(o.device, o.n)
		require.NoError(t, err)
		var peak uint64
		for i := range hs {
			peak = max(peak, hs[0].Context().Resource(mem.MemoryID(i+1)).Stats().PeakLive)
		}

		half := backend.NewManager(backend.Options{Memory: peak / 2})
		ctx = backend.WithManager(context.Background(), half)
		var out strings.Builder
		require.NoError(t, run(ctx, o, &out, io.Discard))
		require.Equal(t, epochLine.FindAllString(all.String(), -1), epochLine.FindAllString(out.String(), -1))
		hs, err = half.Group(o.device, o.n)
		require.NoError(t, err)
		require.Positive(t, hs[0].Context().Stats().Evictions)
		require.NoError(t, hs[0].Context().Check())
		t.Logf("%d bytes at most, half of them now: %s", peak, out.String()[strings.Index(out.String(), "bytes moved"):])
		require.NoError(t, half.Close(context.Background()))
	})
}

// TestSteadyStateCreatesNoBuffers: 10,000 steps where GODWIT_SOAK is set.
func TestSteadyStateCreatesNoBuffers(t *testing.T) {
	steps := 100
	if os.Getenv("GODWIT_SOAK") != "" {
		steps = 10_000
	}
	on(t, func(t *testing.T, ctx context.Context, o options) {
		hs, err := backend.ManagerOf(ctx).Group(o.device, o.n)
		require.NoError(t, err)
		o.record = false // whose results in between are not in the pool's buffers
		net, err := newNetwork(ctx, hs, o)
		require.NoError(t, err)
		defer net.release()
		train := func(steps int) {
			for i := range steps {
				require.NoError(t, net.step(ctx, net.batches[i%len(net.batches)]))
				if i%50 == 49 {
					_, err := net.loss(ctx)
					require.NoError(t, err)
				}
			}
			_, err := net.loss(ctx)
			require.NoError(t, err)
			require.NoError(t, backend.ManagerOf(ctx).Finish(ctx))
		}
		train(50) // warm-up
		before := make([]pool.Stats, len(hs))
		live := make([]uint64, len(hs)+1)
		for i, h := range hs {
			before[i] = h.Pool().Stats()
			h.Pool().ResetStats()
		}
		for i := range live {
			live[i] = hs[0].Context().Resource(mem.MemoryID(i)).Stats().Live
		}
		train(steps)
		for i, h := range hs {
			after := h.Pool().Stats()
			t.Logf("device %d: %d buffers, %d bytes, %d hits, %d misses: hit rate %.4f", i, after.Buffers, after.Held, after.Hits, after.Misses, after.HitRate())
			require.Equal(t, before[i].Buffers, after.Buffers)
			require.Equal(t, before[i].Held, after.Held)
			require.Zero(t, after.Misses)
			require.Greater(t, after.HitRate(), 0.95)
		}
		for i := range live {
			require.Equal(t, live[i], hs[0].Context().Resource(mem.MemoryID(i)).Stats().Live, "bytes on memory %d", i)
		}
	})
}

func TestMistakesInTheOptionsAreErrors(t *testing.T) {
	m := backend.NewManager(backend.Options{})
	ctx := backend.WithManager(context.Background(), m)
	require.Error(t, run(ctx, options{device: "cpu", n: 1, samples: 10, batch: 20, hidden: 1, epochs: 1}, io.Discard, io.Discard))
	require.ErrorIs(t, run(ctx, options{device: "nonesuch", n: 1}, io.Discard, io.Discard), mem.ErrDeviceNotFound)
	require.NoError(t, m.Close(ctx))
}
