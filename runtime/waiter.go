package runtime

import (
	"context"
	"sync/atomic"

	"godwit/mem"
)

// What waits for points. A waiter may be told under a driver's locks, or inside somebody's
// Submit: it only counts, or hands on.

// notify has a waiter told of a point's end, now where it has ended.
func notify(p mem.Point, w mem.Waiter) {
	if done, err := p.Notify(w); done {
		w.PointReached(p, err)
	}
}

// atEnd is what a command does on the host, as a waiter that does it at the command's end. It has an address, since
// waiters are compared.
type atEnd struct{ call func(context.Context) error }

// PointReached implements mem.Waiter.
func (e *atEnd) PointReached(mem.Point, error) {
	_ = e.call(context.Background()) // nobody to tell: the command has failed
}

// countdown calls a function once all that it counts has happened: its owner's own part, and
// the points that it watches.
type countdown struct {
	left atomic.Int32
	f    func() // set before the last part
}

// afterAll has f called once all the points have been reached.
func afterAll(points []mem.Point, f func()) {
	k := newCountdown()
	k.begin(points, f)
}

// newCountdown has one part left: begin.
func newCountdown() *countdown {
	k := new(countdown)
	k.left.Store(1)
	return k
}

// begin has f called once all the points have been reached, too.
func (k *countdown) begin(points []mem.Point, f func()) {
	k.f = f
	for _, p := range points {
		k.left.Add(1)
		notify(p, k)
	}
	k.part()
}

// part tells that a part has happened.
func (k *countdown) part() {
	if k.left.Add(-1) == 0 {
		k.f()
	}
}

// PointReached implements mem.Waiter.
func (k *countdown) PointReached(mem.Point, error) { k.part() }
