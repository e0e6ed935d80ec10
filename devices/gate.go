package devices

import (
	"sync/atomic"

	"godwit/mem"
)

// gate counts what must happen before its owner may go on: the points waited
// for that have not ended, and the owner's own holds. It is part of pooled
// records: every waiter it registers fires exactly once before it opens, so
// nobody knows it afterwards.
//
// The owner has two waiters of its own, one for each kind of wait, which are the
// owner itself under other types: records are many, and hold nothing that can be
// told from their address.
type gate struct {
	holds atomic.Int32
	cause atomic.Pointer[DependencyError] // the first Data wait seen to fail
}

// ended notes the end of a Data wait.
func (g *gate) ended(p mem.Point, err error) {
	if err != nil {
		g.cause.CompareAndSwap(nil, Dependency(p, err))
	}
}

// drop gives one hold up; the last one opens the gate, once.
func (g *gate) drop() (open bool) { return g.holds.Add(-1) == 0 }

// watch holds the gate for every wait that is not yet reached, by the owner's
// waiters. The caller has a hold of its own meanwhile.
func (g *gate) watch(waits []mem.Wait, data, order mem.Waiter) {
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
		g.ended(w.Point, err)
	}
}
