package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	_ "godwit/devices/tce"
	"godwit/lib/backend"
	"godwit/lib/tensor"
)

func roundTrip[T tensor.Numeric](b *bench, d tensor.DType, data ...T) {
	b.Helper()
	x := up(b, data)
	require.Equal(b, d, x.DType())
	require.Equal(b, data, down[T](b, x))
	y := got(b)(x.Clone(b.ctx))
	require.Equal(b, data, down[T](b, y))
	require.NoError(b, tensor.Fill(b.ctx, y, T(7)))
	for _, v := range down[T](b, y) {
		require.Equal(b, T(7), v)
	}
	require.Equal(b, data, down[T](b, x))
	free(b, x, y)
}

func TestEveryTypeGoesThereAndBackAndIsFilled(t *testing.T) {
	everywhere(t, func(b *bench) {
		roundTrip[int8](b, tensor.Int8, -128, 0, 127)
		roundTrip[uint8](b, tensor.Uint8, 0, 255)
		roundTrip[int16](b, tensor.Int16, -32768, 5)
		roundTrip[uint16](b, tensor.Uint16, 65535, 5)
		roundTrip[int32](b, tensor.Int32, math.MinInt32, 5)
		roundTrip[uint32](b, tensor.Uint32, math.MaxUint32, 5)
		roundTrip[int64](b, tensor.Int64, math.MinInt64, 5)
		roundTrip[uint64](b, tensor.Uint64, math.MaxUint64, 5)
		roundTrip(b, tensor.DTypeOf[int](), -3, 5)
		roundTrip[uint](b, tensor.DTypeOf[uint](), 3, 5)
		roundTrip[float32](b, tensor.Float32, 1.5, -0.25)
		if b.h.Has(backend.FP64) {
			roundTrip(b, tensor.Float64, math.Pi, math.Inf(1))
		}
		if b.h.Has(backend.FP16) {
			roundTrip(b, tensor.Float16, tensor.ToHalf(1.5), tensor.ToHalf(-3))
		}
	})
}

func TestHalfWhereTheDeviceHasItAndAClearErrorElsewhere(t *testing.T) {
	everywhere(t, func(b *bench) {
		xs := []tensor.Half{tensor.ToHalf(1), tensor.ToHalf(2.5), tensor.ToHalf(-0.125), tensor.ToHalf(4)}
		if !b.h.Has(backend.FP16) {
			_, err := tensor.FromHost(b.ctx, b.h, xs)
			require.ErrorIs(b, err, tensor.ErrFeature)
			require.ErrorContains(b, err, "cl_khr_fp16")
			return
		}
		x := up(b, xs, tensor.Shape(2, 2))
		require.Equal(b, float32(2.5), down[tensor.Half](b, x)[1].Float32())
		_, err := tensor.Add(b.ctx, x, x)
		require.ErrorIs(b, err, tensor.ErrDType, "arithmetic is for float32")
		free(b, x)
	})
}

func TestHalfConversionIsExactAndRoundsToEven(t *testing.T) {
	for i := range 1 << 16 {
		h := tensor.Half(i)
		f := h.Float32()
		if f != f {
			require.NotEqual(t, tensor.ToHalf(f).Float32(), tensor.ToHalf(f).Float32())
			continue
		}
		require.Equal(t, h, tensor.ToHalf(f), "%#x", i)
		if next := (h + 1).Float32(); i&0x7fff < 0x7bff { // the middle of two neighbours
			even := h + h&1
			require.Equal(t, even, tensor.ToHalf((f+next)/2), "%#x", i)
		}
	}
	require.Equal(t, tensor.Half(0x7bff), tensor.ToHalf(65519))
	require.Equal(t, tensor.Half(0x7c00), tensor.ToHalf(65520))
	require.Equal(t, tensor.Half(0x8000), tensor.ToHalf(float32(math.Copysign(0, -1))))
}
