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
	evict func(bytes uint64) uint64 // immutable; may be nil

	retries, rescued atomic.Uint64
}

// NewRetry returns a retrying layer. evict, where not nil, is asked to free
// the given number of bytes by other means when trimming did not help; it
// returns what it freed, and must not call this layer.
func NewRetry(up mem.Resource, evict func(bytes uint64) uint64) *Retry {
	return &Retry{base: base{up}, evict: evict}
}

// String names the layer.
func (r *Retry) String() string { return "retry" }

// Retries is how many requests were tried again, and how many of those were
// then served.
func (r *Retry) Retries() (tried, rescued uint64) { return r.retries.Load(), r.rescued.Load() }

// AllocAll tries, trims, tries again, asks for eviction and tries once more.
func (r *Retry) AllocAll(reqs []mem.Request, out []mem.Block) (mem.Outcome, error) {
	o, err := r.up.AllocAll(reqs, out)
	if err != nil || o == mem.Ready {
		return o, err
	}
	r.retries.Add(1)
	if r.up.Trim(0) > 0 {
		if o, err = r.again(reqs, out); err != nil || o == mem.Ready {
			return o, err
		}
	}
	if r.evict != nil {
		if want, _ := total(reqs); r.evict(want) > 0 {
			if o, err = r.again(reqs, out); err != nil || o == mem.Ready {
				return o, err
			}
		}
	}
	return o, nil
}

func (r *Retry) again(reqs []mem.Request, out []mem.Block) (mem.Outcome, error) {
	o, err := r.up.AllocAll(reqs, out)
	if err == nil && o == mem.Ready {
		r.rescued.Add(1)
	}
	return o, err
}
