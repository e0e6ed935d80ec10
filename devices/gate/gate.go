// Package gate counts what a pooled record waits for: what the queues of simulated
// devices and the mover have in common.
package gate

import (
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
)

// Gate counts what must happen before its owner may go on: the points waited
// for that have not ended, and the owner's own holds. It is part of pooled
// records: every waiter it registers fires exactly once before it opens, so
// nobody knows it afterwards.
//
// The owner has two waiters of its own, one for each kind of wait, which are the
// owner itself under other types: records are many, and hold nothing that can be
// told from their address.
type Gate struct {
	holds atomic.Int32
	cause atomic.Pointer[devices.DependencyError] // the first Data wait seen to fail
}

// Hold closes the gate with n holds, before anybody else knows it.
func (g *Gate) Hold(n int32) { g.holds.Store(n) }

// Drop gives one hold up; the last one opens the gate, once.
func (g *Gate) Drop() (open bool) { return g.holds.Add(-1) == 0 }

// Ended notes the end of a Data wait.
func (g *Gate) Ended(p mem.Point, err error) {
	if err != nil {
		g.cause.CompareAndSwap(nil, devices.Dependency(p, err))
	}
}

// Cause is the first failure of a Data wait, nil where there was none.
func (g *Gate) Cause() *devices.DependencyError { return g.cause.Load() }

// Forget makes the gate ready for its record's next life.
func (g *Gate) Forget() { g.cause.Store(nil) }

// Watch holds the gate for every wait that is not yet reached, by the owner's
// waiters. The caller has a hold of its own meanwhile.
func (g *Gate) Watch(waits []mem.Wait, data, order mem.Waiter) {
	for _, w := range waits {
		if w.Kind == mem.Order {
			if w.Point.Reached() {
				continue
			}
			g.holds.Add(1)
			if done, _ := w.Point.Notify(order); done {
				g.holds.Add(-1)
			}
			continue
		}
		if w.Point.Succeeded() {
			continue
		}
		g.holds.Add(1)
		done, err := w.Point.Notify(data)
		if done {
			g.holds.Add(-1)
		}
		g.Ended(w.Point, err)
	}
}
