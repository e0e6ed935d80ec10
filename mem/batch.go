package mem

import "fmt"

// EndThrough ends well the points from `from` to `to`, both with their ends: End for
// each, under one lock. None of them may have ended.
func (t *Timeline) EndThrough(from, to uint64) {
	if from == 0 || from > to || to > t.issued.Load() {
		panic(fmt.Sprintf("timeline %s: EndThrough of %d to %d, which it did not issue", t.name, from, to))
	}
	t.mu.Lock()
	if t.endedLocked(from) || t.endedLocked(to) {
		t.mu.Unlock()
		panic(fmt.Sprintf("timeline %s: EndThrough of %d to %d, some of which has ended", t.name, from, to))
	}
	if len(t.above) == 0 && from == t.mark.Load()+1 {
		t.top.Store(to)
		t.mark.Store(to)
	} else {
		for seq := from; seq <= to; seq++ {
			t.setLocked(seq)
		}
	}
	passed := t.passed()
	t.mu.Unlock()
	for seq := from; seq <= to && t.waiters.Load() > 0; seq++ {
		for w := t.take(seq); w != nil; w = t.take(seq) {
			w.PointReached(Point{t, seq}, nil)
		}
	}
	for _, w := range passed {
		close(w)
	}
}
