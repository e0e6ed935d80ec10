package tensor

import (
	"context"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/runtime"
)

// workItems bounds the work-items of a launch; kernels stride over the rest.
const workItems = 1 << 16

// groupSize is the work-items of a group in Sum, at most.
const groupSize = 64

// Add is a + b, element by element, as a new tensor on a's device. Operands have the
// same shape and are Float32; it fails with ErrDType, ErrShape, mem.ErrInvalidContext
// where the devices share no context, and like Empty and runtime.Queue.EnqueueLaunch.
func Add(ctx context.Context, a, b *Tensor) (*Tensor, error) {
	return like(a, func(out *Tensor) error { return AddInto(ctx, out, a, b) })
}

// AddInto is Add with the result in dst, which may be a or b.
func AddInto(ctx context.Context, dst, a, b *Tensor) error { return binary(ctx, "add", dst, a, b) }

// Mul is the product, element by element; like Add.
func Mul(ctx context.Context, a, b *Tensor) (*Tensor, error) {
	return like(a, func(out *Tensor) error { return MulInto(ctx, out, a, b) })
}

// MulInto is Mul with the result in dst, which may be a or b.
func MulInto(ctx context.Context, dst, a, b *Tensor) error { return binary(ctx, "mul", dst, a, b) }

func binary(ctx context.Context, op string, dst, a, b *Tensor) error {
	if err := same(a, b, dst); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	n := uint64(a.Len())
	return a.launch(ctx, op, []uint64{min(n, workItems)}, nil, a.In(), b.In(), dst.Out(), runtime.Uint64(n))
}

// Scale is alpha x as a new tensor on x's device; like Add.
func Scale(ctx context.Context, x *Tensor, alpha float32) (*Tensor, error) {
	return like(x, func(out *Tensor) error { return ScaleInto(ctx, out, x, alpha) })
}

// ScaleInto is Scale with the result in dst, which may be x.
func ScaleInto(ctx context.Context, dst, x *Tensor, alpha float32) error {
	if err := same(x, dst); err != nil {
		return fmt.Errorf("scale: %w", err)
	}
	n := uint64(x.Len())
	return x.launch(ctx, "scale", []uint64{min(n, workItems)}, nil, x.In(), dst.Out(), runtime.Float32(alpha), runtime.Uint64(n))
}

// Sum is the sum of all elements, as a tensor without dimensions. Partial sums of
// work-groups are added in a second launch.
func Sum(ctx context.Context, x *Tensor) (*Tensor, error) {
	if err := compatible(x); err != nil {
		return nil, fmt.Errorf("sum: %w", err)
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
	add := func(from, to *Tensor, groups uint64) error {
		scratch := runtime.Local(width * uint64(x.s.dtype.Size()))
		return x.launch(ctx, "sum", []uint64{groups * width}, []uint64{width}, from.In(), to.Out(), runtime.Uint64(uint64(from.Len())), scratch)
	}
	return made(x, nil, func(total *Tensor) error {
		if err := add(x, partial, groups); err != nil {
			return err
		}
		return add(partial, total, 1)
	})
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
	rows, cols, inner := uint64(a.s.shape[0]), uint64(b.s.shape[1]), uint64(a.s.shape[1])
	return made(a, []int{int(rows), int(cols)}, func(out *Tensor) error {
		return a.launch(ctx, "matmul", []uint64{min(cols, 1024), min(rows, 1024)}, nil,
			a.In(), b.In(), out.Out(), runtime.Uint64(rows), runtime.Uint64(cols), runtime.Uint64(inner))
	})
}

// like is a new tensor of x's shape, which f writes.
func like(x *Tensor, f func(out *Tensor) error) (*Tensor, error) {
	if err := x.live(); err != nil {
		return nil, err
	}
	return made(x, x.s.shape, f)
}

// made is a new tensor of x's type and device, which f writes.
func made(x *Tensor, shape []int, f func(out *Tensor) error) (*Tensor, error) {
	out, err := Empty(x.s.h, x.s.dtype, shape...)
	if err != nil {
		return nil, err
	}
	if err := f(out); err != nil {
		_ = out.Release() // the first error counts
		return nil, err
	}
	return out, nil
}

// compatible fails where tensors cannot be operands of one launch.
func compatible(ts ...*Tensor) error {
	for _, t := range ts {
		if err := t.live(); err != nil {
			return err
		}
		if a := ts[0]; !a.s.h.SharesContext(t.s.h) {
			return fmt.Errorf("%s and %s share no context; see To: %w", a.s.h, t.s.h, mem.ErrInvalidContext)
		}
		if t.s.dtype != Float32 {
			return fmt.Errorf("arithmetic of %s: it is for float32: %w", t.s.dtype, ErrDType)
		}
	}
	return nil
}

// same is compatible for tensors that are to have one shape.
func same(ts ...*Tensor) error {
	if err := compatible(ts...); err != nil {
		return err
	}
	for _, t := range ts[1:] {
		if a := ts[0]; !slices.Equal(a.s.shape, t.s.shape) {
			return fmt.Errorf("%v and %v: %w", a.s.shape, t.s.shape, ErrShape)
		}
	}
	return nil
}

// launch enqueues a kernel of package kernels on t's device.
func (t *Tensor) launch(ctx context.Context, kernel string, global, local []uint64, args ...runtime.Arg) error {
	k, err := t.s.h.Kernel(ctx, kernel)
	if err != nil {
		return err
	}
	return done(t.s.h.Queue().EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: global, Local: local, Args: args}))
}
