package bufalloc

import (
	"sync"

	"godwit/mem"
)

// Locked is a Region for many goroutines: every method is the Region's of that
// name under one lock, which is a leaf. Nothing is called under it but the
// function given to Do.
type Locked struct {
	mu sync.Mutex
	r  *Region // protected by mu
}

// NewLocked takes over r, which must not be used by itself any more.
func NewLocked(r *Region) *Locked { return &Locked{r: r} }

// Do runs f on the region under the lock: for several operations as one, and
// for what Locked has no method for. f must be short and must not call l.
func (l *Locked) Do(f func(r *Region)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.r)
}

// Alloc is Region.Alloc.
func (l *Locked) Alloc(size, align uint64) (Chunk, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Alloc(size, align)
}

// AllocAll is Region.AllocAll.
func (l *Locked) AllocAll(reqs []mem.Request, out []Chunk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.AllocAll(reqs, out)
}

// Free is Region.Free.
func (l *Locked) Free(c Chunk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Free(c)
}

// FreeAddr is Region.FreeAddr.
func (l *Locked) FreeAddr(addr uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.FreeAddr(addr)
}

// Lookup is Region.Lookup.
func (l *Locked) Lookup(addr uint64) (Chunk, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Lookup(addr)
}

// Addr is Region.Addr.
func (l *Locked) Addr(c Chunk) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Addr(c)
}

// Range is Region.Range.
func (l *Locked) Range(c Chunk) (mem.Range, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Range(c)
}

// Sub is Region.Sub.
func (l *Locked) Sub(c Chunk, off, size uint64) (mem.Range, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Sub(c, off, size)
}

// Stats is Region.Stats.
func (l *Locked) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Stats()
}

// Check is Region.Check.
func (l *Locked) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Check()
}

// Reset is Region.Reset.
func (l *Locked) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.r.Reset()
}
