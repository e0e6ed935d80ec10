//go:build cgo

package migratebench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// small measures single commands: a kernel that reads 4 KiB of a large buffer
// that is elsewhere, the life of a buffer, the cost of an enqueue.
func (b *bench) small(ctx context.Context) error {
	b.say("small commands")
	peek, err := b.peek(ctx)
	if err != nil {
		return err
	}
	create, err := b.create(ctx)
	if err != nil {
		return err
	}
	enqueue, err := b.enqueue(ctx)
	if err != nil {
		return err
	}
	rt, err := b.enqueueRuntime(ctx)
	if err != nil {
		return err
	}
	rows := []Small{peek, {What: "1 MiB buffer: create, first use, release, beyond the launch", Godwit: create},
		{What: "enqueue a kernel of 3 arguments, driver", Godwit: enqueue},
		{What: "enqueue a kernel of 3 arguments, runtime", Godwit: rt}}
	if b.Vendor != nil {
		got, err := askVendor(ctx, b.Vendor, request{Platform: b.found[0].Info.Platform, From: b.found[0].Index, To: b.found[1].Index, Reps: b.Reps, Small: true})
		if err != nil {
			b.report.Notes = append(b.report.Notes, err.Error())
		}
		for _, a := range got {
			switch a.What {
			case "create":
				rows[1].Vendor = a.Time
			case "enqueue":
				rows[2].Vendor, rows[3].Vendor = a.Time, a.Time
			}
		}
	}
	b.report.Small = rows
	return nil
}

// peek is a kernel on one device that reads only 4 KiB of a buffer of the
// largest size, whose content is on another.
func (b *bench) peek(ctx context.Context) (s Small, err error) {
	const part = 4 << 10
	n := uint64(part)
	for _, size := range b.Sizes {
		n = max(n, size)
	}
	s.What = fmt.Sprintf("kernel that reads 4 KiB of %d MiB on the other device", n>>20)
	buf, err := b.ctx.CreateBuffer(n, runtime.ReadWrite, content(n))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, buf.Release()) }()
	out, err := b.ctx.CreateBuffer(part, runtime.ReadWrite, nil)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, out.Release()) }()
	k, err := b.prog.Kernel("peek")
	if err != nil {
		return s, err
	}
	touched := uint32(0)
	s.Godwit, err = median(ctx, b.Reps, func() (time.Duration, error) {
		touched++
		if _, err := timed(ctx, func() (runtime.Event, error) { return b.touch(ctx, 0, buf) }); err != nil {
			return 0, err
		}
		before := b.ctx.Stats().BytesMoved
		d, err := timed(ctx, func() (runtime.Event, error) {
			return b.queues[1].EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{part / 4},
				Args: []runtime.Arg{runtime.In(buf).Range(0, part), runtime.Out(out).Range(0, part)}})
		})
		s.Moved = b.ctx.Stats().BytesMoved - before
		return d, err
	})
	if err != nil {
		return s, err
	}
	got := make([]byte, part)
	if _, err := timed(ctx, func() (runtime.Event, error) { return b.queues[1].EnqueueRead(ctx, out, 0, got) }); err != nil {
		return s, err
	}
	if word := content(4); uint32(got[0])|uint32(got[1])<<8 != (uint32(word[0])|uint32(word[1])<<8)+touched+1 {
		return s, fmt.Errorf("peek read %v where %v was touched %d times", got[:4], word, touched)
	}
	return s, nil
}

// create is the life of a 1 MiB buffer beyond the launch that uses it.
func (b *bench) create(ctx context.Context) (d time.Duration, err error) {
	old, err := b.ctx.CreateBuffer(1<<20, runtime.ReadWrite, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, old.Release()) }()
	launch := func(buf *runtime.Buffer) error {
		_, err := timed(ctx, func() (runtime.Event, error) { return b.touch(ctx, 1, buf) })
		return err
	}
	return beyond(b.Reps, func() error { return launch(old) }, func() error {
		buf, err := b.ctx.CreateBuffer(1<<20, runtime.ReadWrite, nil)
		if err != nil {
			return err
		}
		return errors.Join(launch(buf), buf.Release())
	})
}

// enqueue is what a kernel of three arguments costs to submit to the driver.
func (b *bench) enqueue(ctx context.Context) (d time.Duration, err error) {
	dev := b.devs[1]
	mod, err := dev.Build(ctx, &devices.Program{Name: "bench", Source: source})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, mod.Close()) }()
	k, err := mod.Kernel("three")
	if err != nil {
		return 0, err
	}
	var blocks [2]mem.Block
	for i := range blocks {
		if blocks[i], err = block(dev, 4096); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, dev.Memory().FreeAfter(blocks[i], nil)) }()
	}
	q, err := dev.NewQueue(devices.QueueOptions{Name: "bench"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	cmd := devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{64}, Args: []devices.Arg{
		{Kind: devices.ArgBuffer, Block: blocks[0], Size: 4096}, {Kind: devices.ArgBuffer, Block: blocks[1], Size: 4096},
		{Kind: devices.ArgValue, Value: make([]byte, 4)}}}
	return median(ctx, b.Reps, func() (time.Duration, error) {
		var p mem.Point
		start := time.Now()
		for range batch {
			var err error
			if p, err = q.Submit(&cmd, nil); err != nil {
				return 0, err
			}
		}
		d := time.Since(start) / batch
		return d, q.Wait(settled(ctx), p, devices.Park)
	})
}

// enqueueRuntime is the same through the runtime.
func (b *bench) enqueueRuntime(ctx context.Context) (d time.Duration, err error) {
	var bufs [2]*runtime.Buffer
	for i := range bufs {
		if bufs[i], err = b.ctx.CreateBuffer(4096, runtime.ReadWrite, content(4096)); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, bufs[i].Release()) }()
	}
	k, err := b.prog.Kernel("three")
	if err != nil {
		return 0, err
	}
	l := runtime.Launch{Kernel: k, Global: []uint64{64}, Args: []runtime.Arg{runtime.InOut(bufs[0]), runtime.In(bufs[1]), runtime.Uint32(1)}}
	return median(ctx, b.Reps, func() (time.Duration, error) {
		var last runtime.Event
		start := time.Now()
		for i := range batch {
			ev, err := b.queues[1].EnqueueLaunch(ctx, l)
			if err != nil {
				return 0, err
			}
			if i == batch-1 {
				last = ev
			} else if err := ev.Release(); err != nil {
				return 0, err
			}
		}
		d := time.Since(start) / batch
		return d, errors.Join(last.Wait(settled(ctx)), last.Release())
	})
}
