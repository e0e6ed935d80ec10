package pool_test

import (
	"context"
	"fmt"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/lib/pool"
	"godwit/runtime"
)

// Bytes are put into page-locked memory and sent from there; the memory is given back
// at once, and lent again when the device has the bytes.
func ExamplePinned() {
	ctx := context.Background()
	d, err := cpu.New(cpu.Options{})
	check(err)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
	check(err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	check(err)
	buf, err := c.CreateBuffer(5, 0, nil)
	check(err)

	p, err := pool.Pinned(q)
	check(err)
	loan, err := p.Get(ctx, q, 5)
	check(err)
	copy(loan.Bytes(), "hello")
	e, err := q.EnqueueWrite(ctx, buf, 0, loan.Bytes())
	check(err)
	check(p.PutAfter(loan, q))

	got := make([]byte, 5)
	r, err := q.EnqueueRead(ctx, buf, 0, got)
	check(err)
	check(r.Wait(ctx))
	fmt.Println(string(got), loan.Size(), loan.BucketSize(), p.Stats().Misses)
	check(e.Release())
	check(r.Release())
	check(buf.Release())
	check(c.Close(ctx)) // closes the pool too
	// Output: hello 5 256 1
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
