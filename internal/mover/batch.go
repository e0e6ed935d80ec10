package mover

import (
	"slices"

	"godwit/devices"
	"godwit/mem"
)

// A batch: the legs of a ring, given to the driver of all ends as a whole. The driver
// holds it until its waits allow it to begin, and asks for its staging then (Stage);
// its points are the driver's.

// batchWork is what a ring has of its batch.
type batchWork struct {
	to     []devices.Queue
	points []mem.Point
}

func (w *batchWork) clear() {
	clear(w.to)
	clear(w.points)
	w.to, w.points = w.to[:0], w.points[:0]
}

var _ devices.Batch = (*ring)(nil)

// joined reports whether one driver takes rings between two memories as batches.
func (m *Mover) joined(a, b mem.MemoryID) bool {
	x, y := &m.mems[a], &m.mems[b]
	return x.family >= 0 && x.family == y.family
}

// submitBatch accepts a ring as a batch, one at a time.
func (x *ring) submitBatch(waits []mem.Wait, out []mem.Point) error {
	m, w := x.m, &x.batch
	for _, a := range x.dsts[:x.n] {
		w.to = append(w.to, m.mems[a.dst.Memory].in)
		w.points = append(w.points, mem.Point{})
	}
	x.left.Store(2) // the driver's Ended, and the submitter
	m.submit.Lock()
	err := x.batcher().SubmitBatch(x, w.to, waits, w.points)
	m.submit.Unlock()
	if err != nil {
		m.recycle(x)
		return err
	}
	for i, a := range x.dsts[:x.n] {
		out[a.index] = w.points[i]
	}
	x.done()
	return nil
}

// batcher is the queue that takes the batch: the source's.
func (x *ring) batcher() devices.Batcher { return x.m.mems[x.src.Memory].out.(devices.Batcher) }

// Stage implements devices.Batch.
func (x *ring) Stage(gated bool) ([]devices.Leg, bool) {
	m := x.m
	m.mu.Lock()
	if len(x.staging) == 0 && !m.stageLocked(x, gated) {
		m.mu.Unlock()
		return nil, false
	}
	m.mu.Unlock()
	if len(x.work.legs) == 0 {
		x.buildLegs()
		m.count(func(s *Stats) {
			s.Rings++
			s.Batches++
			s.Legs += uint64(len(x.work.legs))
		})
	}
	return x.work.legs, true
}

// stageLocked gets a batch its staging. Gated batches have smaller rings, and leave one
// whole ring, so that they hold up nothing else for as long as what they wait for takes. mu
// is held.
func (m *Mover) stageLocked(x *ring, gated bool) bool {
	if !gated {
		if !m.starves(x) && m.takeStaging(x) {
			m.fed(x) // it may have asked by itself, before the pump came to it
			return true
		}
		if !slices.Contains(m.starved, x) {
			m.starve(x)
		}
		return false
	}
	x.gated = true
	want, _ := x.wants()
	pool := &m.mems[x.pool()]
	ok := !m.starves(x)
	if ok && (pool.gated+want+m.arenaSize() > m.poolHeld(x.pool()) || !m.takeStaging(x)) {
		m.short = x.home
		m.postLocked(task{}) // for the next one
		ok = false
	}
	if x.gated = ok; ok {
		pool.gated += x.staging[0].size
	}
	return ok
}

// Ended implements devices.Batch.
func (x *ring) Ended() { x.done() }
