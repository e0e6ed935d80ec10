package runtime_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/lib/kernels"
	"godwit/mem/trace"
	"godwit/runtime"
)

// A buffer is written on one device and used on another: the runtime moves what
// is stale, and says why.
func Example() {
	ctx := context.Background()
	a, err := cpu.New(cpu.Options{Name: "a"})
	check(err)
	b, err := tce.New(tce.Options{Name: "b"})
	check(err)
	var record trace.Recorder
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{a, b}, OwnDevices: true, Trace: &record})
	check(err)
	qa, err := c.NewQueue(a, runtime.QueueOptions{})
	check(err)
	qb, err := c.NewQueue(b, runtime.QueueOptions{})
	check(err)
	prog, err := c.Build(ctx, kernels.Program())
	check(err)
	add, err := prog.Kernel("add_i32")
	check(err)

	x, err := c.CreateBuffer(64, 0, nil)
	check(err)
	y, err := c.CreateBuffer(64, 0, nil)
	check(err)
	sum, err := c.CreateBuffer(64, 0, nil)
	check(err)
	for i, buf := range []*runtime.Buffer{x, y} {
		word := binary.LittleEndian.AppendUint32(nil, uint32(i+20))
		_, err = qa.EnqueueFill(ctx, buf, word, 0, 64)
		check(err)
	}
	_, err = qb.EnqueueLaunch(ctx, runtime.Launch{
		Kernel: add, Global: []uint64{16},
		Args: []runtime.Arg{runtime.Buf(x), runtime.Buf(y), runtime.Out(sum), runtime.Uint64(16)},
	})
	check(err)
	got := make([]byte, 4)
	read, err := qb.EnqueueRead(ctx, sum, 0, got)
	check(err)
	check(read.Wait(ctx))
	fmt.Println("sum", binary.LittleEndian.Uint32(got))
	for _, cmd := range record.Commands() {
		for _, s := range cmd.Steps {
			fmt.Printf("%s of %s: %s\n", cmd.Op, cmd.Kernel, s.Why)
		}
	}

	for _, buf := range []*runtime.Buffer{x, y, sum} {
		check(buf.Release())
	}
	check(c.Close(ctx))
	// Output:
	// sum 41
	// launch of add_i32: b lacks version 1 of [0,64), fresh on a; from a directly: the only copy
	// launch of add_i32: b lacks version 2 of [0,64), fresh on a; from a directly: the only copy
}

// The figures of a context at one moment say what has moved, what is stored and what is under way.
func ExampleContext_Figures() {
	ctx := context.Background()
	d, err := tce.New(tce.Options{Name: "accelerator", Memory: 1 << 20})
	check(err)
	c, err := runtime.OpenContext(ctx, runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
	check(err)
	q, err := c.NewQueue(d, runtime.QueueOptions{Name: "work"})
	check(err)
	b, err := c.CreateBuffer(4096, 0, make([]byte, 4096))
	check(err)
	_, err = q.EnqueueMigrate(ctx, []*runtime.Buffer{b}, 0)
	check(err)
	check(q.Finish(ctx))

	f := c.Figures()
	fmt.Println(c.MoverStats() == runtime.MoverStats{Direct: 1, Legs: 1})
	for _, l := range f.Links {
		fmt.Println(l == runtime.LinkBytes{From: "host", To: "accelerator", Bytes: 4096})
	}
	var m runtime.MemoryBytes = f.Memories[1]
	fmt.Println(m.Name, m.Live, "of", m.Capacity)
	fmt.Println(f.Queues[0] == runtime.QueueDepth{Queue: "work", Device: "accelerator"})

	gate, err := c.NewUserEvent() // until then b cannot leave, and there is no room for all of another
	check(err)
	_, err = q.EnqueueFill(ctx, b, []byte{1}, 0, 4096, gate)
	check(err)
	tooMuch, err := c.CreateBuffer(1<<20, 0, nil)
	check(err)
	_, err = q.EnqueueFill(ctx, tooMuch, []byte{1}, 0, 1<<20)
	var why *runtime.OutOfMemory
	fmt.Println(errors.As(err, &why))
	var largest runtime.Holder = why.Holders[0]
	fmt.Println(largest.Bytes)
	check(gate.SetStatus(runtime.Complete))
	check(gate.Release())
	check(tooMuch.Release())
	check(b.Release())
	check(c.Close(ctx))
	// Output:
	// true
	// true
	// accelerator 4096 of 1048576
	// true
	// true
	// 4096
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
