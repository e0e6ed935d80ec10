//go:build cgo

package devicebench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/mem"
	"godwit/runtime"
)

// window is what a window of CUDA's own copies has, in bytes: more goes through it again
// and again. A block of plain bytes lies in no window; copies of such are measured from
// ringed bytes on.
const (
	window = 256 << 20
	plain  = 512 << 20
	ringed = 64 << 20
)

// migration is a run on several devices.
type migration struct {
	*bench
	*side
	touch   *runtime.Kernel
	windows []mem.Block // by device, for CUDA's own copies; nil where there are no links
}

// Migrate measures how content gets from device to device. It fails where there are not
// two OpenCL devices of one platform, and where a result is wrong; a vendor's failure is
// only noted.
func Migrate(ctx context.Context, o Options) (_ *Report, err error) {
	m := &migration{}
	if m.bench, err = newBench(o, 2); err != nil {
		return nil, err
	}
	if m.side, err = m.open(ctx, "", ""); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	if err := m.openLinks(ctx); err != nil {
		return nil, err
	}
	prog, err := m.ctx.Build(ctx, &devices.Program{Name: "bench", Source: source})
	if err != nil {
		return nil, err
	}
	if m.touch, err = prog.Kernel("touch"); err != nil {
		return nil, err
	}
	for from := range m.devs {
		for to := range m.devs {
			if from == to || len(m.devs) > 2 && from > 0 && to != 0 { // of many, those with the first
				continue
			}
			for _, n := range o.Sizes {
				if err := m.pair(ctx, from, to, n); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, d := range m.report.Devices {
		if d.Shared {
			m.note("these devices share one memory: the vendor's kernel moves nothing")
		}
	}
	m.report.finish(true)
	return &m.report, ctx.Err()
}

func (m *migration) close(ctx context.Context) error {
	var errs []error
	for i, w := range m.windows {
		errs = append(errs, m.devs[i].Memory().FreeAfter(w, nil))
	}
	return errors.Join(append(errs, m.side.ctx.Close(ctx))...)
}

// openLinks opens links where devices have any, and windows for CUDA's own copies.
func (m *migration) openLinks(ctx context.Context) error {
	if err := m.ctx.OpenLinks(ctx); err != nil {
		m.note("no links between the devices: " + err.Error())
		return ctx.Err()
	}
	for i, d := range m.devs {
		var w [1]mem.Block
		outcome, err := d.Memory().AllocAll([]mem.Request{{Size: window}}, w[:], nil)
		if err != nil {
			return err
		}
		if outcome == mem.Ready {
			m.windows = append(m.windows, w[0])
		}
		if l, ok := d.(devices.Windowed); outcome != mem.Ready || !ok || !l.InWindow(w[0]) {
			return fmt.Errorf("device %d: a block of %d bytes lies in no window: %w", i, uint64(window), mem.ErrNoMemory)
		}
	}
	return nil
}

// direction is from one device to another.
type direction struct{ from, to int }

// pair measures one size from one device to another: one way, and for each two devices
// once both ways together; over links outside of windows, too.
func (m *migration) pair(ctx context.Context, from, to int, n uint64) error {
	m.say("device %d to %d, %d KiB", from, to, n>>10)
	one, both := []direction{{from, to}}, []direction{{from, to}, {to, from}}
	name := fmt.Sprintf("%d to %d", from, to)
	if m.windows == nil { // the vendor's copy is what counts
		m.vendor(ctx, name, from, to, n)
	}
	if err := m.move(ctx, name, n, n, one); err != nil {
		return err
	}
	if m.windows != nil {
		m.vendor(ctx, name, from, to, n)
	}
	if from < to {
		if err := m.move(ctx, name+" and back", n, n, both); err != nil {
			return err
		}
	}
	if m.windows == nil || n < ringed {
		return nil
	}
	if err := m.move(ctx, name+", no windows", n, max(n, plain), one); err != nil || from > to {
		return err
	}
	return m.move(ctx, name+" and back, no windows", n, max(n, plain), both)
}

// shuttle is n bytes of a buffer that are to get from one device to the other.
type shuttle struct {
	direction
	buf     *runtime.Buffer
	touched uint32 // how often each end of it has been
}

// shuttle makes n bytes of a buffer of size, with content on a device; free gives them back.
func (m *migration) shuttle(ctx context.Context, d direction, n, size uint64, seed uint32) (s *shuttle, free func() error, err error) {
	root, err := m.ctx.CreateBuffer(size, runtime.ReadWrite, nil)
	if err != nil {
		return nil, nil, err
	}
	s = &shuttle{direction: d}
	if s.buf, err = root.Sub(0, n, 0); err != nil {
		return nil, nil, errors.Join(err, root.Release())
	}
	data := make([]byte, n)
	content(data, seed)
	free = func() error { return errors.Join(s.buf.Release(), root.Release()) }
	return s, free, once(ctx, func() (runtime.Event, error) { return m.queues[d.from].EnqueueWrite(ctx, s.buf, 0, data) })
}

// move measures n bytes of buffers of so many bytes, in all directions at once.
func (m *migration) move(ctx context.Context, what string, n, size uint64, all []direction) (err error) {
	var shuttles []*shuttle
	for i, d := range all {
		s, free, serr := m.shuttle(ctx, d, n, size, uint32(i))
		if free != nil {
			defer func() { err = errors.Join(err, free()) }()
		}
		if serr != nil {
			return serr
		}
		shuttles = append(shuttles, s)
	}
	if err := m.race(ctx, what, n*uint64(len(all)), m.ways(ctx, n, shuttles)...); err != nil {
		return err
	}
	for i, s := range shuttles {
		got := make([]byte, n)
		err := once(ctx, func() (runtime.Event, error) { return m.queues[s.to].EnqueueRead(ctx, s.buf, 0, got) })
		if err == nil {
			err = check(got, uint32(i), s.touched)
		}
		if err != nil {
			return fmt.Errorf("%s, %d bytes: %w", what, n, err)
		}
	}
	return nil
}

// ways are CUDA's own copy where there are links, a migration, and a kernel that needs it.
func (m *migration) ways(ctx context.Context, n uint64, shuttles []*shuttle) (out []way) {
	var home, there, migrate []enqueue
	var hops []opencl.Hop
	for _, s := range shuttles {
		touch := func(on int) enqueue {
			return func() (runtime.Event, error) {
				s.touched++
				return m.queues[on].EnqueueLaunch(ctx, runtime.Launch{Kernel: m.touch, Global: []uint64{64},
					Args: []runtime.Arg{runtime.InOut(s.buf), runtime.Uint64(n/4 - 1)}})
			}
		}
		home, there = append(home, touch(s.from)), append(there, touch(s.to))
		migrate = append(migrate, func() (runtime.Event, error) {
			return m.queues[s.to].EnqueueMigrate(ctx, []*runtime.Buffer{s.buf}, 0)
		})
		for left := n; left > 0 && m.windows != nil; left -= min(left, window) { // in one stream
			at := func(i int) devices.Loc { return devices.Loc{Device: m.devs[i], Block: m.windows[i]} }
			hops = append(hops, opencl.Hop{From: at(s.from), To: at(s.to), Size: min(left, window)})
		}
	}
	if hops != nil {
		out = append(out, way{name: "CUDA's own copy", timer: func() (took, returned time.Duration, err error) {
			took, err = opencl.TimeHops(hops)
			return took, took, err
		}})
	}
	before := func() error { return once(ctx, home...) } // the latest content is there alone
	return append(out, way{name: "migrate", before: before, timer: commands(ctx, migrate...)},
		way{name: "with a kernel", before: before, timer: commands(ctx, there...)})
}
