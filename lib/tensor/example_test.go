package tensor_test

import (
	"context"
	"fmt"

	"godwit/lib/backend"
	"godwit/lib/tensor"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Operations are enqueued; printing waits for them.
func Example() {
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	check(err)
	x, err := tensor.FromHost(ctx, h, []float32{1, 2, 3, 4}, tensor.Shape(2, 2))
	check(err)
	y, err := tensor.MatMul(ctx, x, x)
	check(err)
	fmt.Println(y)
	got, err := tensor.ToHost[float32](ctx, y)
	check(err)
	fmt.Println(got)
	check(x.Release())
	check(y.Release())
	check(m.Close(ctx))
	// Output:
	// tensor [2 2] float32 on cpu (cpu)
	// [7 10 15 22]
}

// A slice is a view: what is written to it shows in the whole.
func ExampleTensor_Slice() {
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	check(err)
	x, err := tensor.FromHost(ctx, h, make([]int32, 64), tensor.Shape(2, 32))
	check(err)
	row, err := x.Slice(1, 2)
	check(err)
	check(tensor.Fill(ctx, row, int32(5)))
	got, err := tensor.ToHost[int32](ctx, x)
	check(err)
	fmt.Println(got[30:34])
	check(row.Release())
	check(x.Release())
	check(m.Close(ctx))
	// Output: [0 0 5 5]
}

// A borrowed slice is not copied by the host; it is the caller's again once the
// tensor is ready.
func ExampleBorrow() {
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	check(err)
	data := []float32{1, 2, 3}
	x, err := tensor.FromHost(ctx, h, data, tensor.Borrow(), tensor.Async())
	check(err)
	check(x.Ready(ctx))
	data[0] = 100
	sum, err := tensor.Sum(ctx, x)
	check(err)
	got, err := tensor.ToHost[float32](ctx, sum)
	check(err)
	fmt.Println(got)
	check(x.Release())
	check(sum.Release())
	check(m.Close(ctx))
	// Output: [6]
}

// On a device that uses the host's memory in place the slice is the tensor: nothing is
// copied, and kernels write to the slice.
func ExampleZeroCopy() {
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	check(err)
	data := []float32{1, 2, 3}
	x, err := tensor.FromHost(ctx, h, data, tensor.ZeroCopy())
	check(err)
	check(tensor.ScaleInto(ctx, x, x, 10))
	check(h.Queue().Finish(ctx))
	check(x.Release())
	fmt.Println(data, h.Context().Stats().BytesMoved)
	check(m.Close(ctx))
	// Output: [10 20 30] 0
}

// Tensors of a group's devices can be operands of one operation.
func ExampleTensor_To() {
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	hs, err := m.Group("tce", 2)
	check(err)
	x, err := tensor.FromHost(ctx, hs[0], []float32{1, 2, 3})
	check(err)
	y, err := x.To(ctx, hs[1])
	check(err)
	check(tensor.ScaleInto(ctx, y, y, 10))
	sum, err := tensor.Add(ctx, x, y)
	check(err)
	got, err := tensor.ToHost[float32](ctx, sum)
	check(err)
	fmt.Println(got)
	for _, t := range []*tensor.Tensor{x, y, sum} {
		check(t.Release())
	}
	check(m.Close(ctx))
	// Output: [11 22 33]
}
