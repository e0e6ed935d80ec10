package mover

import (
	"slices"

	"godwit/devices"
	"godwit/mem"
)

// A batch: the legs of a chain, given to the driver of all ends as a whole. The driver
// holds it until its waits allow it to begin, and asks for its staging then (Stage);
// its points are the driver's.

// ahead is how many chunks are read before the first is written: the second read
// starts right behind the first, and writes are enqueued while it runs.
const ahead = 2

// batchWork is what a ring has of its batch.
type batchWork struct {
	to     []devices.Queue
	points []mem.Point
	legs   []devices.Leg
	after  []int32 // storage of the legs' After
}

func (w *batchWork) clear() {
	clear(w.to)
	clear(w.points)
	clear(w.legs)
	w.to, w.points, w.legs, w.after = w.to[:0], w.points[:0], w.legs[:0], w.after[:0]
}

var _ devices.Batch = (*ring)(nil)

// joined reports whether one driver takes rings between two memories as batches.
func (m *Mover) joined(a, b mem.MemoryID) bool {
	x, y := &m.mems[a], &m.mems[b]
	return x.family >= 0 && x.family == y.family
}

// submitBatch accepts a ring as a batch.
func (x *ring) submitBatch(waits []mem.Wait, out []mem.Point) error {
	m, w := x.m, &x.batch
	for _, a := range x.dsts[:x.n] {
		w.to = append(w.to, m.mems[a.dst.Memory].in)
		w.points = append(w.points, mem.Point{})
	}
	x.left.Store(2) // the driver's Ended, and the submitter
	if err := x.offer(waits); err != nil {
		m.recycle(x)
		return err
	}
	for i, a := range x.dsts[:x.n] {
		out[a.index] = w.points[i]
	}
	m.noteQueues(w.to)
	x.done()
	return nil
}

// offer gives the batch to its driver, one at a time.
func (x *ring) offer(waits []mem.Wait) error {
	x.m.submit.Lock()
	defer x.m.submit.Unlock()
	return x.batcher().SubmitBatch(x, x.batch.to, waits, x.batch.points)
}

// batcher is the queue that takes the batch: the source's.
func (x *ring) batcher() devices.Batcher { return x.m.mems[x.src.Memory].out.(devices.Batcher) }

// Stage implements devices.Batch.
func (x *ring) Stage(gated bool) ([]devices.Leg, bool) {
	m := x.m
	m.mu.Lock()
	if x.ext.arena == nil && !m.stageLocked(x, gated) {
		m.mu.Unlock()
		return nil, false
	}
	m.mu.Unlock()
	if len(x.batch.legs) == 0 {
		x.buildLegs()
		m.count(func(s *Stats) {
			s.Rings++
			s.Batches++
			s.Legs += uint64(len(x.batch.legs))
		})
	}
	return x.batch.legs, true
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
		pool.gated += uint64(len(x.ext.bytes))
	}
	return ok
}

// Ended implements devices.Batch.
func (x *ring) Ended() { x.done() }

// buildLegs lists the legs: reads run ahead of writes.
func (x *ring) buildLegs() {
	w := &x.batch
	chunks := int((x.size + x.chunk - 1) / x.chunk)
	slots := x.slots()
	w.legs = slices.Grow(w.legs[:0], chunks*(1+x.n))
	w.after = slices.Grow(w.after[:0], chunks*x.n)
	reads := 0
	for k := range chunks {
		for ; reads < chunks && reads < k+ahead; reads++ {
			w.legs = append(w.legs, x.readLeg(reads, slots))
		}
		x.writeLegs(k, slots)
	}
}

// readAt is the index of the read of chunk k: before it are k reads, and the writes of
// the chunks that it runs ahead of.
func (x *ring) readAt(k int) int { return k + max(k-ahead+1, 0)*x.n }

// writeAt is the index of the first write of chunk k of so many.
func (x *ring) writeAt(k, chunks int) int { return min(k+ahead, chunks) + k*x.n }

// part is the place of chunk k in the range, and its slot.
func (x *ring) part(k, slots int) (off uint64, slot []byte) {
	off = uint64(k) * x.chunk
	return off, x.slot(k%slots, min(x.chunk, x.size-off))
}

func (x *ring) readLeg(k, slots int) devices.Leg {
	m, w := x.m, &x.batch
	off, slot := x.part(k, slots)
	leg := devices.Leg{
		Queue: m.mems[x.src.Memory].out, Src: m.loc(&x.src, off), Dst: devices.Loc{Bytes: slot},
		Size: uint64(len(slot)), Data: -1, To: -1,
	}
	if k >= slots {
		chunks := int((x.size + x.chunk - 1) / x.chunk)
		from := len(w.after)
		for i := range x.n {
			w.after = append(w.after, int32(x.writeAt(k-slots, chunks)+i))
		}
		leg.After = w.after[from:len(w.after):len(w.after)]
	}
	return leg
}

func (x *ring) writeLegs(k, slots int) {
	m, w := x.m, &x.batch
	off, slot := x.part(k, slots)
	for i, a := range x.dsts[:x.n] {
		w.legs = append(w.legs, devices.Leg{
			Queue: m.mems[a.dst.Memory].in, Dst: m.loc(&a.dst, off), Src: devices.Loc{Bytes: slot},
			Size: uint64(len(slot)), Data: int32(x.readAt(k)), To: int32(i),
		})
	}
}
