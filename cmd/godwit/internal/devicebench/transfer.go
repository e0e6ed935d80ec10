//go:build cgo

package devicebench

import (
	"context"
	"errors"
	"fmt"

	"godwit/lib/pool"
	"godwit/runtime"
)

// Transfer measures transfers between the host and the first device chosen. It fails
// where there is none, and where bytes arrive that were not sent.
func Transfer(ctx context.Context, o Options) (_ *Report, err error) {
	b, raw, err := newRaced(o)
	if err != nil {
		return nil, err
	}
	defer raw.close()
	staged, err := b.open(ctx, "bus", "on")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, staged.ctx.Close(ctx)) }()
	unstaged, err := b.open(ctx, "bus", "off")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unstaged.ctx.Close(ctx)) }()
	for _, n := range o.Sizes {
		b.say("%d bytes", n)
		if err := b.transfers(ctx, raw, staged, unstaged, n); err != nil {
			return nil, err
		}
	}
	if b.report.Devices[0].Shared {
		b.report.Notes = append(b.report.Notes, "this device shares the host's memory: staging, which is off there by default, only costs")
	}
	b.report.finish(true)
	return &b.report, ctx.Err()
}

// trip is a way to and from a device.
type trip struct {
	name string
	data []byte // the host's end
	of   func(data []byte, up bool) timer
}

// way is one direction of a trip.
func (t *trip) way(up bool) way { return way{name: t.name, timer: t.of(t.data, up)} }

// transfers times all ways of one size, up and down.
func (b *bench) transfers(ctx context.Context, raw *vendor, staged, unstaged *side, n uint64) (err error) {
	m, err := raw.buffer(n)
	if err != nil {
		return err
	}
	defer m.Release()
	rawPinned, unpin, err := raw.pinned(n)
	if err != nil {
		return err
	}
	defer unpin()
	p, err := pool.NewPinnedPool(staged.ctx, pool.PinnedOptions{Pinning: pool.PinAlways, Ceiling: 2 * n})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	loan, err := p.Get(ctx, staged.queues[0], n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Put(loan)) }()
	byCL := func(data []byte, up bool) timer {
		q := raw.queues[0]
		return timed(func() error { return transfer(q, m, data, up) }, q.Finish)
	}
	var through [2]func([]byte, bool) timer
	for i, s := range []*side{staged, unstaged} {
		buf, cerr := s.ctx.CreateBuffer(n, 0, nil)
		if cerr != nil {
			return cerr
		}
		defer func() { err = errors.Join(err, buf.Release()) }()
		through[i] = func(data []byte, up bool) timer {
			if up {
				return commands(ctx, func() (runtime.Event, error) { return s.queues[0].EnqueueWrite(ctx, buf, 0, data) })
			}
			return commands(ctx, func() (runtime.Event, error) { return s.queues[0].EnqueueRead(ctx, buf, 0, data) })
		}
	}
	pageable := make([]byte, n)
	return b.trips(ctx, n, []trip{{"raw, pageable", pageable, byCL}, {"raw, pinned", rawPinned, byCL},
		{"unstaged", pageable, through[1]}, {"pageable", pageable, through[0]}, {"pinned", loan.Bytes(), through[0]}})
}

// trips checks what each way brings, and times all.
func (b *bench) trips(ctx context.Context, n uint64, all []trip) error {
	var up, down []way
	for i, t := range all {
		up, down = append(up, t.way(true)), append(down, t.way(false))
		content(t.data, uint32(i))
		_, _, err := up[i].timer()
		clear(t.data)
		if err == nil {
			_, _, err = down[i].timer()
		}
		if err == nil {
			err = check(t.data, uint32(i), 0)
		}
		if err != nil {
			return fmt.Errorf("%s, %d bytes: %w", t.name, n, err)
		}
	}
	if err := b.race(ctx, "up", n, up...); err != nil {
		return err
	}
	return b.race(ctx, "down", n, down...)
}
