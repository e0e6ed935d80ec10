package pool

import "fmt"

// Stats are a pool's figures, in bytes unless said.
type Stats struct {
	Hits, Misses uint64 // counts
	Held         uint64 // in buffers that exist: Out, Ready and Waiting
	Out          uint64 // lent, at bucket size
	Asked        uint64 // lent, as asked for
	Ready        uint64 // unused
	Waiting      uint64 // given back, but perhaps still used by commands
	Buffers      int    // that exist, a count
}

// HitRate is the share of requests that were hits, 0 before the first.
func (s Stats) HitRate() float64 {
	if s.Hits+s.Misses == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Hits+s.Misses)
}

// Stats returns the figures. Buckets are read one after the other, so that under
// concurrent use they need not add up; Held is exact.
func (p *BufferPool) Stats() Stats {
	s := Stats{Held: p.held.Load()}
	p.buckets(func(b *bucket) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.Hits += b.hits
		s.Misses += b.misses
		s.Out += uint64(b.out) * b.size
		s.Asked += b.asked
		s.Ready += uint64(len(b.ready)) * b.size
		s.Waiting += uint64(len(b.waiting)) * b.size
		s.Buffers += b.out + len(b.ready) + len(b.waiting)
		return true
	})
	return s
}

// ResetStats sets hits and misses to zero.
func (p *BufferPool) ResetStats() {
	p.buckets(func(b *bucket) bool {
		b.mu.Lock()
		b.hits, b.misses = 0, 0
		b.mu.Unlock()
		return true
	})
}

// Check tests, for a pool that nobody uses at the moment: every listed buffer is
// of its bucket's size, listed once and not out; what waits has a point; the
// bytes add up to Held.
func (p *BufferPool) Check() error {
	seen := make(map[*entry]bool)
	var sum uint64
	var bad error
	p.buckets(func(b *bucket) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		sum += uint64(b.out+len(b.ready)+len(b.waiting)) * b.size
		for i, e := range append(b.ready[:len(b.ready):len(b.ready)], b.waiting...) {
			switch {
			case seen[e]:
				bad = fmt.Errorf("pool: a buffer of %d bytes is listed twice", b.size)
			case e.bucket != b || e.size() != b.size:
				bad = fmt.Errorf("pool: a buffer of %d bytes is in the bucket of %d", e.size(), b.size)
			case e.out:
				bad = fmt.Errorf("pool: a buffer of %d bytes is listed while it is out", b.size)
			case i >= len(b.ready) && e.after.IsZero():
				bad = fmt.Errorf("pool: a buffer of %d bytes waits for nothing", b.size)
			}
			seen[e] = true
		}
		return bad == nil
	})
	if bad == nil && sum != p.held.Load() {
		bad = fmt.Errorf("pool: buffers of %d bytes in all, but %d counted as held", sum, p.held.Load())
	}
	return bad
}

// Held is the number of bytes in buffers that exist, lent or not.
func (p *BufferPool) Held() uint64 { return p.held.Load() }
