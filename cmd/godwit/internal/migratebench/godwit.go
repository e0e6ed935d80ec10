//go:build cgo

package migratebench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/internal/mover"
	"godwit/mem"
	"godwit/runtime"
)

// bench is a run.
type bench struct {
	Options
	devs   []devices.Device
	found  []opencl.Found
	ctx    *runtime.Context
	queues []*runtime.Queue
	prog   *runtime.Program
	report *Report

	figures mover.Figures // of links
	linked  bool          // there are links between devices
	windows []mem.Block   // by device: for CUDA's own copies
}

// Run measures. It fails where there are not two OpenCL devices of one
// platform, and where a result is wrong; a vendor's failure is only noted.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	b := &bench{Options: o, report: &Report{Reps: o.Reps}}
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.closeWindows(), b.ctx.Close(ctx)) }()
	if err := b.small(ctx); err != nil {
		return nil, fmt.Errorf("small commands: %w", err)
	}
	for from := range b.devs {
		for to := range b.devs {
			if from == to || len(b.devs) > 2 && from > 0 && to != 0 { // of many, those with the first
				continue
			}
			if err := b.pair(ctx, from, to); err != nil {
				return nil, fmt.Errorf("from device %d to %d: %w", from, to, err)
			}
		}
	}
	if b.linked {
		if err := b.links(ctx); err != nil {
			return nil, fmt.Errorf("links: %w", err)
		}
	}
	if len(b.devs) > 2 {
		if err := b.spreads(ctx); err != nil {
			return nil, fmt.Errorf("one to many: %w", err)
		}
	}
	return b.report, ctx.Err()
}

func (b *bench) say(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

// open opens the devices of the first platform that has two among those chosen.
func (b *bench) open(ctx context.Context) error {
	sel, err := opencl.ParseSelection(b.Params)
	if err != nil {
		return err
	}
	found, err := opencl.Select(sel)
	if err != nil {
		return err
	}
	for _, f := range found {
		of := slices.DeleteFunc(slices.Clone(found), func(g opencl.Found) bool { return g.Platform != f.Platform })
		if len(of) > 1 {
			b.found = of
			break
		}
	}
	if b.found == nil {
		return fmt.Errorf("%d OpenCL devices chosen, no two of one platform: %w", len(found), mem.ErrDeviceNotFound)
	}
	for _, f := range b.found {
		params := map[string]string{"platform": fmt.Sprint(f.Platform), "device": fmt.Sprint(f.Index)}
		for _, key := range []string{"carve", "slab", "nvlink"} {
			if v, ok := b.Params[key]; ok {
				params[key] = v
			}
		}
		d, err := devices.Open(ctx, "opencl", devices.Config{Params: params})
		if err != nil {
			return errors.Join(err, closeAll(b.devs))
		}
		b.devs = append(b.devs, d...)
		b.report.Devices = append(b.report.Devices, Device{f.Info.Name, f.Info.Platform, f.Info.Version, f.Info.SharesHost})
	}
	if b.ctx, err = runtime.OpenContext(ctx, runtime.Options{Name: "bench", Devices: b.devs, OwnDevices: true, Figures: &b.figures}); err != nil {
		return err
	}
	if err := b.openLinks(ctx); err != nil {
		return errors.Join(err, b.ctx.Close(ctx))
	}
	if err := b.prepare(ctx); err != nil {
		return errors.Join(err, b.ctx.Close(ctx))
	}
	return nil
}

func closeAll(devs []devices.Device) error {
	var errs []error
	for _, d := range devs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

func (b *bench) prepare(ctx context.Context) error {
	for _, d := range b.devs {
		q, err := b.ctx.NewQueue(d, runtime.QueueOptions{})
		if err != nil {
			return err
		}
		b.queues = append(b.queues, q)
	}
	var err error
	b.prog, err = b.ctx.Build(ctx, &devices.Program{Name: "bench", Source: source})
	return err
}

// touch launches touch on a device.
func (b *bench) touch(ctx context.Context, dev int, buf *runtime.Buffer) (runtime.Event, error) {
	k, err := b.prog.Kernel("touch")
	if err != nil {
		return runtime.Event{}, err
	}
	return b.queues[dev].EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{64},
		Args: []runtime.Arg{runtime.InOut(buf), runtime.Uint64(buf.Size()/4 - 1)}})
}

// timed is how long an enqueue and its command take.
func timed(ctx context.Context, enqueue func() (runtime.Event, error)) (time.Duration, error) {
	start := time.Now()
	ev, err := enqueue()
	if err != nil {
		return 0, err
	}
	err = ev.Wait(settled(ctx))
	return time.Since(start), errors.Join(err, ev.Release())
}

// pair measures all sizes from one device to another.
func (b *bench) pair(ctx context.Context, from, to int) error {
	for _, n := range b.Sizes {
		b.say("device %d to %d, %d KiB", from, to, n>>10)
		m, err := b.move(ctx, from, to, n)
		if err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		if b.Vendor != nil { // at once: machines change their mood
			b.vendor(ctx, &m)
		}
		b.report.Moves = append(b.report.Moves, m)
	}
	return nil
}

// vendor has the child do what m is about.
func (b *bench) vendor(ctx context.Context, m *Move) {
	got, err := askVendor(ctx, b.Vendor, request{Platform: b.found[m.From].Info.Platform, From: b.found[m.From].Index, To: b.found[m.To].Index,
		Sizes: []uint64{m.Size}, Reps: b.Reps, Limits: m.From == 0 && m.To == 1})
	if err != nil {
		m.VendorProblem = err.Error()
	}
	for _, a := range got {
		if a.Error != "" {
			m.VendorProblem = a.Error
		}
		switch a.What {
		case "kernel":
			m.VendorKernel = a.Time
		case "copy":
			m.VendorCopy = a.Time
		}
	}
	b.limits(got, m)
}

// limits picks the one-way figures out of the child's answers.
func (b *bench) limits(got []answer, m *Move) {
	for _, end := range []struct {
		name   string
		device int
	}{{"from", m.From}, {"to", m.To}} {
		l := Limit{Device: end.device, Size: m.Size}
		for _, a := range got {
			switch {
			case a.Error != "":
			case a.What == end.name+" down":
				l.Down = a.Time
			case a.What == end.name+" up":
				l.Up = a.Time
			}
		}
		if l.Down > 0 && l.Up > 0 {
			b.report.Limits = append(b.report.Limits, l)
		}
	}
}

// move measures one size: migrations, kernels that need them, and bare copies.
func (b *bench) move(ctx context.Context, from, to int, n uint64) (m Move, err error) {
	m = Move{From: from, To: to, Size: n}
	buf, err := b.ctx.CreateBuffer(n, runtime.ReadWrite, content(n))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, buf.Release()) }()
	touched := uint32(0)
	home := func() error { // the latest content is on from alone
		touched++
		_, err := timed(ctx, func() (runtime.Event, error) { return b.touch(ctx, from, buf) })
		return err
	}
	if m.Godwit, err = b.migration(ctx, to, buf, b.Reps, home); err != nil {
		return m, err
	}
	if m.GodwitKernel, err = median(ctx, b.Reps, func() (time.Duration, error) {
		if err := home(); err != nil {
			return 0, err
		}
		touched++
		return timed(ctx, func() (runtime.Event, error) { return b.touch(ctx, to, buf) })
	}); err != nil {
		return m, err
	}
	got := make([]byte, n)
	if _, err := timed(ctx, func() (runtime.Event, error) { return b.queues[to].EnqueueRead(ctx, buf, 0, got) }); err != nil {
		return m, err
	}
	if err := check(got, touched); err != nil {
		return m, err
	}
	return m, b.bare(ctx, &m)
}

// migration is the median time of migrating a buffer, of which home has the latest content elsewhere.
func (b *bench) migration(ctx context.Context, to int, buf *runtime.Buffer, reps int, home func() error) (time.Duration, error) {
	return median(ctx, reps, func() (time.Duration, error) {
		if err := home(); err != nil {
			return 0, err
		}
		return timed(ctx, func() (runtime.Event, error) { return b.queues[to].EnqueueMigrate(ctx, []*runtime.Buffer{buf}, 0) })
	})
}

func block(d devices.Device, n uint64) (mem.Block, error) {
	var out [1]mem.Block
	outcome, err := d.Memory().AllocAll([]mem.Request{{Size: n}}, out[:], nil)
	if err == nil && outcome != mem.Ready {
		err = fmt.Errorf("%d bytes on device %s: %v: %w", n, d.Info().Name, outcome, mem.ErrNoMemory)
	}
	return out[0], err
}
