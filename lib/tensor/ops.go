package tensor

import (
	"context"
	"fmt"
	"math"
	"slices"

	"godwit/mem"
	"godwit/runtime"
)

// workItems bounds the work-items of a launch; kernels stride over the rest.
const workItems = 1 << 16

// groupSize is the work-items of a group in Sum, at most.
const groupSize = 64

// Add is a + b, element by element, as a new tensor on a's device. Operands have the
// same type and shape; it fails with ErrDType, ErrShape, mem.ErrInvalidContext where
// the devices share no context, and like Empty and runtime.Queue.EnqueueLaunch.
func Add(ctx context.Context, a, b *Tensor) (*Tensor, error) { return binary(ctx, "add", nil, a, b) }

// Mul is the product, element by element; like Add.
func Mul(ctx context.Context, a, b *Tensor) (*Tensor, error) { return binary(ctx, "mul", nil, a, b) }

// AddInto is Add with the result in dst, which may be a or b.
func AddInto(ctx context.Context, dst, a, b *Tensor) error {
	return into(ctx, "add", dst, a, b)
}

// MulInto is Mul with the result in dst, which may be a or b.
func MulInto(ctx context.Context, dst, a, b *Tensor) error {
	return into(ctx, "mul", dst, a, b)
}

func into(ctx context.Context, name string, dst, a, b *Tensor) error {
	if err := dst.live(); err != nil {
		return err
	}
	_, err := binary(ctx, name, dst, a, b)
	return err
}

func binary(ctx context.Context, name string, dst, a, b *Tensor) (*Tensor, error) {
	if err := same(a, b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return elementwise(ctx, name, dst, a, []runtime.Arg{a.In(), b.In()}, nil)
}

// Scale is alpha x as a new tensor on x's device. alpha is rounded to x's type; it
// fails with ErrDType where x is of integers and alpha is none.
func Scale(ctx context.Context, x *Tensor, alpha float64) (*Tensor, error) {
	return scale(ctx, nil, x, alpha)
}

// ScaleInto is Scale with the result in dst, which may be x.
func ScaleInto(ctx context.Context, dst, x *Tensor, alpha float64) error {
	if err := dst.live(); err != nil {
		return err
	}
	_, err := scale(ctx, dst, x, alpha)
	return err
}

func scale(ctx context.Context, dst, x *Tensor, alpha float64) (*Tensor, error) {
	if err := x.live(); err != nil {
		return nil, err
	}
	v, err := scalar(x.s.dtype, alpha)
	if err != nil {
		return nil, err
	}
	if x.s.dtype == Float16 { // its kernel computes in float32
		v = bytesOf([]float32{ToHalf(float32(alpha)).Float32()})
	}
	return elementwise(ctx, "scale", dst, x, []runtime.Arg{x.In()}, []runtime.Arg{runtime.Bytes(v)})
}

// elementwise launches kernel name(in..., out, values..., n) over x's elements, to
// dst or to a new tensor.
func elementwise(ctx context.Context, name string, dst, x *Tensor, in, values []runtime.Arg) (*Tensor, error) {
	k, err := x.kernel(ctx, name)
	if err != nil {
		return nil, err
	}
	out := dst
	if dst == nil {
		if out, err = Empty(x.s.h, x.s.dtype, x.s.shape...); err != nil {
			return nil, err
		}
	} else if err := same(x, dst); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	n := uint64(x.Len())
	args := append(in, out.Out())
	args = append(append(args, values...), runtime.Uint64(n))
	err = x.launch(ctx, k, []uint64{min(n, workItems)}, nil, args)
	if err != nil && dst == nil {
		_ = out.Release() // the first error counts
	}
	return out, err
}

// Fill sets every element to v, rounded to the type. It works for all types and
// fails with ErrDType where the type is of integers and has no v.
func Fill(ctx context.Context, t *Tensor, v float64) error {
	if err := t.live(); err != nil {
		return err
	}
	pattern, err := scalar(t.s.dtype, v)
	if err != nil {
		return err
	}
	return done(t.s.h.Queue().EnqueueFill(ctx, t.s.buf, pattern, 0, t.Bytes()))
}

// scalar is v as an element.
func scalar(d DType, v float64) ([]byte, error) {
	if d != Float16 && d != Float32 && d != Float64 {
		lo, hi := -math.Ldexp(1, 8*d.Size()-1), math.Ldexp(1, 8*d.Size()-1)
		if d == Uint8 || d == Uint16 || d == Uint32 || d == Uint64 {
			lo, hi = 0, math.Ldexp(1, 8*d.Size())
		}
		if v != math.Trunc(v) || v < lo || v >= hi {
			return nil, fmt.Errorf("%v as %s: it has no such number: %w", v, d, ErrDType)
		}
	}
	one := []float64{v}
	switch d {
	case Int8:
		return bytesOf(cast[int8](one)), nil
	case Uint8:
		return bytesOf(cast[uint8](one)), nil
	case Int16:
		return bytesOf(cast[int16](one)), nil
	case Uint16:
		return bytesOf(cast[uint16](one)), nil
	case Int32:
		return bytesOf(cast[int32](one)), nil
	case Uint32:
		return bytesOf(cast[uint32](one)), nil
	case Int64:
		return bytesOf(cast[int64](one)), nil
	case Uint64:
		return bytesOf(cast[uint64](one)), nil
	case Float16:
		return bytesOf(cast[Half](one)), nil
	case Float32:
		return bytesOf(cast[float32](one)), nil
	}
	return bytesOf(one), nil
}

// Sum is the sum of all elements, as a tensor without dimensions. Partial sums of
// work-groups are added in a second launch.
func Sum(ctx context.Context, x *Tensor) (*Tensor, error) {
	if err := x.live(); err != nil {
		return nil, err
	}
	k, err := x.kernel(ctx, "sum")
	if err != nil {
		return nil, err
	}
	width := uint64(groupSize)
	if most := x.s.h.Info().MaxWorkGroup; most != 0 {
		width = min(width, most)
	}
	groups := min((uint64(x.Len())+width-1)/width, groupSize)
	partial, err := Empty(x.s.h, x.s.dtype, int(groups))
	if err != nil {
		return nil, err
	}
	defer func() { _ = partial.Release() }() // once
	total, err := Empty(x.s.h, x.s.dtype)
	if err != nil {
		return nil, err
	}
	add := func(from, to *Tensor, groups uint64) error {
		scratch := runtime.Local(width * uint64(max(x.s.dtype.Size(), 4)))
		return x.launch(ctx, k, []uint64{groups * width}, []uint64{width},
			[]runtime.Arg{from.In(), to.Out(), runtime.Uint64(uint64(from.Len())), scratch})
	}
	if err = add(x, partial, groups); err == nil {
		err = add(partial, total, 1)
	}
	if err != nil {
		_ = total.Release() // the first error counts
		return nil, err
	}
	return total, nil
}

// MatMul is the matrix product of a, m x k, and b, k x n, as a new tensor on a's
// device. It fails with ErrShape where they are no such matrices, and like Add.
func MatMul(ctx context.Context, a, b *Tensor) (*Tensor, error) {
	if err := compatible(a, b); err != nil {
		return nil, fmt.Errorf("matmul: %w", err)
	}
	if len(a.s.shape) != 2 || len(b.s.shape) != 2 || a.s.shape[1] != b.s.shape[0] {
		return nil, fmt.Errorf("matmul: %v times %v: %w", a.s.shape, b.s.shape, ErrShape)
	}
	k, err := a.kernel(ctx, "matmul")
	if err != nil {
		return nil, err
	}
	rows, cols, inner := uint64(a.s.shape[0]), uint64(b.s.shape[1]), uint64(a.s.shape[1])
	out, err := Empty(a.s.h, a.s.dtype, int(rows), int(cols))
	if err != nil {
		return nil, err
	}
	global := []uint64{min(cols, 1024), min(rows, 1024)}
	err = a.launch(ctx, k, global, nil, []runtime.Arg{a.In(), b.In(), out.Out(), runtime.Uint64(rows), runtime.Uint64(cols), runtime.Uint64(inner)})
	if err != nil {
		_ = out.Release() // the first error counts
		return nil, err
	}
	return out, nil
}

// compatible fails where two tensors cannot be operands of one launch.
func compatible(a, b *Tensor) error {
	for _, t := range []*Tensor{a, b} {
		if err := t.live(); err != nil {
			return err
		}
	}
	if a.s.dtype != b.s.dtype {
		return fmt.Errorf("%s and %s: %w", a.s.dtype, b.s.dtype, ErrDType)
	}
	if !a.s.h.SharesContext(b.s.h) {
		return fmt.Errorf("%s and %s share no context; see To: %w", a.s.h, b.s.h, mem.ErrInvalidContext)
	}
	return nil
}

func same(a, b *Tensor) error {
	if err := compatible(a, b); err != nil {
		return err
	}
	if !slices.Equal(a.s.shape, b.s.shape) {
		return fmt.Errorf("%v and %v: %w", a.s.shape, b.s.shape, ErrShape)
	}
	return nil
}

// kernel finds the kernel of an operation for t's type.
func (t *Tensor) kernel(ctx context.Context, op string) (*runtime.Kernel, error) {
	switch t.s.dtype {
	case Float32:
		return t.s.h.Kernel(ctx, op)
	case Float64:
		return t.s.h.Kernel(ctx, op+"_f64")
	case Int32:
		return t.s.h.Kernel(ctx, op+"_i32")
	case Float16:
		return t.s.h.KernelOf(ctx, halves, op+"_f16")
	}
	return nil, fmt.Errorf("%s of %s: arithmetic is for float16, float32, float64 and int32: %w", op, t.s.dtype, ErrDType)
}

// launch enqueues a launch on t's device.
func (t *Tensor) launch(ctx context.Context, k *runtime.Kernel, global, local []uint64, args []runtime.Arg) error {
	return done(t.s.h.Queue().EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: global, Local: local, Args: args}))
}
