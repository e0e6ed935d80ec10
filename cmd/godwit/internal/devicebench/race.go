//go:build cgo

package devicebench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/mem"
	"godwit/runtime"
)

// bench is a run.
type bench struct {
	Options
	found  []opencl.Found
	report Report
}

// newBench finds the devices to measure: all that were chosen of the first platform that
// has so many.
func newBench(o Options, least int) (*bench, error) {
	sel, err := opencl.ParseSelection(o.Params)
	if err != nil {
		return nil, err
	}
	found, err := opencl.Select(sel)
	if err != nil {
		return nil, err
	}
	b := &bench{Options: o, report: Report{Reps: o.Reps}}
	for _, f := range found {
		of := slices.DeleteFunc(slices.Clone(found), func(g opencl.Found) bool { return g.Platform != f.Platform })
		if len(of) >= least {
			b.found = of
			break
		}
	}
	if b.found == nil {
		return nil, fmt.Errorf("%d OpenCL devices chosen, no %d of one platform: %w", len(found), least, mem.ErrDeviceNotFound)
	}
	if least == 1 {
		b.found = b.found[:1]
	}
	for _, f := range b.found {
		b.report.Devices = append(b.report.Devices, device{f.Info.Name, f.Info.Platform, f.Info.Version, f.Info.SharesHost})
	}
	return b, nil
}

func (b *bench) say(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

// timer does something once: took is until the host has seen it done, returned until the
// calls that ask for it have returned.
type timer func() (took, returned time.Duration, err error)

// timed is a timer of calls, and of a wait for what they asked for.
func timed(enqueue, wait func() error) timer {
	return func() (took, returned time.Duration, err error) {
		start := time.Now()
		err = enqueue()
		returned = time.Since(start)
		if err == nil {
			err = wait()
		}
		return time.Since(start), returned, err
	}
}

// way is one way to do what is measured.
type way struct {
	name   string
	before func() error // not timed; nil is nothing
	timer
	times int // that the timer does it, together; 0 is once
}

// race has ways take turns and reports a row of each. The first turn only warms up.
func (b *bench) race(ctx context.Context, what string, size uint64, ways ...way) error {
	took, returned := make([][]time.Duration, len(ways)), make([][]time.Duration, len(ways))
	for turn := -1; turn < b.Reps; turn++ {
		for i, w := range ways {
			err := ctx.Err()
			if err == nil && w.before != nil {
				err = w.before()
			}
			var t, r time.Duration
			if err == nil {
				t, r, err = w.timer()
			}
			if err != nil {
				return fmt.Errorf("%s, %d bytes, %s: %w", what, size, w.name, err)
			}
			if turn >= 0 {
				took[i], returned[i] = append(took[i], t), append(returned[i], r)
			}
		}
	}
	for i, w := range ways {
		n := time.Duration(max(w.times, 1))
		b.report.Rows = append(b.report.Rows, row{What: what, Size: size, Way: w.name, Time: median(took[i]) / n, Returned: median(returned[i]) / n})
	}
	return nil
}

func median(t []time.Duration) time.Duration {
	slices.Sort(t)
	return t[len(t)/2]
}

// side is devices opened by Godwit, with a queue each.
type side struct {
	ctx    *runtime.Context
	devs   []devices.Device
	queues []*runtime.Queue
}

// open opens the devices with the parameters given and a further one.
func (b *bench) open(ctx context.Context, key, value string) (*side, error) {
	s := &side{}
	for _, f := range b.found {
		p := map[string]string{"platform": strconv.Itoa(f.Platform), "device": strconv.Itoa(f.Index)}
		for k, v := range b.Params {
			if k != "platform" && k != "device" && k != "type" && k != "count" {
				p[k] = v
			}
		}
		if key != "" {
			p[key] = value
		}
		d, err := devices.Open(ctx, "opencl", devices.Config{Params: p})
		if err != nil {
			for _, d := range s.devs {
				err = errors.Join(err, d.Close())
			}
			return nil, err
		}
		s.devs = append(s.devs, d...)
	}
	var err error
	if s.ctx, err = runtime.OpenContext(ctx, runtime.Options{Name: "bench", Devices: s.devs, OwnDevices: true}); err != nil {
		return nil, err
	}
	for _, d := range s.devs {
		q, err := s.ctx.NewQueue(d, runtime.QueueOptions{})
		if err != nil {
			return nil, errors.Join(err, s.ctx.Close(ctx))
		}
		s.queues = append(s.queues, q)
	}
	return s, nil
}

// enqueue is a command of the runtime's.
type enqueue func() (runtime.Event, error)

// commands is a timer of commands that are enqueued one after the other. What they use is
// theirs until they end, and given back then: no interruption cuts a wait short.
func commands(ctx context.Context, each ...enqueue) timer {
	ctx = context.WithoutCancel(ctx)
	events := make([]runtime.Event, 0, len(each))
	return timed(func() error {
		events = events[:0]
		for _, f := range each {
			e, err := f()
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		return nil
	}, func() error {
		var errs []error
		for _, e := range events {
			errs = append(errs, e.Wait(ctx), e.Release())
		}
		return errors.Join(errs...)
	})
}

// once runs commands and waits for them.
func once(ctx context.Context, each ...enqueue) error {
	_, _, err := commands(ctx, each...)()
	return err
}
