//go:build cgo

package transferbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/lib/pool"
	"godwit/runtime"
)

// side is the device opened by Godwit, once more for each way to open it.
type side struct {
	ctx   *runtime.Context
	queue *runtime.Queue
}

func openSide(ctx context.Context, f opencl.Found, params map[string]string) (*side, error) {
	p := map[string]string{"platform": strconv.Itoa(f.Platform), "device": strconv.Itoa(f.Index)}
	for k, v := range params {
		if k != "platform" && k != "device" && k != "type" && k != "count" {
			p[k] = v
		}
	}
	devs, err := devices.Open(ctx, "opencl", devices.Config{Params: p})
	if err != nil {
		return nil, err
	}
	s := &side{}
	if s.ctx, err = runtime.OpenContext(ctx, runtime.Options{Name: "bench", Devices: devs, OwnDevices: true}); err != nil {
		return nil, err
	}
	if s.queue, err = s.ctx.NewQueue(devs[0], runtime.QueueOptions{}); err != nil {
		return nil, errors.Join(err, s.ctx.Close(ctx))
	}
	return s, nil
}

// move is a transfer through the runtime.
func (s *side) move(ctx context.Context, b *runtime.Buffer, data []byte, up bool) (took, returned time.Duration, err error) {
	start := time.Now()
	var e runtime.Event
	if up {
		e, err = s.queue.EnqueueWrite(ctx, b, 0, data)
	} else {
		e, err = s.queue.EnqueueRead(ctx, b, 0, data)
	}
	returned = time.Since(start)
	if err != nil {
		return 0, 0, err
	}
	err = e.Wait(context.WithoutCancel(ctx)) // data is the command's until its end, and then given back
	return time.Since(start), returned, errors.Join(err, e.Release())
}

// bench is a run on one device.
type bench struct {
	Options
	found            opencl.Found
	raw              *raw
	staged, unstaged *side
	report           *Report
}

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// pick finds the one device to measure.
func pick(o Options) (opencl.Found, error) {
	sel, err := opencl.ParseSelection(o.Params)
	if err != nil {
		return opencl.Found{}, err
	}
	found, err := opencl.Select(sel)
	if err != nil {
		return opencl.Found{}, err
	}
	return found[0], nil
}

// Run measures transfers of the first device chosen. It fails where there is none,
// and where bytes arrive that were not sent.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	b := &bench{Options: o}
	if b.found, err = pick(o); err != nil {
		return nil, err
	}
	in := b.found.Info
	b.report = &Report{Device: in.Name, Platform: in.Platform, Version: in.Version, Shared: in.SharesHost, Reps: o.Reps}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	if b.raw, err = newRaw(b.found); err != nil {
		return nil, fmt.Errorf("OpenCL's own calls: %w", err)
	}
	on, off := maps.Clone(o.Params), maps.Clone(o.Params)
	on["bus"], off["bus"] = "on", "off"
	if b.staged, err = openSide(ctx, b.found, on); err != nil {
		return nil, err
	}
	if b.unstaged, err = openSide(ctx, b.found, off); err != nil {
		return nil, err
	}
	for _, n := range o.Sizes {
		o.say("%d bytes", n)
		if err := b.moves(ctx, n); err != nil {
			return nil, fmt.Errorf("transfers of %d bytes: %w", n, err)
		}
	}
	for _, n := range o.Sizes[len(o.Sizes)-1:] {
		o.say("tensors of %d bytes", n)
		if err := b.tensors(ctx, n); err != nil {
			return nil, fmt.Errorf("tensors of %d bytes: %w", n, err)
		}
	}
	return b.report, ctx.Err()
}

func (b *bench) close(ctx context.Context) error {
	var errs []error
	for _, s := range []*side{b.staged, b.unstaged} {
		if s != nil {
			errs = append(errs, s.ctx.Close(ctx))
		}
	}
	if b.raw != nil {
		b.raw.close()
	}
	return errors.Join(errs...)
}

// content fills data with bytes that tell places and rounds apart.
func content(data []byte, round int) {
	for i := range data {
		data[i] = byte(i + i>>8 + i>>16 + round)
	}
}

// contender is a way to be timed.
type contender struct {
	name string
	data []byte // the host's end
	run  func(data []byte, up bool) (took, returned time.Duration, err error)
}

// moves times all ways of one size, in turns.
func (b *bench) moves(ctx context.Context, n uint64) error {
	var free []func() error
	defer func() {
		for _, f := range slices.Backward(free) {
			_ = f() // the measurement stands
		}
	}()
	mem, err := b.raw.buffer(n)
	if err != nil {
		return err
	}
	free = append(free, func() error { mem.Release(); return nil })
	rawPinned, unpin, err := b.raw.pinned(n)
	if err != nil {
		return err
	}
	free = append(free, func() error { unpin(); return nil })
	buf := make(map[*side]*runtime.Buffer)
	for _, s := range []*side{b.staged, b.unstaged} {
		if buf[s], err = s.ctx.CreateBuffer(n, 0, nil); err != nil {
			return err
		}
		free = append(free, buf[s].Release)
	}
	p, err := pool.NewPinnedPool(b.staged.ctx, pool.PinnedOptions{Pinning: pool.PinAlways, Ceiling: 2 * n})
	if err != nil {
		return err
	}
	loan, err := p.Get(ctx, b.staged.queue, n)
	if err != nil {
		return err
	}
	free = append(free, p.Close, func() error { return p.Put(loan) })
	pageable := make([]byte, n)
	ways := []contender{
		{RawPageable, pageable, func(d []byte, up bool) (time.Duration, time.Duration, error) { return b.raw.move(mem, d, up) }},
		{RawPinned, rawPinned, func(d []byte, up bool) (time.Duration, time.Duration, error) { return b.raw.move(mem, d, up) }},
		{GodwitUnstaged, pageable, func(d []byte, up bool) (time.Duration, time.Duration, error) {
			return b.unstaged.move(ctx, buf[b.unstaged], d, up)
		}},
		{GodwitPageable, pageable, func(d []byte, up bool) (time.Duration, time.Duration, error) {
			return b.staged.move(ctx, buf[b.staged], d, up)
		}},
		{GodwitPinned, loan.Bytes(), func(d []byte, up bool) (time.Duration, time.Duration, error) {
			return b.staged.move(ctx, buf[b.staged], d, up)
		}},
	}
	return b.race(ctx, n, ways)
}

// race has the ways take turns, and checks what they bring.
func (b *bench) race(ctx context.Context, n uint64, ways []contender) error {
	took := make([][2][]time.Duration, len(ways))
	returned := make([][2][]time.Duration, len(ways))
	want := make([]byte, n)
	for round := -1; round < b.Reps && ctx.Err() == nil; round++ {
		for i, w := range ways {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			for down, up := range []bool{true, false} {
				if up && round < 1 {
					content(w.data, 7*i+round)
				}
				t, r, err := w.run(w.data, up)
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				if round >= 0 {
					took[i][down], returned[i][down] = append(took[i][down], t), append(returned[i][down], r)
				}
				if round == -1 && up {
					clear(w.data)
				}
			}
			if round == -1 {
				if content(want, 7*i+round); !bytes.Equal(want, w.data) {
					return fmt.Errorf("%s: other bytes arrived than were sent", w.name)
				}
			}
		}
	}
	for down, up := range []bool{true, false} {
		m := Move{Size: n, Up: up}
		for i, w := range ways {
			m.Ways = append(m.Ways, Way{w.name, median(took[i][down]), median(returned[i][down])})
		}
		b.report.Moves = append(b.report.Moves, m)
	}
	return ctx.Err()
}

func median(t []time.Duration) time.Duration {
	if len(t) == 0 {
		return 0
	}
	slices.Sort(t)
	return t[len(t)/2]
}
