package storage

import (
	"slices"
	"sync/atomic"

	"godwit/mem"
)

// deferredFree is a block that goes back to the store once its points are
// reached. Records are pooled; each waiter fires once before it is reused.
type deferredFree struct {
	m      *Blocks
	entry  uint32
	gen    uint32 // of the entry: Close may have freed it meanwhile
	at     int    // protected by m.mu: index in m.waiting
	holds  atomic.Int32
	points []mem.Point // protected by m.mu: those waited for
}

// takeDeferred lists a pending free of entry i. mu is held.
func (m *Blocks) takeDeferred(i uint32, after []mem.Point) *deferredFree {
	var d *deferredFree
	if n := len(m.spare); n > 0 {
		d, m.spare = m.spare[n-1], m.spare[:n-1]
	} else {
		d = &deferredFree{m: m}
	}
	d.entry, d.gen, d.at = i, m.entries[i].gen, len(m.waiting)
	d.points = append(d.points[:0], after...)
	d.holds.Store(1)
	m.waiting = append(m.waiting, d)
	return d
}

// watch registers with the points; after is the caller's.
func (d *deferredFree) watch(after []mem.Point) {
	for _, p := range after {
		d.holds.Add(1)
		if done, _ := p.Notify(d); done {
			d.holds.Add(-1)
		}
	}
	d.release()
}

// PointReached implements mem.Waiter.
func (d *deferredFree) PointReached(mem.Point, error) { d.release() }

func (d *deferredFree) release() {
	if d.holds.Add(-1) != 0 {
		return
	}
	m := d.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := &m.entries[d.entry]; e.gen == d.gen && e.state == entryPending {
		if e.again == no {
			m.stats.Pending -= e.size
		}
		m.retire(d.entry)
	}
	last := m.waiting[len(m.waiting)-1]
	m.waiting[d.at], last.at = last, d.at
	m.waiting = m.waiting[:len(m.waiting)-1]
	clear(d.points)
	m.spare = append(m.spare, d)
}

// Pending implements mem.Resource: each point once.
func (m *Blocks) Pending(dst []mem.Point) []mem.Point {
	m.mu.Lock()
	defer m.mu.Unlock()
	start := len(dst)
	for _, d := range m.waiting {
		for _, p := range d.points {
			if !p.Reached() && !slices.Contains(dst[start:], p) {
				dst = append(dst, p)
			}
		}
	}
	return dst
}
