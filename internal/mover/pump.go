package mover

import (
	"errors"
	"slices"

	"godwit/devices"
)

// task is work for the pump: to start a ring whose gate has opened, to land a
// destination that failed, or, empty, to feed those that starve and let go pieces of those that give way.
type task struct {
	x *ring
	a *arrival
}

// post gives the pump work.
func (m *Mover) post(k task) {
	m.mu.Lock()
	m.postLocked(k)
	m.mu.Unlock()
}

func (m *Mover) postLocked(k task) {
	m.todo = append(m.todo, k)
	if !m.pumping {
		m.pumping = true
		m.by.Go(m.pump)
	}
}

// starve has the pump find staging for x. mu is held.
func (m *Mover) starve(x *ring) {
	m.starved = append(m.starved, x)
	m.postLocked(task{})
}

// pump does what there is to do. One runs at a time.
func (m *Mover) pump() {
	for batch := m.tasks(nil); batch != nil; batch = m.tasks(batch) {
		for _, k := range batch {
			switch {
			case k.a != nil:
				k.a.land(*k.a.err.Load())
			case k.x != nil:
				m.start(k.x)
			default:
				m.feed()
				m.letPieces()
			}
		}
	}
}

// tasks takes what there is to do, and leaves room for more where the last tasks were; nil
// is the end of the pump.
func (m *Mover) tasks(last []task) []task {
	clear(last)
	m.mu.Lock()
	defer m.mu.Unlock()
	if cap(last) > 0 {
		m.doing = last
	}
	if len(m.todo) > 0 {
		batch := m.todo
		m.todo = m.doing[:0]
		return batch
	}
	if m.pumping = false; m.closed && m.stats.Flying == 0 {
		m.landed.Broadcast()
	}
	return nil
}

// start begins a ring whose gate has opened.
func (m *Mover) start(x *ring) {
	err := m.aborted()
	if d := x.Cause(); d != nil {
		err = d
	}
	if err != nil {
		x.refuse(err)
		return
	}
	if x.late != nil && !x.cut() {
		for _, a := range x.dsts[:x.n] {
			a.left.Store(1)
		}
		x.settle()
		return
	}
	m.mu.Lock()
	ready := !m.starves(x) && m.takeStaging(x)
	if !ready {
		m.starve(x)
	}
	m.mu.Unlock()
	if ready {
		x.goOn()
	}
}

// cut leaves of a ring what its Late asks for, now that it is known, and reports
// whether that is anything.
func (x *ring) cut() bool {
	part := devices.PartOf(x.late, x.size)
	if part.Empty() {
		return false
	}
	x.src.Off += part.Start
	x.dsts[0].dst.Off += part.Start
	x.size = part.Size()
	x.shape()
	return true
}

// starves reports whether somebody starves whom x must not overtake. mu is held.
func (m *Mover) starves(x *ring) bool {
	return slices.ContainsFunc(m.starved, func(y *ring) bool { return y != x && y.pool() == x.pool() })
}

// feed starts rings that starve, those of each pool in order, while there is staging.
func (m *Mover) feed() {
	var full []int // pools that have none
	for {
		m.mu.Lock()
		i := slices.IndexFunc(m.starved, func(x *ring) bool { return !slices.Contains(full, x.pool()) })
		if i < 0 {
			idle, short := len(m.starved) == 0, m.short
			m.short = -1
			m.mu.Unlock()
			if idle {
				m.tidy(short)
			}
			return
		}
		x := m.starved[i]
		home, locked, pool := x.home, x.form == inBatch, x.pool()
		var driver devices.Batcher
		if locked {
			driver = x.batcher()
		}
		if m.takeStaging(x) {
			m.starved = slices.Delete(m.starved, i, i+1)
			m.mu.Unlock()
			if locked { // x may have been carried out, and be another ring, from here on: to resume that does no harm
				driver.Resume(x)
			} else {
				x.goOn()
			}
			continue
		}
		m.mu.Unlock()
		if pool == windowPool { // they come back
			full = append(full, pool)
			continue
		}
		grown, err := m.grow(home, locked)
		switch {
		case grown:
		case m.inUse(pool):
			full = append(full, pool) // it comes back, and feeds again
		case err != nil && m.hopeless(x):
			x.refuse(noStaging(m, x, err))
		default:
			full = append(full, pool)
		}
	}
}

// tidy gives ordinary memory back that stood in for locked, and gets the home that was
// short of staging some, where the budget has room.
func (m *Mover) tidy(short int) {
	err := m.shrink(m.makeshift)
	if short >= 0 {
		_, e := m.growIdle(short, true)
		err = errors.Join(err, e)
	}
	if err != nil {
		m.count(func(s *Stats) { s.Why = err.Error() })
	}
}

// inUse reports whether any staging of a pool, or else any that the pool could have, is.
func (m *Mover) inUse(pool int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.arenas, func(a *arena) bool { return a.used() > 0 && (m.poolOf(a) == pool || !a.stays) })
}

// hopeless reports whether x, the first of those that starve in its pool, has no arena to
// wait for, and then lets it starve no more. A batch always has one (findFamilies).
func (m *Mover) hopeless(x *ring) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.form == inBatch || slices.ContainsFunc(m.arenas, func(a *arena) bool { return m.poolOf(a) == x.pool() }) {
		return false
	}
	m.fed(x)
	return true
}

// fed has x starve no more. mu is held.
func (m *Mover) fed(x *ring) {
	m.starved = slices.DeleteFunc(m.starved, func(y *ring) bool { return y == x })
}

// goOn carries out a ring, but no batch, that has its points and staging.
func (x *ring) goOn() {
	chain := x.form == inChain // any other may have ended by the time that launch returns, and be used again
	if err := x.launch(); err != nil {
		x.refuse(err)
		return
	}
	if chain {
		x.flush()
		x.settle()
	}
}

// flush has the legs of a chain start: whoever waits for them flushed when there were none yet.
func (x *ring) flush() {
	for i := range x.work.steps {
		_ = x.work.steps[i].queue.Flush() // of a lost device, which those who wait are told
	}
}
