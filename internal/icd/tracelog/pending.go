package tracelog

import (
	"slices"

	"godwit/mem"
)

// pending are points of which a summary is to know how they ended. To be told of every end
// would cost a launch more than the rest of the account does, so they are looked at when there
// are many, and for a summary.
type pending struct {
	points []mem.Point
	most   int // so many are looked at
}

// leastPending is how many points are kept before they are looked at.
const leastPending = 1024

// look notes a point whose end is to show in the summary, where no lines tell it. mu is held.
func (l *Log) look(p mem.Point) {
	if l.w != nil {
		return
	}
	x := &l.pending
	x.points = append(x.points, p)
	if len(x.points) >= max(x.most, leastPending) {
		l.lookAtAll()
		x.most = 2 * len(x.points) // those that hang are not looked at again and again
	}
}

// lookAtAll counts what has failed by now, and forgets what has ended. mu is held.
func (l *Log) lookAtAll() {
	x := &l.pending
	x.points = slices.DeleteFunc(x.points, func(p mem.Point) bool {
		if !p.Reached() {
			return false
		}
		if !p.Succeeded() {
			l.sum.Failed++
		}
		return true
	})
}
