package tensor_test

import (
	"context"
	stdruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "godwit/devices/tce"
	"godwit/lib/backend"
	"godwit/lib/tensor"
)

func TestTheCollectorGivesForgottenTensorsBackAndReports(t *testing.T) {
	var reports atomic.Int32
	m := backend.NewManager(backend.Options{Report: func(what string) {
		if what == "tensor [3] float32 on cpu (cpu): found by the garbage collector" {
			reports.Add(1)
		}
	}})
	h, err := m.Default("cpu")
	require.NoError(t, err)
	func() {
		_, err := tensor.FromHost(context.Background(), h, []float32{1, 2, 3})
		require.NoError(t, err)
		kept, err := tensor.FromHost(context.Background(), h, []float32{1, 2, 3, 4})
		require.NoError(t, err)
		require.NoError(t, kept.Release())
	}()
	require.Eventually(t, func() bool {
		stdruntime.GC()
		return reports.Load() == 1 && h.Pool().Stats().Out == 0
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, m.Close(context.Background()))
}

// TestRandomProgramsAgreeWithAModel: sequences of operations on a few tensors of
// integers, against slices.
func TestRandomProgramsAgreeWithAModel(t *testing.T) {
	everywhere(t, func(b *bench) {
		const n = 96 // elements
		rapid.Check(b.T, func(r *rapid.T) {
			var ts []*tensor.Tensor
			var want [][]int32
			for i := range 3 {
				vs := rapid.SliceOfN(rapid.Int32(), n, n).Draw(r, "content")
				x, err := tensor.FromHost(b.ctx, b.both[i%len(b.both)], vs)
				require.NoError(b, err)
				ts, want = append(ts, x), append(want, vs)
			}
			which := rapid.IntRange(0, 2)
			for range rapid.IntRange(1, 12).Draw(r, "steps") {
				d, p, q := which.Draw(r, "dst"), which.Draw(r, "a"), which.Draw(r, "b")
				switch rapid.SampledFrom([]string{"add", "mul", "scale", "fill", "move"}).Draw(r, "op") {
				case "add":
					require.NoError(b, tensor.AddInto(b.ctx, ts[d], ts[p], ts[q]))
					for i := range n {
						want[d][i] = want[p][i] + want[q][i]
					}
				case "mul":
					require.NoError(b, tensor.MulInto(b.ctx, ts[d], ts[p], ts[q]))
					for i := range n {
						want[d][i] = want[p][i] * want[q][i]
					}
				case "scale":
					require.NoError(b, tensor.ScaleInto(b.ctx, ts[d], ts[p], -3))
					for i := range n {
						want[d][i] = -3 * want[p][i]
					}
				case "fill":
					require.NoError(b, tensor.Fill(b.ctx, ts[d], 41))
					for i := range n {
						want[d][i] = 41
					}
				case "move":
					moved := got(b)(ts[p].To(b.ctx, b.both[d%len(b.both)]))
					require.NoError(b, ts[d].Release())
					ts[d], want[d] = moved, append([]int32(nil), want[p]...)
				}
			}
			for i, x := range ts {
				require.Equal(b, want[i], down[int32](b, x))
				require.NoError(b, x.Release())
			}
			require.NoError(b, b.h.Context().Check())
		})
	})
}
