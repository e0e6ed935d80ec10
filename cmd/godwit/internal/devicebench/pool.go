//go:build cgo

package devicebench

import (
	"context"
	"errors"

	"godwit/lib/pool"
	"godwit/runtime"
)

// hits is how many hits are timed together: one takes less than the clock.
const hits = 1000

// Pool measures what a buffer of each size costs on the first device chosen: made, used
// once and released, and out of a pool.
func Pool(ctx context.Context, o Options) (_ *Report, err error) {
	b, raw, err := newRaced(o)
	if err != nil {
		return nil, err
	}
	defer raw.close()
	s, err := b.open(ctx, "", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.ctx.Close(ctx)) }()
	for _, n := range o.Sizes {
		b.say("buffers of %d bytes", n)
		if err := b.buffers(ctx, raw, s, n); err != nil {
			return nil, err
		}
	}
	b.report.finish(false)
	return &b.report, ctx.Err()
}

func (b *bench) buffers(ctx context.Context, raw *vendor, s *side, n uint64) (err error) {
	p, err := pool.NewBufferPool(s.ctx, pool.Options{})
	if err != nil {
		return err
	}
	defer func() {
		_, e := p.Clear()
		err = errors.Join(err, e)
	}()
	pinned, err := pool.NewPinnedPool(s.ctx, pool.PinnedOptions{Pinning: pool.PinAlways, Ceiling: 2 * n})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pinned.Close()) }()
	// The buffer of the pool has been used by the device: it is real.
	h, err := p.Get(s.queues[0], n, 0)
	if err == nil {
		err = errors.Join(s.fill(ctx, h.Buffer()), p.PutAfter(h, s.queues[0]))
	}
	if err != nil {
		return err
	}
	err = b.race(ctx, "buffer", n,
		way{name: "raw: create, use, release", timer: calls(1, func() error {
			m, err := raw.buffer(n)
			if err != nil {
				return err
			}
			defer m.Release()
			return fill(raw.queues[0], m)
		})},
		way{name: "godwit: the same", timer: calls(1, func() error {
			buf, err := s.ctx.CreateBuffer(n, 0, nil)
			if err != nil {
				return err
			}
			return errors.Join(s.fill(ctx, buf), buf.Release())
		})},
		way{name: "a hit", times: hits, timer: calls(hits, func() error {
			h, err := p.Get(s.queues[0], n, 0)
			if err != nil {
				return err
			}
			return p.PutAfter(h, s.queues[0])
		})},
		way{name: "a pinned hit", times: hits, timer: calls(hits, func() error {
			h, err := pinned.Get(ctx, s.queues[0], n)
			if err != nil {
				return err
			}
			return pinned.PutAfter(h, s.queues[0])
		})})
	if err == nil && p.Stats().Misses != 1 {
		err = errors.New("a hit was a miss")
	}
	return err
}

// calls is a timer of so many calls that end when they return.
func calls(times int, f func() error) timer {
	return timed(func() error {
		for range times {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}, func() error { return nil })
}

// fill has the device write the first word of a buffer.
func (s *side) fill(ctx context.Context, b *runtime.Buffer) error {
	return once(ctx, func() (runtime.Event, error) { return s.queues[0].EnqueueFill(ctx, b, []byte{0, 0, 0, 0}, 0, 4) })
}
