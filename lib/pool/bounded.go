package pool

import (
	"context"
	"fmt"
	"slices"

	"godwit/internal/resource"
	"godwit/mem"
	"godwit/runtime"
)

// BoundedOptions shape a BoundedPool.
type BoundedOptions struct {
	Options
	// Ceiling is what all buffers of the pool together may hold, in bytes,
	// whether lent or not. It is never passed by a byte.
	Ceiling uint64
	// High and Low are water marks in bytes: a new buffer that brings the pool
	// above High has it trimmed to Low as far as unused buffers go. Zero are 7/8
	// and 3/4 of Ceiling.
	High, Low uint64
}

// BoundedPool is a BufferPool with a ceiling. At the ceiling it gives up the
// buffers used least recently; if that is not enough it waits for points; then
// it says no. Safe for use from many goroutines.
type BoundedPool struct {
	BufferPool
	o BoundedOptions // immutable
}

// NewBoundedPool returns an empty pool. It fails with mem.ErrInvalidValue where
// the ceiling is zero or the marks are not Low <= High <= Ceiling.
func NewBoundedPool(c *runtime.Context, o BoundedOptions) (*BoundedPool, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := o.Bins.check(); err != nil {
		return nil, err
	}
	p := &BoundedPool{o: o}
	p.init(c, o.Options, buffersOf(c, 0)) // the ceiling decides how long they live
	return p, nil
}

// complete sets the marks that were not chosen.
func (o *BoundedOptions) complete() error {
	if o.Ceiling == 0 {
		return fmt.Errorf("pool with a ceiling of 0 bytes: it could lend nothing: %w", mem.ErrInvalidValue)
	}
	if o.High == 0 {
		o.High = o.Ceiling / 8 * 7
	}
	if o.Low == 0 {
		o.Low = min(o.Ceiling/4*3, o.High)
	}
	if o.Low > o.High || o.High > o.Ceiling {
		return fmt.Errorf("pool with low mark %d, high mark %d, ceiling %d: want them in this order: %w", o.Low, o.High, o.Ceiling, mem.ErrInvalidValue)
	}
	return nil
}

// Ceiling is the ceiling in bytes.
func (p *BoundedPool) Ceiling() uint64 { return p.o.Ceiling }

// Get is BufferPool.Get under the ceiling. ctx bounds the wait for running
// commands where only that helps. It fails with mem.ErrNoMemory where the lent
// buffers leave no room, the error being a *resource.OutOfMemory, and with ctx's error.
func (p *BoundedPool) Get(ctx context.Context, q *runtime.Queue, size uint64, flags runtime.Flags) (Handle, error) {
	if err := checkSize(size); err != nil {
		return Handle{}, err
	}
	b := p.bucket(size, flags)
	if h, ok := b.take(q, size, p.opts.HiddenWait, true); ok {
		return h, nil
	}
	if b.size > p.o.Ceiling {
		return Handle{}, p.full(b.size)
	}
	for !p.reserve(b.size) {
		freed, err := p.Trim(p.o.Ceiling - b.size)
		if err != nil {
			return Handle{}, err
		}
		if freed > 0 {
			continue
		}
		waited, err := p.wait(ctx)
		if err != nil {
			return Handle{}, fmt.Errorf("waiting for room for %d bytes: %w", b.size, err)
		}
		if h, ok := b.take(q, size, p.opts.HiddenWait, false); ok {
			return h, nil
		}
		if !waited && !p.fits(b.size) {
			return Handle{}, p.full(b.size)
		}
	}
	h, err := p.create(b, size, flags)
	if err != nil {
		p.held.Add(-b.size)
		return Handle{}, err
	}
	if held := p.held.Load(); held > p.o.High {
		_, err = p.Trim(p.o.Low)
	}
	return h, err
}

func (p *BoundedPool) full(want uint64) error {
	s := p.Stats()
	free := p.o.Ceiling - min(p.o.Ceiling, s.Held)
	return fmt.Errorf("%d bytes more: the pool holds %d of its ceiling of %d, of which %d are lent: %w",
		want, s.Held, p.o.Ceiling, s.Out, &resource.OutOfMemory{
			Device: "pool", Requested: want, Capacity: p.o.Ceiling, Free: free, LargestHole: free,
			Cached: s.Ready, Pending: s.Waiting, Live: s.Out, Verdict: resource.Budget,
			Holders: []resource.Holder{{Name: "lent buffers", Bytes: s.Out}},
		})
}

// fits reports whether a buffer of n bytes could be made right now.
func (p *BoundedPool) fits(n uint64) bool {
	s := p.Stats()
	return n <= p.o.Ceiling-min(p.o.Ceiling, s.Held) || s.Ready > 0 || s.Waiting > 0
}

// reserve counts n bytes as held where the ceiling allows.
func (p *BoundedPool) reserve(n uint64) bool {
	for {
		held := p.held.Load()
		if n > p.o.Ceiling-held {
			return false
		}
		if p.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// Trim gives up unused buffers, least recently used first, until at most target
// bytes are held or none is unused. It returns the bytes given up. It takes the
// bottom of the stack that was given back longest ago, again and again: O(buckets)
// for each buffer given up.
func (p *BoundedPool) Trim(target uint64) (uint64, error) {
	held := p.held.Load()
	if held <= target {
		return 0, nil
	}
	excess := held - target
	var drop []*entry
	for excess > 0 {
		e := p.oldest().pop()
		if e == nil {
			break
		}
		drop = append(drop, e)
		excess -= min(excess, e.bucket.size)
	}
	return p.release(drop)
}

// oldest returns the bucket whose least recently used buffer was given back
// longest ago, the one with the larger buffers among equals; nil where nothing
// is ready.
func (p *BoundedPool) oldest() (best *bucket) {
	var stamp uint64
	p.buckets(func(b *bucket) bool {
		b.mu.Lock()
		b.settle()
		if len(b.ready) > 0 && (best == nil || b.ready[0].stamp < stamp || b.ready[0].stamp == stamp && b.size > best.size) {
			best, stamp = b, b.ready[0].stamp
		}
		b.mu.Unlock()
		return true
	})
	return best
}

// pop takes the least recently used buffer out; nil where none is ready any
// more, or b is nil.
func (b *bucket) pop() *entry {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return nil
	}
	e := b.ready[0]
	b.ready = slices.Delete(b.ready, 0, 1)
	return e
}
