package resource

import (
	"sync/atomic"

	"godwit/mem"
)

// Retry turns a request that found no room into a trim of everything below and
// a second try. It never waits: where frees are pending below, the outcome is
// NeedsWait, and the caller may wait for one of Pending and ask again.
type Retry struct {
	base

	retries, rescued atomic.Uint64
}

// NewRetry returns a retrying layer.
func NewRetry(up mem.Resource) *Retry { return &Retry{base: base{up}} }

// String names the layer.
func (r *Retry) String() string { return "retry" }

// Retries is how many requests were tried again, and how many of those were
// then served.
func (r *Retry) Retries() (tried, rescued uint64) { return r.retries.Load(), r.rescued.Load() }

// AllocAll tries, trims and tries again.
func (r *Retry) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	o, err := r.Resource.AllocAll(reqs, out, reuse)
	if err != nil || o == mem.Ready {
		return o, err
	}
	r.retries.Add(1)
	if r.Resource.Trim(0) == 0 {
		return o, nil
	}
	if o, err = r.Resource.AllocAll(reqs, out, reuse); err == nil && o == mem.Ready {
		r.rescued.Add(1)
	}
	return o, err
}
