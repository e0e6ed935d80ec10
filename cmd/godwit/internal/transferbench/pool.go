//go:build cgo

package transferbench

import (
	"context"
	"errors"
	"time"

	"godwit/lib/pool"
	"godwit/runtime"
)

// hits is how many hits are timed together: one takes less than the clock.
const hits = 1000

// RunPool measures what a buffer of each size costs: made, used once and released, and
// out of a pool.
func RunPool(ctx context.Context, o Options) (_ *Pool, err error) {
	f, err := pick(o)
	if err != nil {
		return nil, err
	}
	r, err := newRaw(f)
	if err != nil {
		return nil, err
	}
	defer r.close()
	s, err := openSide(ctx, f, o.Params)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.ctx.Close(ctx)) }()
	out := &Pool{Device: f.Info.Name, Platform: f.Info.Platform, Reps: o.Reps}
	for _, n := range o.Sizes {
		o.say("buffers of %d bytes", n)
		row, err := s.buffers(ctx, r, n, o.Reps)
		if err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, row)
	}
	return out, ctx.Err()
}

func (s *side) buffers(ctx context.Context, r *raw, n uint64, reps int) (row PoolRow, err error) {
	p, err := pool.NewBufferPool(s.ctx, pool.Options{})
	if err != nil {
		return row, err
	}
	pinned, err := pool.NewPinnedPool(s.ctx, pool.PinnedOptions{Pinning: pool.PinAlways, Ceiling: 2 * n})
	if err != nil {
		return row, err
	}
	defer func() {
		_, e := p.Clear()
		err = errors.Join(err, e, pinned.Close())
	}()
	// The buffer of the pool has been used by the device: it is real.
	h, err := p.Get(s.queue, n, 0)
	if err == nil {
		err = errors.Join(s.fill(ctx, h.Buffer()), p.PutAfter(h, s.queue))
	}
	if err != nil {
		return row, err
	}
	var times [4][]time.Duration
	for round := -1; round < reps && ctx.Err() == nil; round++ {
		for i, f := range []func() (time.Duration, error){
			func() (time.Duration, error) { return r.create(n) },
			func() (time.Duration, error) { return s.create(ctx, n) },
			func() (time.Duration, error) { return s.hit(p, n) },
			func() (time.Duration, error) { return s.hitPinned(ctx, pinned, n) },
		} {
			if ctx.Err() != nil {
				return row, ctx.Err()
			}
			t, err := f()
			if err != nil {
				return row, err
			}
			if round >= 0 {
				times[i] = append(times[i], t)
			}
		}
	}
	return PoolRow{Size: n, Raw: median(times[0]), Godwit: median(times[1]), Hit: median(times[2]) / hits, Pinned: median(times[3]) / hits}, nil
}

func (s *side) fill(ctx context.Context, b *runtime.Buffer) error {
	e, err := s.queue.EnqueueFill(ctx, b, []byte{0, 0, 0, 0}, 0, 4)
	if err != nil {
		return err
	}
	return errors.Join(e.Wait(context.WithoutCancel(ctx)), e.Release()) // as in move
}

func (s *side) create(ctx context.Context, n uint64) (time.Duration, error) {
	start := time.Now()
	b, err := s.ctx.CreateBuffer(n, 0, nil)
	if err == nil {
		err = errors.Join(s.fill(ctx, b), b.Release())
	}
	return time.Since(start), err
}

// hit is the time of so many hits.
func (s *side) hit(p *pool.BufferPool, n uint64) (time.Duration, error) {
	start := time.Now()
	for range hits {
		h, err := p.Get(s.queue, n, 0)
		if err == nil {
			err = p.PutAfter(h, s.queue)
		}
		if err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	if m := p.Stats().Misses; m != 1 {
		return 0, errors.New("a hit was a miss")
	}
	return took, nil
}

func (s *side) hitPinned(ctx context.Context, p *pool.PinnedPool, n uint64) (time.Duration, error) {
	start := time.Now()
	for range hits {
		h, err := p.Get(ctx, s.queue, n)
		if err == nil {
			err = p.PutAfter(h, s.queue)
		}
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
