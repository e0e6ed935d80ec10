package devices

import (
	"sync/atomic"

	"godwit/mem"
)

// gate counts what must happen before its owner may go on: the points waited
// for that have not ended, and the owner's own holds. It is part of pooled
// records: every waiter it registers fires exactly once before it opens, so
// nobody knows it afterwards.
type gate struct {
	owner interface{ opened() } // immutable; called once, by who drops the last hold
	holds atomic.Int32
	cause atomic.Pointer[DependencyError] // the first Data wait seen to fail
}

// dataGate and orderGate are gates as seen by the points they wait for.
type (
	dataGate  gate
	orderGate gate
)

// PointReached implements mem.Waiter.
func (w *dataGate) PointReached(p mem.Point, err error) {
	g := (*gate)(w)
	if err != nil {
		g.fail(p, err)
	}
	g.release()
}

// PointReached implements mem.Waiter.
func (w *orderGate) PointReached(mem.Point, error) { (*gate)(w).release() }

func (g *gate) fail(p mem.Point, err error) { g.cause.CompareAndSwap(nil, Dependency(p, err)) }

// release drops one hold; the last one opens the gate.
func (g *gate) release() {
	if g.holds.Add(-1) == 0 {
		g.owner.opened()
	}
}

// watch holds the gate for every wait that is not yet reached. The caller has
// a hold of its own meanwhile.
func (g *gate) watch(waits []mem.Wait) {
	for _, w := range waits {
		if w.Kind == mem.Order {
			if w.Point.Reached() {
				continue
			}
			g.holds.Add(1)
			if done, _ := w.Point.Notify((*orderGate)(g)); done {
				g.holds.Add(-1)
			}
			continue
		}
		if w.Point.Succeeded() {
			continue
		}
		g.holds.Add(1)
		done, err := w.Point.Notify((*dataGate)(g))
		if done {
			g.holds.Add(-1)
		}
		if err != nil {
			g.fail(w.Point, err)
		}
	}
}
