package virtual_test

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices/virtual"
	"godwit/runtime"
)

// A runtime on a machine that does not exist: a world says what time it would have taken, over which links its
// bytes would have gone, and, where no bytes are kept, what each command would have found.
func ExampleWorld() {
	ctx := context.Background()
	carriers := &virtual.Carriage{Devices: make([]virtual.Carrying, 2)}
	carriers.Devices[1].Classes[virtual.Launch].Enqueue = 5000 // of the thread that enqueues, in nanoseconds
	w, err := virtual.New(&bench{devices: 1, rate: gig, latency: 1000, kernel: gig, carries: carriers}, virtual.Options{Stamps: true})
	check(err)
	c, err := runtime.NewContext(runtime.Options{Devices: w.Devices(), Host: w.Host(), Executor: w, OwnDevices: true})
	check(err)
	q, err := c.NewQueue(w.Devices()[0], runtime.QueueOptions{})
	check(err)
	b, err := c.CreateBuffer(1_000_000, 0, nil)
	check(err)
	data := make([]byte, 1_000_000)
	up, err := q.EnqueueWrite(ctx, b, 0, data)
	check(err)
	down, err := q.EnqueueRead(ctx, b, 0, data)
	check(err)
	check(q.Finish(ctx))

	fmt.Println(w.Time(), "ns")
	tell(w.Counts(), w.Network(), w.Seen(2))
	check(errors.Join(up.Release(), down.Release(), b.Release(), c.Close(ctx)))
	// Output:
	// 2002000 ns
	// 2 commands, 1000000 bytes to the device
	// the read found [0,1000000) of command 1
}

// tell prints what a world had done, and what a read found.
func tell(done virtual.Counts, links *virtual.Network, found []virtual.Seen) {
	fmt.Println(done.Commands, "commands,", links.Usage(2).Bytes, "bytes to the device")
	fmt.Println("the read found", found[0].Range, "of command", found[0].First.By)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
