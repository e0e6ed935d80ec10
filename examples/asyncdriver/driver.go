// Package asyncdriver is an example of a driver whose library is asynchronous: a store that
// takes any number of requests at once, and calls back when each is done, in whatever order.
// docs/drivers.md goes through it.
package asyncdriver

import (
	"fmt"
	"sync/atomic"
	"time"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/engine"
	"godwit/mem"
)

// device is an open store. It is the engine.Pace of its own queues: no worker of the engine's
// waits for a request.
type device struct {
	engine.Device
	devices.Goroutines
	blocks *engine.Blocks
	lib    *library
}

// open opens a store of size bytes, of which each request takes latency.
func open(name string, size uint64, latency time.Duration) (*device, error) {
	addresses, err := engine.NewRegion(0, size, bufalloc.Options{})
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	d := &device{blocks: engine.NewBlocks(name, 128, addresses), lib: newLibrary(size, latency)}
	info := devices.Info{Driver: "async", Name: name, Type: devices.Custom, GlobalMemory: size, MaxAlloc: size, BaseAlign: 128}
	d.Init(info, d.blocks, d, engine.EngineOptions{NoKernels: true, Pace: d})
	return d, nil
}

// Execute implements engine.Executor. Ready does all that it would do.
func (d *device) Execute(cmd *devices.Command) error {
	return fmt.Errorf("%v on device %s: %w", cmd.Op, d.Info().Name, mem.ErrInvalidOperation)
}

// Ready implements engine.Pace: the waits of c have been reached. It may be called under locks,
// so it only begins, and another goroutine ends c.
func (d *device) Ready(c engine.Ready) {
	err := c.Cause()
	begin := err == nil && c.Cut()
	if begin {
		err = c.Begin()
	}
	switch cmd := c.Command(); {
	case err != nil || !begin || cmd == nil:
		d.Go(func() { c.Finish(err) })
	case cmd.Op == devices.OpMarker || cmd.Op == devices.OpHostCall: // the engine's, which may block
		d.Call(func() { c.Finish(c.Execute()) })
	default:
		d.transfer(c, cmd)
	}
}

// transfer begins the requests of a copy or a fill. The last one to be done ends the command.
func (d *device) transfer(c engine.Ready, cmd *devices.Command) {
	t := &transfer{d: d, c: c}
	t.open.Store(1) // this one's, while requests are begun
	if cmd.Op == devices.OpFill {
		t.begin(&cmd.Dst, &devices.Loc{}, devices.Piece{Size: cmd.Size}, cmd.Pattern)
	} else {
		for p := range cmd.Pieces() {
			t.begin(&cmd.Dst, &cmd.Src, p, nil)
		}
	}
	d.Go(func() { t.done(nil) })
}

// transfer is a copy or a fill under way.
type transfer struct {
	d    *device
	c    engine.Ready
	open atomic.Int32 // requests that are not done
	err  atomic.Pointer[error]
}

// begin begins the request of one piece. The blocks stay where they are until it is done.
func (t *transfer) begin(dst, src *devices.Loc, p devices.Piece, pattern []byte) {
	to, unpinTo, err := t.d.end(dst, p.Dst, p.Size)
	from, unpinFrom := end{}, func() {}
	if err == nil && pattern == nil {
		if from, unpinFrom, err = t.d.end(src, p.Src, p.Size); err != nil {
			unpinTo()
		}
	}
	t.open.Add(1)
	if err != nil {
		t.d.Go(func() { t.done(err) })
		return
	}
	t.d.lib.begin(request{to: to, from: from, pattern: pattern, size: p.Size}, func() {
		unpinFrom()
		unpinTo()
		t.done(nil)
	})
}

// done is called once for each request, and for who began them.
func (t *transfer) done(err error) {
	if err != nil {
		t.err.CompareAndSwap(nil, &err)
	}
	if t.open.Add(-1) > 0 {
		return
	}
	if first := t.err.Load(); first != nil {
		err = *first
	}
	t.c.Finish(err)
}

// end is size bytes at off beyond l as the library has them, and what lets them go.
func (d *device) end(l *devices.Loc, off, size uint64) (end, func(), error) {
	if l.Device == nil {
		return end{host: l.Bytes[l.Off+off:][:size]}, func() {}, nil
	}
	addr, err := d.blocks.Pin(l.Block, l.Off+off, size)
	if err != nil {
		return end{}, nil, err
	}
	return end{addr: addr}, func() { d.blocks.Unpin(l.Block) }, nil
}
