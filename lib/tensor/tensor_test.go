package tensor_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "godwit/devices/tce"
	"godwit/lib/backend"
	"godwit/lib/tensor"
	"godwit/mem"
	"godwit/runtime"
)

func TestMain(m *testing.M) {
	if os.Getenv("POCL_DEVICES") == "" {
		_ = os.Setenv("POCL_DEVICES", "pthread pthread")
	}
	goleak.VerifyTestMain(m)
}

// bench is two devices of one kind.
type bench struct {
	*testing.T
	ctx  context.Context
	h    *backend.Handle
	both []*backend.Handle
}

// everywhere runs f on cpu, tce and OpenCL devices; a device chosen in
// GODWIT_TEST_DEVICE is the only one. All tensors are to be released by f.
func everywhere(t *testing.T, f func(b *bench)) {
	names := []string{"cpu", "tce", "cl"}
	if only := os.Getenv("GODWIT_TEST_DEVICE"); only != "" {
		names = []string{only}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			m := backend.NewManager(backend.Options{})
			n := 2
			if name != "cpu" && name != "tce" {
				n = 0 // as many as there are
			}
			both, err := m.Group(name, n)
			if name == "cl" && errors.Is(err, mem.ErrDeviceNotFound) {
				t.Skipf("no OpenCL here: %v", err)
			}
			require.NoError(t, err)
			f(&bench{t, ctx, both[0], both})
			for _, h := range both {
				require.NoError(t, h.Queue().Finish(ctx))
				require.Zero(t, h.Pool().Stats().Out, "every tensor was released")
				require.NoError(t, h.Pool().Check())
			}
			require.NoError(t, both[0].Context().Check())
			require.NoError(t, m.Close(ctx))
		})
	}
}

func up[T tensor.Numeric](b *bench, data []T, opts ...tensor.Option) *tensor.Tensor {
	b.Helper()
	t, err := tensor.FromHost(b.ctx, b.h, data, opts...)
	require.NoError(b, err)
	return t
}

func down[T tensor.Numeric](b *bench, t *tensor.Tensor) []T {
	b.Helper()
	out, err := tensor.ToHost[T](b.ctx, t)
	require.NoError(b, err)
	return out
}

// got is the tensor of an operation that must not fail.
func got(b *bench) func(t *tensor.Tensor, err error) *tensor.Tensor {
	return func(t *tensor.Tensor, err error) *tensor.Tensor {
		b.Helper()
		require.NoError(b, err)
		return t
	}
}

func free(b *bench, ts ...*tensor.Tensor) {
	b.Helper()
	for _, t := range ts {
		require.NoError(b, t.Release())
	}
}

func random(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	out := make([]float32, n)
	for i := range out {
		out[i] = r.Float32()*4 - 2
	}
	return out
}

func TestArithmeticAgreesWithFloat64(t *testing.T) {
	everywhere(t, func(b *bench) {
		for _, n := range []int{1, 7, 64, 1000, 100_003} {
			xs, ys := random(n, 1), random(n, 2)
			x, y := up(b, xs), up(b, ys)
			sum, prod := got(b)(tensor.Add(b.ctx, x, y)), got(b)(tensor.Mul(b.ctx, x, y))
			scaled := got(b)(tensor.Scale(b.ctx, x, -0.3))
			total := got(b)(tensor.Sum(b.ctx, x))
			gs, gp, gc := down[float32](b, sum), down[float32](b, prod), down[float32](b, scaled)
			want, magnitude := 0.0, 0.0
			for i := range n {
				p, q := float64(xs[i]), float64(ys[i])
				require.InDelta(b, p+q, gs[i], 4e-7)
				require.InDelta(b, p*q, gp[i], 4e-7)
				require.InDelta(b, -0.3*p, gc[i], 4e-7)
				want += p
				magnitude += math.Abs(p)
			}
			require.Empty(b, total.Shape())
			require.InDelta(b, want, down[float32](b, total)[0], 1e-5*magnitude)
			free(b, x, y, sum, prod, scaled, total)
		}
	})
}

func TestMatMulAgreesWithFloat64(t *testing.T) {
	everywhere(t, func(b *bench) {
		for _, s := range [][3]int{{1, 1, 1}, {3, 5, 2}, {33, 17, 65}} {
			m, k, n := s[0], s[1], s[2]
			xs, ys := random(m*k, 3), random(k*n, 4)
			x, y := up(b, xs, tensor.Shape(m, k)), up(b, ys, tensor.Shape(k, n))
			z := got(b)(tensor.MatMul(b.ctx, x, y))
			require.Equal(b, []int{m, n}, z.Shape())
			require.Equal(b, []int{n, 1}, z.Strides())
			all := down[float32](b, z)
			for r := range m {
				for c := range n {
					want := 0.0
					for i := range k {
						want += float64(xs[r*k+i]) * float64(ys[i*n+c])
					}
					require.InDelta(b, want, all[r*n+c], 1e-5*float64(k))
				}
			}
			free(b, x, y, z)
		}
	})
}

func TestAStagedSourceMayChangeAtOnceAndABorrowedOneOnceReady(t *testing.T) {
	everywhere(t, func(b *bench) {
		gate, err := b.h.Context().NewUserEvent()
		require.NoError(b, err)
		e, err := b.h.Queue().EnqueueBarrier(b.ctx, gate) // nothing runs until the gate opens
		require.NoError(b, err)
		require.NoError(b, e.Release())
		staged, borrowed := random(5000, 5), random(5000, 6)
		wantStaged, wantBorrowed := random(5000, 5), random(5000, 6)
		s := up(b, staged, tensor.Async())
		w := up(b, borrowed, tensor.Borrow(), tensor.Async())
		clear(staged)
		short, cancel := context.WithTimeout(b.ctx, 10*time.Millisecond)
		require.ErrorIs(b, w.Ready(short), context.DeadlineExceeded, "still borrowed")
		cancel()
		require.NoError(b, gate.SetStatus(runtime.Complete))
		require.NoError(b, gate.Release())
		require.NoError(b, w.Ready(b.ctx))
		clear(borrowed)
		require.Equal(b, wantStaged, down[float32](b, s))
		require.Equal(b, wantBorrowed, down[float32](b, w))
		free(b, s, w)
		x := up(b, staged, tensor.Sync())
		require.NoError(b, x.Ready(b.ctx))
		free(b, x)
	})
}

func TestViewsShareContentAndTheBufferGoesBackWithTheLast(t *testing.T) {
	everywhere(t, func(b *bench) {
		data := random(1024*4, 8)
		x := up(b, data, tensor.Shape(1024, 4))
		v := got(b)(x.Slice(256, 512))
		w := got(b)(v.Slice(128, 256)) // rows 384 to 512 of x
		r := got(b)(w.Reshape(4, 128))
		free(b, x, v)
		require.Equal(b, 1, int(b.h.Pool().Stats().Buffers))
		require.NotZero(b, b.h.Pool().Stats().Out)
		require.Equal(b, data[384*4:512*4], down[float32](b, r))
		require.NoError(b, tensor.Fill(b.ctx, r, float32(3)))
		require.Equal(b, float32(3), down[float32](b, w)[0])
		free(b, w)
		require.Equal(b, float32(3), down[float32](b, r)[511])
		free(b, r)
	})
}

func TestOperationsInPlaceAndAcrossDevices(t *testing.T) {
	everywhere(t, func(b *bench) {
		if len(b.both) < 2 {
			b.Log("there is one device only")
			return // no Skip, which would leave the devices open
		}
		xs := random(3000, 9)
		x := up(b, xs)
		require.NoError(b, tensor.AddInto(b.ctx, x, x, x))
		there := got(b)(x.To(b.ctx, b.both[1]))
		require.Same(b, b.both[1], there.Handle())
		require.NoError(b, tensor.ScaleInto(b.ctx, there, there, 2))
		sum := got(b)(tensor.Add(b.ctx, there, x)) // on the other device: 4x + 2x
		require.Same(b, b.both[1], sum.Handle())
		require.NoError(b, tensor.MulInto(b.ctx, x, x, sum)) // and back: 12x²
		all := down[float32](b, x)
		for i, v := range xs {
			require.InDelta(b, 12*float64(v)*float64(v), all[i], 1e-5)
		}
		free(b, x, there, sum)
	})
}

func TestToAnotherContextGoesThroughTheHost(t *testing.T) {
	everywhere(t, func(b *bench) {
		other, err := b.h.Manager().Group("tce", 1)
		require.NoError(b, err)
		x := up(b, []float32{1, 2, 3})
		y := got(b)(x.To(b.ctx, other[0]))
		require.Equal(b, "tce", y.Backend())
		require.Equal(b, []float32{1, 2, 3}, down[float32](b, y))
		_, err = tensor.Add(b.ctx, x, y)
		require.ErrorIs(b, err, mem.ErrInvalidContext)
		free(b, x, y)
	})
}

func TestFromBufferWrapsOnesOwn(t *testing.T) {
	everywhere(t, func(b *bench) {
		buf, err := b.h.Context().CreateBuffer(16, 0, make([]byte, 16))
		require.NoError(b, err)
		x, err := tensor.FromBuffer(b.h, buf, tensor.Int32, 2, 2)
		require.NoError(b, err)
		require.NoError(b, buf.Release(), "the tensor has a reference of its own")
		require.NoError(b, tensor.Fill(b.ctx, x, int32(9)))
		require.Equal(b, []int32{9, 9, 9, 9}, down[int32](b, x))
		_, err = tensor.FromBuffer(b.h, buf, tensor.Float64, 3)
		require.ErrorIs(b, err, tensor.ErrShape)
		_, err = tensor.FromBuffer(b.h, nil, tensor.Int32, 1)
		require.ErrorIs(b, err, mem.ErrInvalidBuffer)
		free(b, x)
	})
}

func TestMistakesAreErrorsAndTakeNothing(t *testing.T) {
	everywhere(t, func(b *bench) {
		x, y := up(b, []float32{1, 2, 3, 4}, tensor.Shape(2, 2)), up(b, []float32{1, 2, 3})
		i, bytes := up(b, []int32{1, 2, 3, 4}, tensor.Shape(2, 2)), up(b, []uint8{1, 2})
		gone := up(b, []float32{1})
		free(b, gone)
		before := b.h.Pool().Stats().Out
		fails := func(want error) func(*tensor.Tensor, error) {
			return func(t *tensor.Tensor, err error) {
				b.Helper()
				require.ErrorIs(b, err, want)
				require.Nil(b, t)
			}
		}
		fails(tensor.ErrShape)(tensor.FromHost(b.ctx, b.h, []float32{1, 2}, tensor.Shape(3)))
		fails(tensor.ErrShape)(tensor.FromHost(b.ctx, b.h, []float32{}))
		fails(tensor.ErrShape)(tensor.Empty(b.h, tensor.Float32, 2, -1))
		fails(tensor.ErrShape)(tensor.Empty(b.h, tensor.Float32, 1<<40, 1<<40))
		fails(tensor.ErrDType)(tensor.Empty(b.h, tensor.Invalid, 2))
		fails(tensor.ErrShape)(tensor.Add(b.ctx, x, y))
		fails(tensor.ErrDType)(tensor.Add(b.ctx, x, i))
		fails(tensor.ErrDType)(tensor.Add(b.ctx, bytes, bytes))
		fails(tensor.ErrDType)(tensor.Scale(b.ctx, i, 2))
		fails(tensor.ErrDType)(tensor.Sum(b.ctx, i))
		fails(tensor.ErrShape)(tensor.MatMul(b.ctx, x, y))
		fails(tensor.ErrReleased)(tensor.Sum(b.ctx, gone))
		fails(mem.ErrInvalidValue)(tensor.Sum(b.ctx, nil))
		fails(tensor.ErrShape)(x.Slice(1, 3))
		fails(tensor.ErrShape)(x.Reshape(3))
		require.ErrorIs(b, tensor.Fill(b.ctx, x, 1.0), tensor.ErrDType)
		require.ErrorIs(b, gone.Release(), tensor.ErrReleased)
		require.ErrorIs(b, tensor.CopyTo(b.ctx, x, make([]float32, 3)), tensor.ErrShape)
		require.ErrorIs(b, tensor.CopyTo(b.ctx, x, make([]int32, 4)), tensor.ErrDType)
		require.Equal(b, before, b.h.Pool().Stats().Out)
		free(b, x, y, i, bytes)
	})
}

func TestStringIsShapeTypeAndDevice(t *testing.T) {
	everywhere(t, func(b *bench) {
		x := up(b, make([]int32, 6), tensor.Shape(2, 3))
		require.Equal(b, "tensor [2 3] int32 on "+b.h.String(), x.String())
		free(b, x)
		_, err := tensor.ToHost[int32](b.ctx, x)
		require.ErrorIs(b, err, tensor.ErrReleased)
		require.ErrorContains(b, err, x.String())
	})
}
