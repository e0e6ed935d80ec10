package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/lib/backend"
	"godwit/lib/tensor"
	"godwit/mem"
)

// axpy is y += sum(x x) x, with results in between.
func axpy(b *bench, x, y *tensor.Tensor) error {
	sq, err := tensor.Mul(b.ctx, x, x)
	if err != nil {
		return err
	}
	sum, err := tensor.Sum(b.ctx, sq)
	require.NoError(b, err)
	far, err := sum.To(b.ctx, b.both[len(b.both)-1])
	require.NoError(b, err)
	wide, err := tensor.Empty(b.h, tensor.Float32, x.Shape()...)
	require.NoError(b, err)
	require.NoError(b, tensor.Fill(b.ctx, wide, float32(2)))
	twice, err := tensor.Mul(b.ctx, wide, x)
	require.NoError(b, err)
	require.NoError(b, tensor.AddInto(b.ctx, y, y, twice))
	for _, t := range []*tensor.Tensor{sq, sum, far, wide, twice} {
		require.NoError(b, t.Release())
	}
	return nil
}

func TestAStepThatIsRunDoesWhatItsOperationsDo(t *testing.T) {
	everywhere(t, func(b *bench) {
		var xs [3]*tensor.Tensor
		for i := range xs {
			data := make([]float32, 300)
			for k := range data {
				data[k] = float32(i*k + 1)
			}
			var err error
			xs[i], err = tensor.FromHost(b.ctx, b.h, data)
			require.NoError(b, err)
		}
		zero := make([]float32, 300)
		plain, err := tensor.FromHost(b.ctx, b.h, zero)
		require.NoError(b, err)
		y, err := tensor.FromHost(b.ctx, b.h, zero)
		require.NoError(b, err)
		step, err := tensor.Record(b.ctx, b.both, func(s *tensor.Step) error {
			x, err := s.Input(xs[0])
			if err != nil {
				return err
			}
			return axpy(b, x, y)
		})
		require.NoError(b, err)
		for i := range 7 {
			require.NoError(b, axpy(b, xs[i%3], plain))
			require.NoError(b, step.Run(b.ctx, xs[i%3]))
		}
		want, err := tensor.ToHost[float32](b.ctx, plain)
		require.NoError(b, err)
		got, err := tensor.ToHost[float32](b.ctx, y)
		require.NoError(b, err)
		require.Equal(b, want, got)
		f := step.Figures()
		require.EqualValues(b, 7, f.Replays)
		require.Zero(b, f.Plain, f.Why)
		require.Positive(b, f.Transients)

		require.NoError(b, y.Release()) // the step keeps it
		require.NoError(b, step.Run(b.ctx, xs[0]))
		require.NoError(b, step.Close())
		for _, x := range append(xs[:], plain) {
			require.NoError(b, x.Release())
		}
	})
}

func TestMistakesWithStepsAreErrors(t *testing.T) {
	everywhere(t, func(b *bench) {
		x, err := tensor.FromHost(b.ctx, b.h, []float32{1, 2, 3})
		require.NoError(b, err)
		other, err := tensor.FromHost(b.ctx, b.h, []int32{1, 2, 3})
		require.NoError(b, err)
		long, err := tensor.FromHost(b.ctx, b.h, []float32{1, 2, 3, 4})
		require.NoError(b, err)
		y, err := x.Clone(b.ctx)
		require.NoError(b, err)
		_, err = tensor.Record(b.ctx, nil, nil)
		require.ErrorIs(b, err, mem.ErrInvalidDevice)
		var inside *tensor.Tensor
		var late *tensor.Step
		step, err := tensor.Record(b.ctx, []*backend.Handle{b.h}, func(s *tensor.Step) error {
			late = s
			_, err := tensor.FromHost(b.ctx, b.h, []float32{1})
			require.ErrorIs(b, err, mem.ErrInvalidOperation)
			_, err = tensor.ToHost[float32](b.ctx, x)
			require.ErrorIs(b, err, mem.ErrInvalidOperation)
			_, err = tensor.Record(b.ctx, []*backend.Handle{b.h}, func(*tensor.Step) error { return nil })
			require.ErrorIs(b, err, mem.ErrInvalidOperation)
			in, err := s.Input(x)
			require.NoError(b, err)
			inside, err = tensor.Add(b.ctx, in, in)
			require.NoError(b, err)
			return tensor.CopyInto(b.ctx, y, inside)
		})
		require.NoError(b, err)
		_, err = tensor.ToHost[float32](b.ctx, inside)
		require.ErrorIs(b, err, mem.ErrInvalidBuffer)
		_, err = late.Input(x)
		require.ErrorIs(b, err, mem.ErrInvalidOperation)
		require.ErrorIs(b, step.Run(b.ctx), mem.ErrInvalidValue)
		require.ErrorIs(b, step.Run(b.ctx, other), tensor.ErrDType)
		require.ErrorIs(b, step.Run(b.ctx, long), tensor.ErrShape)
		require.NoError(b, step.Run(b.ctx, x))
		got, err := tensor.ToHost[float32](b.ctx, y)
		require.NoError(b, err)
		require.Equal(b, []float32{2, 4, 6}, got)
		require.NoError(b, step.Close())
		require.ErrorIs(b, step.Run(b.ctx, x), mem.ErrClosed)
		require.ErrorIs(b, step.Close(), mem.ErrClosed)
		require.ErrorIs(b, tensor.CopyInto(b.ctx, y, long), tensor.ErrShape)
		require.ErrorIs(b, tensor.CopyInto(b.ctx, y, other), tensor.ErrDType)

		_, err = tensor.Record(b.ctx, []*backend.Handle{b.h}, func(*tensor.Step) error { return mem.ErrFault })
		require.ErrorIs(b, err, mem.ErrFault)
		require.NoError(b, tensor.Fill(b.ctx, y, float32(1))) // nothing records any more
		for _, t := range []*tensor.Tensor{x, y, other, long, inside} {
			require.NoError(b, t.Release())
		}
		require.ErrorIs(b, step.Run(b.ctx, x), tensor.ErrReleased)
	})
}
