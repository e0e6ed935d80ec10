//go:build cgo

package opencl

import (
	"context"
	"testing"

	"github.com/jgillich/go-opencl/cl"
	"github.com/stretchr/testify/require"

	"godwit/devices"
)

// BenchmarkEnqueue is a kernel of three arguments: through Submit, and through
// go-opencl's own calls, which is what Submit is to be compared with.
func BenchmarkEnqueue(b *testing.B) {
	d := open(b, 1, nil)[0]
	m, err := d.Build(context.Background(), &devices.Program{Name: "p", Source: source})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, m.Close()) })
	k, err := m.Kernel("add")
	require.NoError(b, err)
	blocks := []devices.Arg{{Kind: devices.ArgBuffer, Block: alloc(b, d, 4096), Size: 4096}, {Kind: devices.ArgBuffer, Block: alloc(b, d, 4096), Size: 4096},
		{Kind: devices.ArgValue, Value: make([]byte, 4)}}
	const depth = 100 // commands in flight at most
	b.Run("submit", func(b *testing.B) {
		q := openQueue(b, d, devices.QueueOptions{Name: "q"})
		cmd := devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{1}, Args: blocks}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			p, err := q.Submit(&cmd, nil)
			if err != nil {
				b.Fatal(err)
			}
			if i%depth == 0 {
				b.StopTimer()
				finishPoint(b, q, p)
				b.StartTimer()
			}
		}
	})
	b.Run("go-opencl", func(b *testing.B) {
		prog, err := clContext(d).CreateProgramWithSource([]string{source})
		require.NoError(b, err)
		defer prog.Release()
		require.NoError(b, prog.BuildProgram(nil, ""))
		ck, err := prog.CreateKernel("add")
		require.NoError(b, err)
		defer ck.Release()
		q, err := clContext(d).CreateCommandQueue(clDevice(d), 0)
		require.NoError(b, err)
		defer q.Release()
		var bufs [2]*cl.MemObject
		for i := range bufs {
			bufs[i], err = clContext(d).CreateEmptyBuffer(cl.MemReadWrite, 4096)
			require.NoError(b, err)
			defer bufs[i].Release()
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := ck.SetArgs(bufs[0], bufs[1], int32(i)); err != nil {
				b.Fatal(err)
			}
			ev, err := q.EnqueueNDRangeKernel(ck, nil, []int{1}, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			ev.Release()
			if i%depth == 0 {
				b.StopTimer()
				require.NoError(b, q.Finish())
				b.StartTimer()
			}
		}
	})
}
