package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	_ "godwit/devices/tce"
	"godwit/lib/backend"
	"godwit/lib/tensor"
)

func roundTrip[T tensor.Numeric](b *bench, data ...T) {
	b.Helper()
	x := up(b, data)
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
		roundTrip[int8](b, -128, 0, 127)
		roundTrip[uint8](b, 0, 255)
		roundTrip[int16](b, -32768, 5)
		roundTrip[uint16](b, 65535, 5)
		roundTrip[int32](b, math.MinInt32, 5)
		roundTrip[uint32](b, math.MaxUint32, 5)
		roundTrip[int64](b, math.MinInt64, 5)
		roundTrip[uint64](b, math.MaxUint64, 5)
		roundTrip[int](b, -3, 5)
		roundTrip[uint](b, 3, 5)
		roundTrip[float32](b, 1.5, -0.25)
		if b.h.Has(backend.FP64) {
			roundTrip(b, math.Pi, math.Inf(1))
		}
		if b.h.Has(backend.FP16) {
			roundTrip(b, tensor.ToHalf(1.5), tensor.ToHalf(-3))
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
