package runtime_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/lib/kernels"
	"godwit/runtime"
)

// A round on two devices is recorded once, and replayed with other buffers in its slots and
// another value for its kernel. Its copies are planned once, too.
func ExampleGraph_twoDevices() {
	ctx := context.Background()
	a, err := cpu.New(cpu.Options{Name: "a"})
	check(err)
	b, err := tce.New(tce.Options{Name: "b"})
	check(err)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{a, b}, OwnDevices: true})
	check(err)
	qa, err := c.NewQueue(a, runtime.QueueOptions{})
	check(err)
	qb, err := c.NewQueue(b, runtime.QueueOptions{})
	check(err)
	prog, err := c.Build(ctx, kernels.Program())
	check(err)
	scale, err := prog.Kernel("scale")
	check(err)
	const n, size = 256, 1024

	// Record: two launches, from a slot by way of a transient to another slot.
	rec, err := c.Record(qa, qb)
	check(err)
	in, err := rec.Slot("in", size, 0)
	check(err)
	out, err := rec.Slot("out", size, 0)
	check(err)
	half, err := rec.Transient("half", size)
	check(err)
	launch := func(q *runtime.Queue, from, to *runtime.Buffer, factor float32) runtime.Event {
		e, err := q.EnqueueLaunch(ctx, runtime.Launch{
			Kernel: scale, Global: []uint64{n},
			Args: []runtime.Arg{runtime.In(from), runtime.Out(to), runtime.Float32(factor), runtime.Uint64(n)},
		})
		check(err)
		return e
	}
	launch(qa, in, half, 0.5)
	last := launch(qb, half, out, 1)
	factor, err := rec.Value(last, 2)
	check(err)
	g, err := rec.Finish(ctx)
	check(err)

	// Replay: each round reads what the last one has written.
	var x [2]*runtime.Buffer
	for i := range x {
		x[i], err = c.CreateBuffer(size, 0, nil)
		check(err)
	}
	_, err = qa.EnqueueFill(ctx, x[0], binary.NativeEndian.AppendUint32(nil, math.Float32bits(1)), 0, size)
	check(err)
	for i := range 4 {
		_, err = g.Replay(ctx, qa, runtime.Bindings{
			Slots:  []runtime.Binding{{Slot: in, Buffer: x[i%2]}, {Slot: out, Buffer: x[(i+1)%2]}},
			Values: []runtime.NewValue{{Value: factor, Arg: runtime.Float32(float32(2 * (i + 1)))}},
		})
		check(err)
	}
	got := make([]byte, 4)
	read, err := qb.EnqueueRead(ctx, x[0], 0, got)
	check(err)
	check(read.Wait(ctx))
	f := g.Figures()
	fmt.Println(math.Float32frombits(binary.NativeEndian.Uint32(got)))
	fmt.Printf("%d replays of %d commands, %d by the plain route\n", f.Replays, f.Commands, f.Plain)
	fmt.Printf("each moves %d bytes of what it writes, and the last one moved %d before it began\n", f.Bytes, f.Entry)

	check(g.Close())
	for _, buf := range x {
		check(buf.Release())
	}
	check(c.Close(ctx))
	// Output:
	// 24
	// 4 replays of 2 commands, 0 by the plain route
	// each moves 1024 bytes of what it writes, and the last one moved 1024 before it began
}
