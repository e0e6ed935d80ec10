package pool

import (
	"sync"
	"sync/atomic"

	"godwit/internal/storage"
	"godwit/mem"
	"godwit/runtime"
)

// bucket is one bin's buffers. What a hit writes to is on cache lines that no
// other bucket has a part in: the padding sees to that for the struct, lineRoom for
// the lists (small slices of different buckets would be neighbours), and the size
// of an entry, which is a line, for entries.
type bucket struct {
	_ [cacheLine]byte

	mu      sync.Mutex
	size    uint64   // bytes of each buffer; immutable
	ready   []*entry // protected by mu: least recently used first
	waiting []*entry // protected by mu: longest waiting first
	out     int      // protected by mu
	asked   uint64   // protected by mu: bytes asked for by those out
	hits    uint64   // protected by mu
	misses  uint64   // protected by mu

	_ [cacheLine]byte
}

// cacheLine is what one goroutine's writes may disturb of others, in bytes: two lines,
// since processors fetch neighbours together. lineRoom is how many entries a list has
// room for from the start, to fill that.
const (
	cacheLine = 128
	lineRoom  = cacheLine / 8
)

func newBucket(size uint64) *bucket {
	return &bucket{size: size, ready: make([]*entry, 0, lineRoom), waiting: make([]*entry, 0, lineRoom)}
}

// entry is one buffer of a bucket.
type entry struct {
	buf    *runtime.Buffer     // immutable; nil in a PinnedPool
	pin    *storage.Allocation // immutable; nil but in a PinnedPool
	bucket *bucket             // immutable
	gen    atomic.Uint64       // raised when given back, under the bucket's mu: ends a loan
	out    bool                // protected by bucket.mu
	stamp  uint64              // protected by bucket.mu: epoch of the last return
	asked  uint64              // protected by bucket.mu
	after  mem.Point           // protected by bucket.mu: in waiting, what must have passed

	_ [cacheLine - 72]byte
}

// size is the bytes of what e keeps.
func (e *entry) size() uint64 {
	if e.pin != nil {
		return e.pin.Size
	}
	return e.buf.Size()
}

// release gives up what e keeps.
func (e *entry) release() error {
	if e.pin != nil {
		return e.pin.Free()
	}
	return e.buf.Release()
}

// lend marks e as out. mu is held.
func (b *bucket) lend(e *entry, size uint64) Handle {
	e.asked, e.out = size, true
	b.out++
	b.asked += size
	return Handle{e, e.gen.Load(), size}
}

// take lends a ready buffer, or a waiting one that q may have. miss says
// whether to count one.
func (b *bucket) take(q *runtime.Queue, size uint64, hidden, miss bool) (Handle, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		b.settle()
	}
	e := b.own(q)
	if n := len(b.ready); e == nil && n > 0 {
		e, b.ready = b.ready[n-1], b.ready[:n-1]
	}
	if e == nil && hidden && len(b.waiting) > 0 {
		e = b.waiting[0]
		b.waiting = b.waiting[:copy(b.waiting, b.waiting[1:])]
	}
	if e == nil {
		if miss {
			b.misses++
		}
		return Handle{}, false
	}
	b.hits++
	return b.lend(e, size), true
}

// own takes the newest buffer that waits for q itself; nil where there is none.
// mu is held.
func (b *bucket) own(q *runtime.Queue) *entry {
	if q == nil {
		return nil
	}
	for i := len(b.waiting) - 1; i >= 0; i-- {
		if e := b.waiting[i]; e.after.Line == q.Last().Line {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			return e
		}
	}
	return nil
}

// settleMost bounds the work of one settle, so that a hit stays O(1). The
// longest waiting are looked at first.
const settleMost = 16

// settle makes ready what has waited long enough. mu is held.
func (b *bucket) settle() {
	n := min(len(b.waiting), settleMost)
	kept := 0
	for i, e := range b.waiting[:n] {
		if e.after.Passed() {
			e.after = mem.Point{}
			b.ready = append(b.ready, e)
			continue
		}
		b.waiting[kept] = b.waiting[i]
		kept++
	}
	if kept < n {
		end := kept + copy(b.waiting[kept:], b.waiting[n:])
		clear(b.waiting[end:])
		b.waiting = b.waiting[:end]
	}
}
