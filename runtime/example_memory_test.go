package runtime_test

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/devices/tce"
	"godwit/lib/kernels"
	"godwit/mem"
	"godwit/runtime"
)

// accelerator opens a context over one device of 1 MiB, with a queue.
func accelerator(o runtime.Options) (*runtime.Context, *runtime.Queue) {
	d, err := tce.New(tce.Options{Name: "accelerator", Memory: 1 << 20})
	check(err)
	o.Devices, o.OwnDevices = []devices.Device{d}, true
	c, err := runtime.OpenContext(context.Background(), o)
	check(err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	check(err)
	return c, q
}

// filled is a buffer of which every byte is v on the queue's device.
func filled(c *runtime.Context, q *runtime.Queue, name string, size uint64, v byte) (*runtime.Buffer, error) {
	b, err := c.CreateNamedBuffer(name, size, 0, nil)
	check(err)
	e, err := q.EnqueueFill(context.Background(), b, []byte{v}, 0, size)
	if err == nil {
		check(e.Release())
	}
	return b, err
}

// A program that shares a device caps what it takes of it. Buffers that do not fit together take turns: the
// one used longest ago is written back to the host, and is brought again when it is used.
func ExampleOptions_caps() {
	ctx := context.Background()
	c, q := accelerator(runtime.Options{Caps: []uint64{1: 64 << 10}})
	a, err := filled(c, q, "a", 48<<10, 1)
	check(err)
	b, err := filled(c, q, "b", 48<<10, 2)
	check(err)
	got := make([]byte, 1)
	e, err := q.EnqueueRead(ctx, a, 0, got)
	check(err)
	check(e.Wait(ctx))
	check(e.Release())

	m, s := c.Figures().Memories[1], c.Stats()
	fmt.Println(got[0], m.Peak <= 64<<10, "of", m.Capacity>>10, "KiB")
	fmt.Println(s.Evictions, "evictions,", s.BytesWrittenBack>>10, "KiB written back")
	check(errors.Join(a.Release(), b.Release(), c.Close(ctx)))
	// Output:
	// 1 true of 64 KiB
	// 2 evictions, 96 KiB written back
}

// What a program can do without, such as a cache, it gives up when there is no room for what it cannot.
func ExampleOptions_onShortage() {
	var cache *runtime.Buffer
	c, q := accelerator(runtime.Options{NoEviction: true, OnShortage: func(_ context.Context, why *runtime.OutOfMemory) bool {
		fmt.Printf("%d KiB are missing of %s: the cache goes\n", (why.Requested-why.Free)>>10, why.Device)
		check(cache.Release())
		return true // try once more
	}})
	var err error
	cache, err = filled(c, q, "cache", 768<<10, 0)
	check(err)
	b, err := filled(c, q, "work", 512<<10, 1)
	var room runtime.RoomFigures = c.Figures().Room
	fmt.Println(err, "after", room.Shortages, "shortage")
	check(errors.Join(b.Release(), c.Close(context.Background())))
	// Output:
	// 256 KiB are missing of accelerator: the cache goes
	// <nil> after 1 shortage
}

// An error for want of room is a certificate: what was asked for, what there is, and who holds it.
func ExampleOutOfMemory() {
	c, q := accelerator(runtime.Options{NoEviction: true})
	weights, err := filled(c, q, "weights", 640<<10, 0)
	check(err)
	state, err := filled(c, q, "state", 256<<10, 0)
	check(err)
	more, err := filled(c, q, "more", 256<<10, 0)
	var why *runtime.OutOfMemory
	fmt.Println(errors.Is(err, mem.ErrNoMemory), errors.As(err, &why), why.Hopeless)
	fmt.Println(why.Requested>>10, "KiB of", why.Capacity>>10, "with", why.Free>>10, "free:", why.Verdict)
	for _, h := range why.Holders {
		fmt.Println(h.Name, "holds", h.Bytes>>10, "KiB")
	}
	check(errors.Join(weights.Release(), state.Release(), more.Release(), c.Close(context.Background())))
	// Output:
	// true true false
	// 256 KiB of 1024 with 128 free: capacity
	// weights holds 640 KiB
	// state holds 256 KiB
}

// A map gives the host the bytes in place, as they were when the command's turn came. What the host has
// written counts from the unmap on.
func ExampleQueue_EnqueueMap() {
	ctx := context.Background()
	c, q := accelerator(runtime.Options{})
	b, err := filled(c, q, "b", 4096, 7)
	check(err)
	m, e, err := q.EnqueueMap(ctx, b, 16, 4, runtime.MapRead|runtime.MapWrite)
	check(err)
	check(e.Wait(ctx))
	fmt.Println(m.Bytes())
	m.Bytes()[0] = 9
	unmapped, err := q.EnqueueUnmap(ctx, m)
	check(err)
	got := make([]byte, 6)
	read, err := q.EnqueueRead(ctx, b, 15, got) // on the device: the byte is brought there
	check(err)
	check(read.Wait(ctx))
	fmt.Println(got)
	check(errors.Join(e.Release(), unmapped.Release(), read.Release(), b.Release(), c.Close(ctx)))
	// Output:
	// [7 7 7 7]
	// [7 9 7 7 7 7]
}

// A program with a choice of devices asks each what a launch would cost there: here what has to move, and what
// others have to fetch again.
func ExampleQueue_Preview() {
	ctx := context.Background()
	var devs []devices.Device
	for _, name := range []string{"left", "right"} {
		d, err := tce.New(tce.Options{Name: name, Memory: 64 << 10})
		check(err)
		devs = append(devs, d)
	}
	c, err := runtime.OpenContext(ctx, runtime.Options{Devices: devs, OwnDevices: true})
	check(err)
	prog, err := c.Build(ctx, kernels.Program())
	check(err)
	scale, err := prog.Kernel("scale")
	check(err)
	var queues []*runtime.Queue
	for _, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		check(err)
		queues = append(queues, q)
	}
	weights, err := filled(c, queues[0], "weights", 48<<10, 1)
	check(err)
	other, err := filled(c, queues[1], "other", 48<<10, 1)
	check(err)
	for _, q := range queues {
		v, err := q.Preview(runtime.Launch{Kernel: scale, Global: []uint64{64}, Args: []runtime.Arg{
			runtime.Buf(weights), runtime.Buf(weights), runtime.Float32(2), runtime.Uint64(12 << 10),
		}})
		check(err)
		fmt.Println(v.Bytes>>10, "KiB to bring,", v.WrittenBack>>10, "KiB to write back first,", v.Refetch>>10, "KiB to fetch again")
	}
	there, err := weights.Resident(devs[0])
	check(err)
	fmt.Println(there>>10, "KiB are on the left")
	check(errors.Join(weights.Release(), other.Release(), c.Close(ctx)))
	// Output:
	// 0 KiB to bring, 0 KiB to write back first, 0 KiB to fetch again
	// 48 KiB to bring, 48 KiB to write back first, 48 KiB to fetch again
	// 48 KiB are on the left
}

// mean is the mean of a buffer's elements, of any type that a buffer can hold.
func mean[T runtime.Element](b *runtime.Buffer, q *runtime.Queue, n int) float64 {
	all, sum := make([]T, n), 0.0
	check(runtime.ReadSlice(context.Background(), q, b, 0, all))
	for _, v := range all {
		sum += float64(v)
	}
	return sum / float64(n)
}

// Sizes and origins of what has a type count elements.
func ExampleCreateBufferOf() {
	c, q := accelerator(runtime.Options{})
	b, err := runtime.CreateBufferOf(c, 4, runtime.CopyHostPtr, []float32{1, 2, 3, 4})
	check(err)
	check(runtime.WriteSlice(context.Background(), q, b, 3, []float32{10}))
	fmt.Println(b.Size(), "bytes, mean", mean[float32](b, q, 4))
	check(errors.Join(b.Release(), c.Close(context.Background())))
	// Output:
	// 16 bytes, mean 4
}
