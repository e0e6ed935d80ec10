// Package pool keeps buffers for reuse, since creating one costs far more than
// using it: tens of microseconds for an OpenCL buffer's creation, first use and
// release, where a hit here costs tens of nanoseconds.
//
// # Assumptions
//
//   - Programs ask for few different sizes again and again.
//   - Whoever gives a buffer back says on which queue it was used last
//     (Handle.PutAfter). Nobody has to finish a queue first: the same queue may
//     have the buffer again at once, others once everything on that queue up to
//     the moment of giving back has ended (or at once with Options.HiddenWait:
//     the planner's hazards then make the new user's commands wait).
//   - Content is never at risk, whatever the pool does: a pooled buffer is a
//     runtime buffer, and the runtime orders commands on it. What the pool adds is
//     that nobody waits without having asked for it.
//
// # State
//
// A buffer is out (with a caller), ready (nobody uses it) or waiting (given
// back, its point not yet passed):
//
//	create -> out -> ready   -> out, or trimmed
//	          out -> waiting -> ready; or out, to the queue it waits for
//
// Ready buffers are a stack by bin, so that the one used last comes back first
// and the least recently used is at the bottom, where trimming starts.
//
// Every bin has its own lock, and a hit touches nothing else that is written to:
// goroutines that use different sizes do not disturb each other. Lock order: one
// bin's mutex at a time; the runtime's locks are never taken under it.
package pool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"godwit/mem"
	"godwit/runtime"
)

// ErrReturned: a handle was given back before.
var ErrReturned = mem.Sentinel("handle was given back before", mem.InvalidMemObject)

// Options shape a pool of buffers. The zero value is a good default.
type Options struct {
	Bins Bins
	// HiddenWait lets a queue have a buffer that another still uses: commands
	// on it then wait for the other's.
	HiddenWait bool
}

// BufferPool is an unbounded pool of buffers of one context, by size and flags.
// Safe for use from many goroutines.
type BufferPool struct {
	opts Options // immutable
	// fresh makes what a bucket of a size keeps; immutable.
	fresh func(e *entry, size uint64, flags runtime.Flags) error
	flush func() // makes commands start that somebody waits for; immutable

	tables atomic.Pointer[[]*table] // one for each flags seen; only ever grows
	grow   sync.Mutex               // held to add a table or bucket

	_ [cacheLine]byte // what misses write to is apart from what hits read

	held  atomic.Uint64 // bytes in buffers that exist: out, ready and waiting
	epoch atomic.Uint64 // moves on with misses; stamps entries for trimming
}

// table is the buckets for one value of the flags.
type table struct {
	flags   runtime.Flags
	buckets [binsCount]atomic.Pointer[bucket]
}

// Handle is a buffer on loan. A plain value; copies are the same loan. The zero
// Handle is the loan of nothing: giving it back does nothing.
type Handle struct {
	e    *entry
	gen  uint64
	size uint64
}

// NewBufferPool returns an empty pool of c's buffers.
func NewBufferPool(c *runtime.Context, o Options) (*BufferPool, error) {
	if err := o.Bins.check(); err != nil {
		return nil, err
	}
	p := &BufferPool{}
	p.init(c, o, buffersOf(c, mem.Kept)) // beside the pool's others: it is kept while the pool is
	return p, nil
}

// buffersOf makes a pool's entries: buffers of c that live as the hint says.
func buffersOf(c *runtime.Context, lives mem.Hint) func(e *entry, size uint64, flags runtime.Flags) error {
	return func(e *entry, size uint64, flags runtime.Flags) (err error) {
		if e.buf, err = c.CreateBuffer(size, flags, nil); err != nil {
			return err
		}
		return e.buf.SetHint(lives)
	}
}

func (p *BufferPool) init(c *runtime.Context, o Options, fresh func(*entry, uint64, runtime.Flags) error) {
	p.opts, p.fresh, p.flush = o, fresh, c.Flush
	p.tables.Store(&[]*table{})
}

// Size is the number of bytes asked for.
func (h Handle) Size() uint64 { return h.size }

// BucketSize is the number of bytes of the buffer, Size or more.
func (h Handle) BucketSize() uint64 {
	if h.e == nil {
		return 0
	}
	return h.e.bucket.size
}

// Buffer is the buffer on loan, of BucketSize bytes with content left over from
// earlier use; nil once h was given back.
func (h Handle) Buffer() *runtime.Buffer {
	if h.e == nil || h.e.gen.Load() != h.gen {
		return nil
	}
	return h.e.buf
}

// IsZero reports whether h is the loan of nothing.
func (h Handle) IsZero() bool { return h.e == nil }

// Get lends a buffer of at least size bytes for use on q; q may be nil where
// that is not known yet. Fails with mem.ErrInvalidSize for sizes that no bin
// has, and like runtime.Context.CreateBuffer.
func (p *BufferPool) Get(q *runtime.Queue, size uint64, flags runtime.Flags) (Handle, error) {
	if err := checkSize(size); err != nil {
		return Handle{}, err
	}
	b := p.bucket(size, flags)
	if h, ok := b.take(q, size, p.opts.HiddenWait, true); ok {
		return h, nil
	}
	h, err := p.create(b, size, flags)
	if err == nil {
		p.held.Add(b.size)
	}
	return h, err
}

// bucket finds the bucket of a size, making it on first use.
func (p *BufferPool) bucket(size uint64, flags runtime.Flags) *bucket {
	i, binSize := p.opts.Bins.bin(size)
	for _, t := range *p.tables.Load() {
		if t.flags == flags {
			if b := t.buckets[i].Load(); b != nil {
				return b
			}
			break
		}
	}
	p.grow.Lock()
	defer p.grow.Unlock()
	var t *table
	tables := *p.tables.Load()
	for _, have := range tables {
		if have.flags == flags {
			t = have
		}
	}
	if t == nil {
		t = &table{flags: flags}
		more := append(tables[:len(tables):len(tables)], t)
		p.tables.Store(&more)
	}
	if t.buckets[i].Load() == nil {
		t.buckets[i].Store(newBucket(binSize))
	}
	return t.buckets[i].Load()
}

// buckets calls f for every bucket, by flags and ascending size, until it
// returns false.
func (p *BufferPool) buckets(f func(*bucket) bool) {
	for _, t := range *p.tables.Load() {
		for i := range t.buckets {
			if b := t.buckets[i].Load(); b != nil && !f(b) {
				return
			}
		}
	}
}

// create makes a buffer for b and lends it. The caller counts it as held.
func (p *BufferPool) create(b *bucket, size uint64, flags runtime.Flags) (Handle, error) {
	e := &entry{bucket: b}
	if err := p.fresh(e, b.size, flags); err != nil {
		return Handle{}, err
	}
	p.epoch.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lend(e, size), nil
}

// Put gives a buffer back that no running command uses, or whose commands the
// next user may wait for. A second Put of the same loan fails with ErrReturned
// and changes nothing.
func (p *BufferPool) Put(h Handle) error { return p.PutAfter(h, nil) }

// PutAfter gives a buffer back that commands enqueued on q so far may still be
// using. It fails like Put.
func (p *BufferPool) PutAfter(h Handle, q *runtime.Queue) error {
	if h.e == nil {
		return nil
	}
	var after mem.Point
	if q != nil {
		after = q.Last()
	}
	b := h.e.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.e.gen.Load() != h.gen {
		return fmt.Errorf("loan of %d bytes: %w", h.size, ErrReturned)
	}
	h.e.gen.Add(1)
	h.e.out = false
	h.e.stamp = p.epoch.Load()
	b.out--
	b.asked -= h.e.asked
	if after.Passed() {
		b.ready = append(b.ready, h.e)
	} else {
		h.e.after = after
		b.waiting = append(b.waiting, h.e)
	}
	return nil
}

// Clear releases every buffer that is not out: ready ones at once, waiting ones
// once the commands that use them have ended. It returns the bytes given up.
func (p *BufferPool) Clear() (uint64, error) {
	var drop []*entry
	p.buckets(func(b *bucket) bool {
		b.mu.Lock()
		drop = append(append(drop, b.ready...), b.waiting...)
		clear(b.ready)
		clear(b.waiting)
		b.ready, b.waiting = b.ready[:0], b.waiting[:0]
		b.mu.Unlock()
		return true
	})
	return p.release(drop)
}

// release gives up buffers that are in no list any more.
func (p *BufferPool) release(drop []*entry) (freed uint64, first error) {
	for _, e := range drop {
		if err := e.release(); err != nil && first == nil {
			first = err
		}
		freed += e.bucket.size
	}
	p.held.Add(-freed)
	return freed, first
}

// wait blocks until some waiting buffer is ready, or ctx ends; false where none
// waits.
func (p *BufferPool) wait(ctx context.Context) (bool, error) {
	first := make(map[*mem.Timeline]mem.Point) // of each queue: the one it will pass first
	p.buckets(func(b *bucket) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.waiting {
			if f, ok := first[e.after.Line]; !ok || e.after.Seq < f.Seq {
				first[e.after.Line] = e.after
			}
		}
		return true
	})
	if len(first) == 0 {
		return false, nil
	}
	p.flush()
	one, done := context.WithCancel(ctx)
	defer done()
	var all sync.WaitGroup
	for _, after := range first {
		all.Go(func() {
			for !after.Passed() { // out of order, earlier commands may outlast it
				if _ = oldest(after).Wait(one); one.Err() != nil {
					return
				}
			}
			done()
		})
	}
	all.Wait()
	return true, ctx.Err()
}
