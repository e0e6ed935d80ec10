package mover

import (
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
)

// gate counts what must happen before its owner may go on: the points waited for
// that have not ended, and the owner's own holds. It is part of pooled records: every
// waiter it registers fires exactly once before it opens, so nobody knows it
// afterwards.
type gate struct {
	holds atomic.Int32
	cause atomic.Pointer[devices.DependencyError] // the first Data wait seen to fail
}

// ended notes the end of a Data wait.
func (g *gate) ended(p mem.Point, err error) {
	if err != nil {
		g.cause.CompareAndSwap(nil, devices.Dependency(p, err))
	}
}

// drop gives one hold up; the last one opens the gate, once.
func (g *gate) drop() (open bool) { return g.holds.Add(-1) == 0 }

// watch holds the gate for every wait that is not yet reached, by the owner's waiters.
// The caller has a hold of its own meanwhile.
func (g *gate) watch(waits []mem.Wait, data, order mem.Waiter) {
	for _, w := range waits {
		if satisfied(w) {
			continue
		}
		waiter := order
		if w.Kind == mem.Data {
			waiter = data
		}
		g.holds.Add(1)
		done, err := w.Point.Notify(waiter)
		if done {
			g.holds.Add(-1)
		}
		if w.Kind == mem.Data {
			g.ended(w.Point, err)
		}
	}
}

// satisfied reports whether a wait holds up nothing any more.
func satisfied(w mem.Wait) bool {
	return w.Point.Succeeded() || w.Kind == mem.Order && w.Point.Reached()
}

func allSatisfied(waits []mem.Wait) bool {
	for _, w := range waits {
		if !satisfied(w) {
			return false
		}
	}
	return true
}
