package resource

import (
	"fmt"
	"sync"

	"godwit/mem"
)

// Fail makes chosen allocations fail, for tests of everything above it.
type Fail struct {
	base

	mu      sync.Mutex
	calls   uint64      // protected by mu
	at      uint64      // protected by mu: the call to fail; 0 is none
	outcome mem.Outcome // protected by mu
	err     error       // protected by mu
}

// NewFail returns a layer that passes everything on until told otherwise.
func NewFail(up mem.Resource) *Fail { return &Fail{base: base{up}} }

// String names the layer.
func (f *Fail) String() string { return "fail" }

// At makes the n-th AllocAll from now (1 is the next) answer outcome and err
// instead of going upstream. n = 0 disarms.
func (f *Fail) At(n uint64, outcome mem.Outcome, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.outcome, f.err = 0, outcome, err
	if n > 0 {
		f.at = f.calls + n
	}
}

// Calls is the number of AllocAll calls so far.
func (f *Fail) Calls() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// AllocAll goes upstream, or fails as armed.
func (f *Fail) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	f.mu.Lock()
	f.calls++
	hit, o, err := f.calls == f.at, f.outcome, f.err
	n := f.calls
	f.mu.Unlock()
	if !hit {
		return f.Resource.AllocAll(reqs, out, reuse)
	}
	if err != nil {
		err = fmt.Errorf("allocation %d, failed on purpose: %w", n, err)
	}
	return o, err
}
