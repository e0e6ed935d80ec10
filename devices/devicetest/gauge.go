package devicetest

import "sync"

// Gauge is an amount that comes and goes. Safe for use from many goroutines; the zero
// Gauge is ready.
type Gauge struct {
	mu        sync.Mutex
	now, most int64 // protected by mu
}

// Add adds n, which may be below zero.
func (g *Gauge) Add(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

// Most is the largest amount so far, and Now the present one.
func (g *Gauge) Most() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

// Now is the present amount.
func (g *Gauge) Now() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}
