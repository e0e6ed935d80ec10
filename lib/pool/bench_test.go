package pool_test

import (
	"context"
	"testing"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/lib/pool"
	"godwit/runtime"
)

// BenchmarkHit is Get of a buffer that its device has used, a fill, and Put, on a device that does nothing.
func BenchmarkHit(b *testing.B) {
	ctx := context.Background()
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}, OwnDevices: true})
	check(err)
	d, err := c.Device(1)
	check(err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	check(err)
	q = q.With(runtime.CommandOptions{NoEvent: true})
	p, err := pool.NewBufferPool(c, pool.Options{})
	check(err)
	one := []byte{1}
	b.ReportAllocs()
	for b.Loop() {
		h, err := p.Get(q, 1<<20, 0)
		check(err)
		_, err = q.EnqueueFill(ctx, h.Buffer(), one, 0, 1<<20)
		check(err)
		check(p.PutAfter(h, q))
	}
	b.StopTimer()
	_, err = p.Clear()
	check(err)
	check(c.Close(ctx))
}
