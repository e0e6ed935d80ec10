package kernels_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/lib/kernels"
	"godwit/mem"
)

// bench is a device with a queue and the library built for it.
type bench struct {
	t      *testing.T
	dev    devices.Device
	queue  devices.Queue
	module devices.Module
	runs   int
}

// everywhere runs f on each simulated device that runs kernels.
func everywhere(t *testing.T, f func(b *bench)) {
	for _, name := range []string{"cpu", "tce"} {
		t.Run(name, func(t *testing.T) {
			var dev devices.Device
			var err error
			if name == "cpu" {
				dev, err = cpu.New(cpu.Options{Workers: 3})
			} else {
				dev, err = tce.New(tce.Options{Memory: 16 << 20})
			}
			require.NoError(t, err)
			queue, err := dev.NewQueue(devices.QueueOptions{Name: "q"})
			require.NoError(t, err)
			module, err := dev.Build(context.Background(), kernels.Program())
			require.NoError(t, err)
			f(&bench{t: t, dev: dev, queue: queue, module: module})
			require.NoError(t, module.Close())
			require.NoError(t, queue.Close())
			require.NoError(t, dev.Memory().Check())
			require.NoError(t, dev.Close())
		})
	}
}

func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}

// run launches a kernel with the arguments: slices are buffers, whose content
// goes to the device and comes back; locals are sizes; the rest are values. Every
// other launch has a global offset, which kernels take off.
func (b *bench) run(name string, global, width [3]uint64, args ...any) {
	ctx, t := context.Background(), b.t
	k, err := b.module.Kernel(name)
	require.NoError(t, err)
	cmd := devices.Command{Op: devices.OpLaunch, Kernel: k, Global: global, Local: width}
	if b.runs++; b.runs%2 == 0 {
		cmd.Offset = [3]uint64{5, 3, 2}
	}
	for cmd.Dims < 3 && global[cmd.Dims] != 0 {
		cmd.Dims++
	}
	type buffer struct {
		block mem.Block
		bytes []byte
	}
	var buffers []buffer
	add := func(bytes []byte) {
		out := make([]mem.Block, 1)
		got, err := b.dev.Memory().AllocAll([]mem.Request{{Size: uint64(len(bytes))}}, out, nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, got)
		_, err = b.queue.Submit(&devices.Command{Op: devices.OpCopy, Size: uint64(len(bytes)),
			Dst: devices.Loc{Device: b.dev, Block: out[0]}, Src: devices.Loc{Bytes: bytes}}, nil)
		require.NoError(t, err)
		buffers = append(buffers, buffer{out[0], bytes})
		cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgBuffer, Block: out[0], Size: uint64(len(bytes))})
	}
	val := func(v any) {
		bytes, err := binary.Append(nil, binary.NativeEndian, v)
		require.NoError(t, err)
		cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgValue, Value: bytes})
	}
	for _, a := range args {
		switch a := a.(type) {
		case []uint8:
			add(a)
		case []float32:
			add(bytesOf(a))
		case []float64:
			add(bytesOf(a))
		case []int32:
			add(bytesOf(a))
		case []uint32:
			add(bytesOf(a))
		case scratch:
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgLocal, Size: uint64(a)})
		case int:
			val(uint64(a))
		default:
			val(a)
		}
	}
	_, err = b.queue.Submit(&cmd, nil)
	require.NoError(t, err)
	var p mem.Point
	for _, buf := range buffers {
		p, err = b.queue.Submit(&devices.Command{Op: devices.OpCopy, Size: uint64(len(buf.bytes)),
			Dst: devices.Loc{Bytes: buf.bytes}, Src: devices.Loc{Device: b.dev, Block: buf.block}}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, b.queue.Wait(ctx, p, devices.Park))
	for seq := uint64(1); seq <= p.Seq; seq++ {
		require.NoError(t, mem.Point{Line: p.Line, Seq: seq}.Err())
	}
	for _, buf := range buffers {
		require.NoError(t, b.dev.Memory().FreeAfter(buf.block, nil))
	}
}

// scratch is a size of local memory in bytes.
type scratch uint64

func random32(n int) []float32 {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	s := make([]float32, n)
	for i := range s {
		s[i] = r.Float32()*4 - 2
	}
	return s
}

func dim(n ...uint64) (d [3]uint64) {
	copy(d[:], n)
	return d
}

func TestElementwise(t *testing.T) {
	everywhere(t, func(b *bench) {
		for _, n := range []int{1, 7, 64, 1000} {
			for _, global := range []uint64{1, 64, 100, 1024} {
				x, y := random32(n), random32(n + 1)[1:]
				got, want := make([]float32, n), make([]float32, n)
				check := func(f func(i int) float32) {
					for i := range want {
						want[i] = f(i)
					}
					require.Equal(b.t, want, got)
				}
				b.run("fill", dim(global), dim(), got, float32(2.5), n)
				check(func(int) float32 { return 2.5 })
				b.run("add", dim(global), dim(), x, y, got, n)
				check(func(i int) float32 { return x[i] + y[i] })
				b.run("mul", dim(global), dim(), x, y, got, n)
				check(func(i int) float32 { return x[i] * y[i] })
				b.run("scale", dim(global), dim(), x, got, float32(3), n)
				check(func(i int) float32 { return 3 * x[i] })
				copy(got, y)
				b.run("saxpy", dim(global), dim(), x, got, float32(-1.5), n)
				check(func(i int) float32 { return float32(-1.5*x[i]) + y[i] })
				bytes := make([]uint8, n)
				b.run("copy", dim(global), dim(), bytesOf(x)[:n], bytes, n)
				require.Equal(b.t, bytesOf(x)[:n], bytes)
			}
		}
	})
}

func TestVariants(t *testing.T) {
	everywhere(t, func(b *bench) {
		xi, yi, zi := []int32{math.MaxInt32, -5, 7}, []int32{1, 2, 3}, make([]int32, 3)
		b.run("add_i32", dim(3), dim(), xi, yi, zi, 3)
		require.Equal(b.t, []int32{math.MinInt32, -3, 10}, zi)
		b.run("iaxpy", dim(3), dim(), yi, zi, int32(10), 3)
		require.Equal(b.t, []int32{math.MinInt32 + 10, 17, 40}, zi)
		xd, yd := []float64{0.1, 0.2, 0.3}, []float64{1, 2, 3}
		b.run("daxpy", dim(2), dim(), xd, yd, 0.5, 3)
		require.Equal(b.t, []float64{0.05 + 1, 0.1 + 2, 0.15 + 3}, yd)
	})
}

func TestSumAddsEveryElementOnceForAnyGroupSize(t *testing.T) {
	everywhere(t, func(b *bench) {
		for _, width := range []uint64{1, 2, 3, 7, 64, 100} {
			const groups = 5
			x := make([]int32, 1003)
			want := int32(0)
			for i := range x {
				x[i] = int32(i * i)
				want += x[i]
			}
			partial := make([]int32, groups)
			b.run("sum_i32", dim(width*groups), dim(width), x, partial, len(x), scratch(4*width))
			got := int32(0)
			for _, p := range partial {
				got += p
			}
			require.Equal(b.t, want, got, "groups of %d", width)
		}
	})
}

func TestHistogramAddsToWhatIsThere(t *testing.T) {
	everywhere(t, func(b *bench) {
		data := make([]uint8, 10_007)
		r := rand.New(rand.NewPCG(1, 2))
		counts, want := make([]uint32, 256), make([]uint32, 256)
		for i := range counts {
			counts[i] = uint32(i)
			want[i] = uint32(i)
		}
		for i := range data {
			data[i] = uint8(r.NormFloat64()*20 + 100)
			want[data[i]]++
		}
		b.run("histogram", dim(640), dim(64), data, counts, len(data), scratch(1024))
		require.Equal(b.t, want, counts)
	})
}

func TestStencilsOfSharesMakeTheWhole(t *testing.T) {
	everywhere(t, func(b *bench) {
		const n = 1000
		x, got, want := random32(n), make([]float32, n), make([]float32, n)
		for i := range want {
			want[i] = x[i]
			if i > 0 && i < n-1 {
				want[i] = float32(0.25*x[i-1]) + float32(0.5*x[i]) + float32(0.25*x[i+1])
			}
		}
		for lo := 0; lo < n; lo += 250 {
			b.run("stencil1d", dim(128), dim(), x, got, lo, lo+250, n)
		}
		require.Equal(b.t, want, got)
		const width, height = 40, 25
		for y := range height {
			for c := range width {
				i := y*width + c
				want[i] = x[i]
				if y > 0 && y < height-1 && c > 0 && c < width-1 {
					want[i] = float32(0.5*x[i]) + float32(0.125*(x[i-1]+x[i+1]+x[i-width]+x[i+width]))
				}
			}
		}
		clear(got)
		for lo := 0; lo < height; lo += 5 {
			b.run("stencil2d", dim(64), dim(), x, got, lo, lo+5, width, height)
		}
		require.Equal(b.t, want, got)
	})
}

func TestMatmul(t *testing.T) {
	everywhere(t, func(b *bench) {
		const m, n, k = 13, 9, 21
		x, y := random32(m*k), random32(k*n)
		want, got := make([]float32, m*n), make([]float32, m*n)
		for r := range m {
			for c := range n {
				for i := range k {
					want[r*n+c] += float32(x[r*k+i] * y[i*n+c])
				}
			}
		}
		for _, global := range [][3]uint64{dim(n, m), dim(4, 2), dim(16, 16), dim(5)} {
			clear(got)
			b.run("matmul", global, dim(), x, y, got, m, n, k)
			require.Equal(b.t, want, got)
		}
	})
}

func TestTransposeTurnsRowsIntoColumns(t *testing.T) {
	everywhere(t, func(b *bench) {
		const rows, columns = uint64(7), uint64(13)
		x := make([]float32, rows*columns)
		for i := range x {
			x[i] = float32(i)
		}
		for _, global := range []uint64{rows * columns, 4} {
			got := make([]float32, rows*columns)
			b.run("transpose", dim(global), dim(), x, got, rows, columns)
			for i := range rows {
				for j := range columns {
					require.Equal(b.t, x[i*columns+j], got[j*rows+i])
				}
			}
		}
	})
}

func TestOnlyNamesWhatThereIs(t *testing.T) {
	p, err := kernels.Only("saxpy", "sum")
	require.NoError(t, err)
	require.Len(t, p.Go, 2)
	require.Contains(t, p.Source, "__kernel void saxpy(")
	require.NotContains(t, p.Source, "histogram")
	_, err = kernels.Only("nonesuch")
	require.ErrorIs(t, err, mem.ErrKernelName)
	require.ErrorContains(t, err, "saxpy")
	for _, name := range kernels.Names() {
		require.Contains(t, kernels.Program().Source, "__kernel void "+name+"(")
	}
}

func TestPointersAreFollowed(t *testing.T) {
	everywhere(t, func(b *bench) {
		if b.dev.Info().SVM.Coarse {
			require.NoError(b.t, b.dev.ReserveSVM(mem.Range{Start: 1 << 40, End: 1<<40 + 1<<20}))
		}
		const n, at = 100, uint64(1)<<40 + 4096
		ctx, t := context.Background(), b.t
		blocks := make([]mem.Block, 2) // the cells, and what is gathered
		got, err := b.dev.Memory().AllocAll([]mem.Request{{Size: 4 * n}, {Size: 4 * n}}, blocks, nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, got)
		pointers, x := make([]uint64, n), make([]float32, n)
		for i := range pointers {
			pointers[i], x[i] = at+4*uint64(i*37%n), float32(i)
		}
		table := make([]mem.Block, 2)
		_, err = b.dev.Memory().AllocAll([]mem.Request{{Size: 8 * n}, {Size: 4 * n}}, table, nil)
		require.NoError(t, err)
		submit := func(c *devices.Command) {
			p, err := b.queue.Submit(c, nil)
			require.NoError(t, err)
			require.NoError(t, b.queue.Wait(ctx, p, devices.Park))
		}
		for i, data := range [][]byte{bytesOf(pointers), bytesOf(x)} {
			submit(&devices.Command{Op: devices.OpCopy, Size: uint64(len(data)), Dst: devices.Loc{Device: b.dev, Block: table[i]}, Src: devices.Loc{Bytes: data}})
		}
		for _, name := range []string{"scatter", "gather"} {
			k, err := b.module.Kernel(name)
			require.NoError(t, err)
			other := map[string]mem.Block{"scatter": table[1], "gather": blocks[1]}[name]
			submit(&devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{7}, Args: []devices.Arg{
				{Kind: devices.ArgBuffer, Block: table[0], Size: 8 * n}, {Kind: devices.ArgBuffer, Block: other, Size: 4 * n},
				{Kind: devices.ArgValue, Value: binary.NativeEndian.AppendUint64(nil, n)},
				{Kind: devices.ArgSVM, Block: blocks[0], Size: 4 * n, Pointer: at},
			}})
		}
		for i, want := range [][]float32{nil, x} {
			back := make([]float32, n)
			submit(&devices.Command{Op: devices.OpCopy, Size: 4 * n, Dst: devices.Loc{Bytes: bytesOf(back)}, Src: devices.Loc{Device: b.dev, Block: blocks[i]}})
			for j := range back {
				if i == 0 {
					require.Equal(t, x[j], back[j*37%n])
				} else {
					require.Equal(t, want[j], back[j])
				}
			}
		}
		for _, block := range append(blocks, table...) {
			require.NoError(t, b.dev.Memory().FreeAfter(block, nil))
		}
	})
}
