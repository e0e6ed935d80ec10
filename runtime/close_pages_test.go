package runtime_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/runtime"
)

// closable is a device that says when it is closed.
type closable struct {
	*cpu.Device
	closed func()
}

func (d *closable) Close() error {
	d.closed()
	return d.Device.Close()
}

// Pages are locked without the planner's lock: the device must stay open for as long as a
// call does so, whichever it is.
func TestCloseWaitsForCallsThatLockPages(t *testing.T) {
	const size = 1 << 20
	for name, call := range map[string]func(*runtime.Context, *runtime.Queue, devices.Device, []*runtime.Buffer) error{
		"an enqueue that writes back": func(_ *runtime.Context, q *runtime.Queue, _ devices.Device, bs []*runtime.Buffer) error {
			_, err := q.EnqueueFill(context.Background(), bs[2], []byte{1}, 0, size)
			return err
		},
		"a drop": func(_ *runtime.Context, _ *runtime.Queue, d devices.Device, bs []*runtime.Buffer) error {
			return bs[0].Drop(d)
		},
		"a buffer's creation": func(c *runtime.Context, _ *runtime.Queue, _ devices.Device, _ []*runtime.Buffer) error {
			_, err := c.CreateBuffer(size, runtime.AllocHostPtr, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := must(cpu.New(cpu.Options{Memory: 2 * size}))
			var mu sync.Mutex
			var order []string
			happened := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, what)
			}
			var armed atomic.Bool
			in, closing := make(chan struct{}), make(chan struct{})
			family := &devicetest.Family{OnLock: func() {
				if armed.CompareAndSwap(true, false) {
					close(in)
					<-closing
					time.Sleep(10 * time.Millisecond) // a Close that does not wait is faster
					happened("pages were locked")
				}
			}}
			bus := devicetest.NewBus(&closable{d, func() { happened("the device was closed") }}, family)
			c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{bus}, OwnDevices: true, WholeBelow: 2 * size}))
			q := must(c.NewQueue(bus, runtime.QueueOptions{}))
			var bs []*runtime.Buffer
			for range 3 {
				b := must(c.CreateBuffer(size, 0, nil))
				bs = append(bs, b)
			}
			for _, b := range bs[:2] {
				_ = must(q.EnqueueFill(soon(t), b, []byte{1}, 0, size))
			}
			require.NoError(t, q.Finish(soon(t)))
			armed.Store(true)
			called := make(chan error, 1)
			go func() { called <- call(c, q, bus, bs) }()
			<-in
			for _, b := range bs {
				require.NoError(t, b.Release())
			}
			closed := make(chan error, 1)
			go func() { closed <- c.Close(soon(t)) }()
			for err := error(nil); err == nil; { // until the context is closed for callers
				var b *runtime.Buffer
				if b, err = c.CreateBuffer(1, 0, nil); err == nil {
					require.NoError(t, b.Release())
				}
			}
			close(closing)
			require.NoError(t, <-closed)
			require.Error(t, <-called, "nothing is done with a closed context")
			require.Equal(t, []string{"pages were locked", "the device was closed"}, order)
		})
	}
}
