//go:build cgo

package opencl_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/runtime"
)

// BenchmarkStep is 200 small launches by turns over two devices, whose end the host waits for: enqueued, and
// replayed as a graph, by turns; medians. On GPUs tests/icd/testdata/step.c makes the same calls of the vendor.
func BenchmarkStep(b *testing.B) {
	const launches, each = 200, 8
	m := openMigrations(b, nil)
	ctx := context.Background()
	prog, err := m.c.Build(ctx, &devices.Program{Name: "step", Source: `kernel void four(global float *c, global const float *a, global const float *b, uint n) {
	uint i = get_global_id(0);
	c[i] = a[i] + b[i] * n;
}`})
	require.NoError(b, err)
	k, err := prog.Kernel("four")
	require.NoError(b, err)
	var bufs [2][each]*runtime.Buffer
	for d := range bufs {
		for i := range bufs[d] {
			bufs[d][i], err = m.c.CreateBuffer(4096, runtime.ReadWrite, nil)
			require.NoError(b, err)
			e, err := m.qs[d].EnqueueFill(ctx, bufs[d][i], []byte{0}, 0, 4096)
			require.NoError(b, err)
			require.NoError(b, e.Release())
		}
	}
	enqueue := func() {
		for i := range launches {
			d, n := i%2, i/2
			at := &bufs[d]
			args := [4]runtime.Arg{runtime.InOut(at[n%each]), runtime.In(at[(n+1)%each]), runtime.In(at[(n+3)%each]), runtime.Uint32(uint32(i))}
			e, err := m.qs[d].EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{1024}, Args: args[:]})
			require.NoError(b, err)
			require.NoError(b, e.Release())
		}
	}
	rec, err := m.c.Record(m.qs[:2]...)
	require.NoError(b, err)
	enqueue()
	graph, err := rec.Finish(ctx)
	require.NoError(b, err)
	replay := func() {
		e, err := graph.Replay(ctx, m.qs[0], runtime.Bindings{})
		require.NoError(b, err)
		require.NoError(b, e.Release())
	}
	var took [2][]time.Duration
	for b.Loop() {
		for w, call := range []func(){enqueue, replay} {
			start := time.Now()
			call()
			m.finish()
			took[w] = append(took[w], time.Since(start))
		}
	}
	for w, unit := range []string{"us/enqueued", "us/replayed"} {
		slices.Sort(took[w])
		b.ReportMetric(took[w][len(took[w])/2].Seconds()*1e6, unit)
	}
	b.ReportMetric(0, "ns/op")
	require.Zero(b, graph.Figures().Plain, graph.Figures().Why)
	for d := range bufs {
		for _, buf := range bufs[d] {
			require.NoError(b, buf.Release())
		}
	}
}
