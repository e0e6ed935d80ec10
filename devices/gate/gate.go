// Package gate counts what a pooled record waits for: what the queues of simulated
// devices and the mover have in common.
package gate

import (
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
)

// Gate counts what must happen before its owner may go on: the points waited
// for that have not ended, and the owner's own holds, of which it has one from the start. It is
// part of pooled records: every waiter it registers fires exactly once before it opens, so
// nobody knows it afterwards.
//
// The owner has two waiters of its own, one for each kind of wait, which are the
// owner itself under other types: records are many, and hold nothing that can be
// told from their address.
type Gate struct {
	holds atomic.Int32                            // beside the owner's first
	cause atomic.Pointer[devices.DependencyError] // the first Data wait seen to fail
}

// Hold is another hold of the owner's.
func (g *Gate) Hold() { g.holds.Add(1) }

// Drop gives one hold up; the last one opens the gate, once.
func (g *Gate) Drop() (open bool) {
	return g.holds.Load() == 0 || g.holds.Add(-1) < 0 // alone nobody else can see it
}

// Failed notes that a Data wait has failed, before its hold is given up.
func (g *Gate) Failed(p mem.Point, err error) {
	g.cause.CompareAndSwap(nil, devices.Dependency(p, err))
}

// Cause is the first failure of a Data wait, nil where there was none.
func (g *Gate) Cause() *devices.DependencyError { return g.cause.Load() }

// Reset makes the gate as a new one: its owner's hold alone closes it.
func (g *Gate) Reset() {
	if g.holds.Load() != 0 {
		g.holds.Store(0)
	}
	if g.cause.Load() != nil {
		g.cause.Store(nil)
	}
}

// Watch holds the gate for every wait that is not yet reached, by the owner's
// waiters. The caller has a hold of its own meanwhile.
func (g *Gate) Watch(waits []mem.Wait, data, order mem.Waiter) {
	for _, w := range waits {
		by := data
		if w.Kind == mem.Order {
			by = order
		}
		if w.Point.Succeeded() {
			continue
		}
		g.holds.Add(1)
		done, err := w.Point.Notify(by)
		if !done {
			continue
		}
		if g.holds.Add(-1); err != nil && w.Kind != mem.Order {
			g.Failed(w.Point, err)
		}
	}
}
