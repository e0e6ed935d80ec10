package resource

import (
	"fmt"
	"sync"

	"godwit/mem"
)

// Stat is a figure over time, in bytes or a count.
type Stat struct {
	Current     uint64
	Peak        uint64
	Accumulated uint64 // all increases
	Released    uint64 // all decreases
}

func (s *Stat) add(n uint64) {
	s.Current += n
	s.Accumulated += n
	s.Peak = max(s.Peak, s.Current)
}

func (s *Stat) sub(n uint64) {
	s.Current -= n
	s.Released += n
}

// set moves the figure to n.
func (s *Stat) set(n uint64) {
	if n >= s.Current {
		s.add(n - s.Current)
	} else {
		s.sub(s.Current - n)
	}
}

func (s *Stat) resetPeak()        { s.Peak = s.Current }
func (s *Stat) resetAccumulated() { s.Accumulated, s.Released = 0, 0 }

// Figures are a memory's statistics with the meanings of PyTorch's
// torch.cuda.memory_stats. Bytes unless said.
type Figures struct {
	Allocations   Stat // blocks given out, a count
	Allocated     Stat // in blocks given out and not given back
	Active        Stat // allocated, or given back but waiting for a point
	Reserved      Stat // taken from the device
	InactiveSplit Stat // reserved and unused, but part of a slab in use
	Retries       uint64
	OutOfMemory   uint64 // requests refused for want of room or budget, a count
}

// Statistics keeps PyTorch's figures of what goes through it. Put it above the
// caching layers: what lies between it and the device is "reserved".
type Statistics struct {
	base

	mu    sync.Mutex
	f     Figures                // protected by mu
	live  map[mem.Block]struct{} // protected by mu
	tried uint64                 // protected by mu: retries below at the last reset
}

// NewStatistics returns a counting layer.
func NewStatistics(up mem.Resource) *Statistics {
	return &Statistics{base: base{up}, live: make(map[mem.Block]struct{})}
}

// String names the layer.
func (s *Statistics) String() string { return "statistics" }

// AllocAll counts what was given, and what was refused.
func (s *Statistics) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	o, err := s.Resource.AllocAll(reqs, out, reuse)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return o, err
	}
	if o != mem.Ready {
		s.f.OutOfMemory++
		return o, nil
	}
	for _, b := range out {
		s.live[b] = struct{}{}
		s.f.Allocations.add(1)
		s.f.Allocated.add(b.Size)
	}
	s.refreshLocked()
	return o, nil
}

// FreeAfter counts b as given back now, as inactive once its points are reached.
func (s *Statistics) FreeAfter(b mem.Block, after []mem.Point) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.live[b]; !ok {
		return notLive("statistics", b)
	}
	if err := s.Resource.FreeAfter(b, after); err != nil {
		return err
	}
	delete(s.live, b)
	s.f.Allocations.sub(1)
	s.f.Allocated.sub(b.Size)
	s.refreshLocked()
	return nil
}

// refreshLocked derives the figures that depend on upstream. mu is held.
func (s *Statistics) refreshLocked() {
	up := s.Resource.Stats()
	s.f.Active.set(s.f.Allocated.Current + up.Pending)
	s.f.Reserved.set(up.Reserved)
	used := up.Live + up.Pending + up.Cached
	if up.Reserved > used {
		s.f.InactiveSplit.set(up.Reserved - used)
	} else {
		s.f.InactiveSplit.set(0)
	}
}

// Figures returns a consistent copy.
func (s *Statistics) Figures() Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshLocked()
	f := s.f
	if r, ok := Find[*Retry](s.Resource); ok {
		n, _ := r.Retries()
		f.Retries = n - s.tried
	}
	return f
}

// ResetPeak sets every peak to its current figure.
func (s *Statistics) ResetPeak() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshLocked()
	for _, st := range s.f.all() {
		st.resetPeak()
	}
}

// ResetAccumulated sets every accumulated figure to zero.
func (s *Statistics) ResetAccumulated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.f.all() {
		st.resetAccumulated()
	}
	s.f.OutOfMemory = 0
	if r, ok := Find[*Retry](s.Resource); ok {
		s.tried, _ = r.Retries()
	}
}

func (f *Figures) all() []*Stat {
	return []*Stat{&f.Allocations, &f.Allocated, &f.Active, &f.Reserved, &f.InactiveSplit}
}

// Check tests the figures against the live blocks, then upstream.
func (s *Statistics) Check() error {
	s.mu.Lock()
	var bytes, n uint64
	for b := range s.live {
		bytes += b.Size
		n++
	}
	f := s.f
	s.mu.Unlock()
	if f.Allocated.Current != bytes || f.Allocations.Current != n {
		return fmt.Errorf("statistics: %d bytes in %d blocks counted, but %d bytes in %d blocks are live",
			f.Allocated.Current, f.Allocations.Current, bytes, n)
	}
	if f.Active.Current < f.Allocated.Current {
		return fmt.Errorf("statistics: %d bytes active, fewer than the %d allocated", f.Active.Current, f.Allocated.Current)
	}
	return s.Resource.Check()
}
