package runtime_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/devices/work"
	"godwit/lib/kernels"
	"godwit/mem"
	"godwit/runtime"
)

// Slices of numbers go into buffers and out of them without a byte in sight.
func ExampleWriteSlice() {
	ctx := context.Background()
	d, err := cpu.New(cpu.Options{Name: "a"})
	check(err)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
	check(err)
	q, err := c.NewQueue(d, runtime.QueueOptions{Name: "q"})
	check(err)
	prog, err := c.Build(ctx, kernels.Program())
	check(err)
	scale, err := prog.Kernel("scale")
	check(err)

	x, err := runtime.CreateBufferOf(c, 4, 0, []float32{1, 2, 3, 4})
	check(err)
	half, err := runtime.CreateBufferOf[float32](c, 4, 0, nil)
	check(err)
	check(runtime.WriteSlice(ctx, q, x, 2, []float32{30, 40})) // elements 2 and 3
	e, err := q.EnqueueLaunch(ctx, runtime.Launch{
		Kernel: scale, Global: []uint64{4},
		Args: []runtime.Arg{runtime.In(x), runtime.Out(half), runtime.Float32(0.5), runtime.Uint64(4)},
	})
	check(err)
	fmt.Println(e)
	got := make([]float32, 4)
	check(runtime.ReadSlice(ctx, q, half, 0, got))
	fmt.Println(got)
	check(e.Release())
	check(x.Release())
	check(half.Release())
	check(c.Close(ctx))
	// Output:
	// command 2 on q
	// [0.5 1 15 20]
}

func TestSlicesAreCheckedAsBytesAre(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0]
	b, err := runtime.CreateBufferOf[int16](h.c, 8, 0, nil)
	require.NoError(t, err)
	require.EqualValues(t, 16, b.Size())
	require.NoError(t, runtime.WriteSlice(ctx, q, b, 6, []int16{-1, 2}))
	require.ErrorIs(t, runtime.WriteSlice(ctx, q, b, 7, []int16{1, 2}), mem.ErrInvalidValue, "one element leaves it")
	require.ErrorIs(t, runtime.ReadSlice(ctx, q, b, math.MaxUint64/2, []int16{0}), mem.ErrInvalidValue)
	require.ErrorIs(t, runtime.WriteSlice(ctx, q, b, 1<<63+6, []int16{1}), mem.ErrInvalidValue, "its bytes do not wrap round")
	_, err = runtime.CreateBufferOf[float64](h.c, 1<<61, 0, nil)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = runtime.CreateBufferOf(h.c, 3, 0, []int16{1, 2})
	require.ErrorIs(t, err, mem.ErrInvalidHostPtr)
	var got [2]int16
	require.NoError(t, runtime.ReadSlice(ctx, q, b, 6, got[:]))
	require.Equal(t, [2]int16{-1, 2}, got)
	require.NoError(t, b.Release())
}

// TestANumberOfTheOtherKindIsRefused: the bits of Int32(2) are a number next to 0 where a kernel
// takes a float. Bytes are whatever the kernel takes, and where its types are unknown all goes.
func TestANumberOfTheOtherKindIsRefused(t *testing.T) {
	numbers := []devices.ArgInfo{
		devices.ValueArg[float32]("f"), devices.ValueArg[float64]("d"), devices.ValueArg[int32]("i"), devices.ValueArg[uint64]("u"),
		{Name: "any", Kind: devices.ArgValue, Size: 4}, {Name: "vector", Kind: devices.ArgValue, Type: "float2", Size: 8},
	}
	h := build(t, runtime.Options{Devices: []devices.Device{null.New(devices.Config{Name: "a", Memory: 1 << 16})}}, runtime.QueueOptions{})
	prog := must(h.c.Build(soon(t), &devices.Program{Go: []devices.GoKernel{{Name: "numbers", Args: numbers, Func: func(*work.Group) {}}}}))
	launch := func(change int, to runtime.Arg) error {
		l := runtime.Launch{Kernel: must(prog.Kernel("numbers")), Global: []uint64{1}, NoEvent: true, Args: []runtime.Arg{
			runtime.Float32(1), runtime.Float64(1), runtime.Int32(1), runtime.Uint64(1), runtime.Int32(1), runtime.Bytes(make([]byte, 8))}}
		l.Args[change] = to
		_, err := h.q[0].EnqueueLaunch(soon(t), l)
		return err
	}
	for i, wrong := range []runtime.Arg{runtime.Int32(2), runtime.Int64(2), runtime.Float32(2), runtime.Float64(2)} {
		err := launch(i, wrong)
		require.ErrorIs(t, err, mem.ErrArgValue)
		require.ErrorContains(t, err, fmt.Sprintf("argument %d (%s) is made of", i, numbers[i].Name))
		require.ErrorContains(t, err, "the kernel wants a "+numbers[i].Type)
	}
	for i, right := range []runtime.Arg{runtime.Bytes(make([]byte, 4)), runtime.Float64(2), runtime.Uint32(2), runtime.Int64(-2), runtime.Float32(2), runtime.Float64(2)} {
		require.NoError(t, launch(i, right), "%d", i)
	}
}

func TestWhatPrintsTellsWhatItIs(t *testing.T) {
	h := build(t, runtime.Options{Name: "house", Devices: memories(1)}, runtime.QueueOptions{Name: "q"})
	b := must(h.c.CreateNamedBuffer("weights", 4096, 0, nil))
	part := must(b.Sub(1024, 1024, 0))
	user := must(h.c.NewUserEvent())
	e := h.ok(h.q[0].EnqueueFill(soon(t), b, []byte{1}, 0, 4096))
	var noQueue *runtime.Queue
	var noBuffer *runtime.Buffer
	require.Equal(t, "house, q, weights, weights[1024,2048), command 1 on q, no event, no queue, no buffer",
		fmt.Sprintf("%v, %v, %v, %v, %v, %v, %v, %v", h.c, h.q[0], b, part, e, runtime.Event{}, noQueue, noBuffer))
	require.Contains(t, user.String(), "user event")
	require.NoError(t, user.SetStatus(runtime.Complete))
	require.NoError(t, user.Release())
	require.Equal(t, "released event", user.String())
	require.NoError(t, e.Release())
	require.NoError(t, part.Release())
	require.NoError(t, b.Release())
}
