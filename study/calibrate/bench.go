package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"godwit/devices"
	"godwit/internal/figures"
	"godwit/mem"
	"godwit/runtime"
)

// bench runs shapes on a context. It is for one goroutine: in virtual time that is a
// host thread.
type bench struct {
	ctx   context.Context
	rt    *runtime.Context
	host  devices.Device
	devs  []devices.Device // in the context's order
	spin  *runtime.Kernel
	touch *runtime.Kernel

	queues  map[queueKey]*runtime.Queue
	seeds   []*runtime.Buffer // that spin writes, by device
	given   []*runtime.Buffer // that touch is given besides, and nobody writes
	release []func() error    // of the shape that runs
	told    *told
	memory  []byte // of the program's own, from and to which is copied
}

// told is what the devices have said that shapes depend on, so that a machine is given
// the same commands.
type told struct {
	Steps   []float64 `json:"steps"`      // by device: steps of spin in a nanosecond
	Enqueue float64   `json:"enqueue_ns"` // that an enqueue takes, the median of several; behind doubles it
}

type queueKey struct{ dev, nth int }

// hostDevice stands for the host in a queueKey.
const hostDevice = -1

// openBench opens a context, and what all shapes need; close ends it.
func openBench(ctx context.Context, o runtime.Options) (*bench, error) {
	o.Name = "calibrate"
	rt, err := runtime.OpenContext(ctx, o)
	if err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, rt: rt, devs: o.Devices, queues: make(map[queueKey]*runtime.Queue), told: &told{}}
	if err := b.open(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) open() (err error) {
	_ = b.rt.OpenLinks(b.ctx) // where there are none, shapes go without
	if b.host, err = b.rt.Device(mem.Host); err != nil {
		return err
	}
	p, err := b.rt.Build(b.ctx, program(), b.devs...)
	if err != nil {
		return fmt.Errorf("kernels of calibrate: %w", err)
	}
	if b.spin, err = p.Kernel("spin"); err != nil {
		return err
	}
	if b.touch, err = p.Kernel("touch"); err != nil {
		return err
	}
	for range b.devs {
		x, err := b.rt.CreateNamedBuffer("seed", 4096, 0, nil)
		if err != nil {
			return err
		}
		b.seeds = append(b.seeds, x)
		if x, err = b.rt.CreateNamedBuffer("given", 4096, 0, nil); err != nil {
			return err
		}
		b.given = append(b.given, x)
	}
	return nil
}

func (b *bench) close() error {
	ctx := context.WithoutCancel(b.ctx) // what runs has to end
	errs := []error{b.free()}
	for _, x := range append(b.seeds, b.given...) {
		errs = append(errs, x.Release())
	}
	return errors.Join(append(errs, b.rt.Close(ctx))...)
}

// free releases what a shape has used.
func (b *bench) free() error {
	var errs []error
	for _, f := range slices.Backward(b.release) {
		errs = append(errs, f())
	}
	b.release = b.release[:0]
	return errors.Join(errs...)
}

// own is the program's memory of the ith transfer of a run. A program's transfers have memory of their own, of which caches hold little.
func (b *bench) own(i int, size uint64) []byte {
	if uint64(len(b.memory)) < size { // modelled: nobody touches it
		b.memory = make([]byte, size)
	}
	at := uint64(i) % (uint64(len(b.memory)) / size) * size
	return b.memory[at : at+size]
}

// queue is the nth queue of a device; hostDevice is the host.
func (b *bench) queue(dev, nth int) (*runtime.Queue, error) {
	key := queueKey{dev, nth}
	if q := b.queues[key]; q != nil {
		return q, nil
	}
	d := b.host
	if dev != hostDevice {
		d = b.devs[dev]
	}
	q, err := b.rt.NewQueue(d, runtime.QueueOptions{})
	if err == nil {
		b.queues[key] = q
	}
	return q, err
}

// buffers are n of a size for the shape that runs.
func (b *bench) buffers(n int, size uint64, flags runtime.Flags) ([]*runtime.Buffer, error) {
	out := make([]*runtime.Buffer, n)
	for i := range out {
		buf, err := b.rt.CreateBuffer(size, flags, nil)
		if err != nil {
			return nil, err
		}
		b.release = append(b.release, buf.Release)
		out[i] = buf
	}
	return out, nil
}

// run is what a shape does in one timed run. Errors end it, and are its err. Events are
// released when the time has been taken.
type run struct {
	*bench
	events []runtime.Event
	err    error
}

// timed runs f with a run of its own, and is how long it took, in nanoseconds.
func (b *bench) timed(f func(r *run)) (float64, error) {
	r := &run{bench: b}
	start := b.rt.Now()
	f(r)
	took := b.rt.Now() - start
	for _, e := range r.events {
		if r.err == nil && b.ctx.Err() != nil {
			r.err = b.ctx.Err()
		}
		// What a failed run has enqueued uses its buffers until it has ended; a command that failed is no figure.
		if err := e.Wait(context.WithoutCancel(b.ctx)); err != nil && r.err == nil {
			r.err = err
		}
		r.err = errors.Join(r.err, e.Release())
	}
	return float64(took), r.err
}

// took keeps an event, or an error.
func (r *run) took(e runtime.Event, err error) runtime.Event {
	if err != nil {
		r.err = errors.Join(r.err, err)
		return e
	}
	r.events = append(r.events, e)
	return e
}

// wait waits for an event.
func (r *run) wait(e runtime.Event) {
	if r.err == nil {
		r.err = e.Wait(r.ctx)
	}
}

// last waits for the youngest event, of a queue in order.
func (r *run) last() {
	if r.err == nil && len(r.events) > 0 {
		r.wait(r.events[len(r.events)-1])
	}
}

// q is queue, whose failure is the run's.
func (r *run) q(dev, nth int) *runtime.Queue {
	q, err := r.queue(dev, nth)
	if err != nil {
		r.err = errors.Join(r.err, err)
	}
	return q
}

// launch enqueues touch.
func (r *run) launch(dev, nth int, x *runtime.Buffer, wait ...runtime.Event) runtime.Event {
	if r.err != nil {
		return runtime.Event{}
	}
	return r.took(r.q(dev, nth).EnqueueLaunch(r.ctx, runtime.Launch{Kernel: r.touch, Global: []uint64{1}, Args: []runtime.Arg{runtime.InOut(x), runtime.In(r.given[dev]), runtime.Uint32(1), runtime.Uint64(1)}}, wait...))
}

// busy has a device compute for so long.
func (r *run) busy(dev, nth int, d time.Duration) runtime.Event {
	return r.spins(dev, nth, d, 1, r.seeds[dev])
}

// spins has so many work-items of a device compute for so long, each for itself, and write a buffer.
func (r *run) spins(dev, nth int, d time.Duration, items int, x *runtime.Buffer) runtime.Event {
	if r.err != nil {
		return runtime.Event{}
	}
	return r.took(r.q(dev, nth).EnqueueLaunch(r.ctx, runtime.Launch{
		Kernel: r.spin, Global: []uint64{uint64(items)}, Local: []uint64{1}, Takes: d,
		Args: []runtime.Arg{runtime.InOut(x), runtime.Uint64(uint64(float64(d) * r.told.Steps[dev]))},
	}))
}

// migrate brings a buffer from one device to another, one of which may be the host.
func (r *run) migrate(from, to, nth int, x *runtime.Buffer) runtime.Event {
	if r.err != nil {
		return runtime.Event{}
	}
	if to == hostDevice {
		return r.took(r.q(from, nth).EnqueueMigrate(r.ctx, []*runtime.Buffer{x}, runtime.MigrateToHost))
	}
	return r.took(r.q(to, nth).EnqueueMigrate(r.ctx, []*runtime.Buffer{x}, 0))
}

// fill writes all of a buffer on a device, so that its content is there alone.
func (r *run) fill(dev int, x *runtime.Buffer) {
	if r.err == nil {
		r.took(r.q(dev, 0).EnqueueFill(r.ctx, x, []byte{1, 2, 3, 4}, 0, x.Size()))
	}
}

// place has buffers on devices alone, in turn, and waits.
func (b *bench) place(bufs []*runtime.Buffer, devs ...int) error {
	_, err := b.timed(func(r *run) {
		for i, x := range bufs {
			r.fill(devs[i%len(devs)], x)
		}
		for _, e := range r.events {
			r.wait(e)
		}
	})
	return err
}

// behind is how long a device has to be busy while n commands are enqueued.
func (b *bench) behind(n int) time.Duration {
	return time.Duration(math.Ceil(2*float64(n)*b.told.Enqueue)) + 200*time.Microsecond
}

// learn finds out how fast the devices spin, and how long an enqueue takes.
func (b *bench) learn() error {
	b.told.Steps = make([]float64, len(b.devs))
	for i := range b.devs {
		b.told.Steps[i] = 1
		spin := func(d time.Duration) (float64, error) {
			took, err := b.timed(func(r *run) { r.wait(r.busy(i, 0, d)) })
			if err != nil {
				err = fmt.Errorf("device %d computes: %w", i, err)
			}
			return took, err
		}
		if _, err := spin(time.Microsecond); err != nil { // the kernel is made ready
			return err
		}
		const long = 4 * time.Millisecond // beside which what a launch takes is nothing
		for d := 100 * time.Microsecond; ; d *= 2 {
			took, err := spin(d)
			if err != nil {
				return err
			}
			if took > float64(long) || d > time.Minute { // a device that does nothing takes no time
				b.told.Steps[i] = float64(d) / took
				break
			}
		}
	}
	return b.enqueues()
}

// enqueues finds out how long an enqueue takes.
func (b *bench) enqueues() (err error) {
	defer func() { err = errors.Join(err, b.free()) }()
	x, err := b.written(1, 4096, 0)
	if err != nil {
		return err
	}
	const n = 16
	var all []float64
	for range 5 {
		var took float64
		if _, err := b.timed(func(r *run) {
			start := b.rt.Now()
			for range n {
				r.launch(0, 0, x[0])
				r.migrate(0, 0, 0, x[0])
			}
			took = float64(b.rt.Now() - start)
			r.last()
		}); err != nil {
			return err
		}
		all = append(all, took/n)
	}
	b.told.Enqueue = max(figureOf(all).Value, 1000)
	return nil
}

// figure is a median of several, and how far they spread: half of what lies between the quartiles.
type figure struct {
	Value  float64 `json:"ns" show:"measured|span"` // nanoseconds
	Spread float64 `json:"spread_ns" show:"spread|span"`
	Times  int     `json:"times" show:"of"`
}

func figureOf(all []float64) figure {
	return figure{figures.Quantile(all, 0.5), (figures.Quantile(all, 0.75) - figures.Quantile(all, 0.25)) / 2, len(all)}
}
