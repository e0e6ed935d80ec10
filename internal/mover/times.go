package mover

import (
	"godwit/devices"
	"godwit/mem"
)

// keptTimes is how many of the latest rings of a profiling mover have their times
// kept.
const keptTimes = 4096

type timed struct {
	seq uint64
	devices.Times
}

// timers are the queues whose points Move gave out.
type timers map[*mem.Timeline]devices.Queue

// note remembers a queue. mu is held.
func (t timers) note(q devices.Queue) {
	if t != nil {
		t[q.Timeline()] = q
	}
}

// countDirect counts a transfer of one leg that q has taken.
func (m *Mover) countDirect(q devices.Queue, way mem.Way) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Legs++
	if way == mem.Linked {
		m.stats.Linked++
	} else {
		m.stats.Direct++
	}
	m.queues.note(q)
}

func (m *Mover) noteQueues(qs []devices.Queue) {
	if !m.opts.Profiling {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range qs {
		m.queues.note(q)
	}
}

// Times returns the times of a reached point that Move gave, where the mover
// profiles and the times are still kept. A ring is queued by Move, submitted and
// started with its first leg, and ended with its last, by the host's clock whatever by is.
func (m *Mover) Times(p mem.Point, by devices.Clock) (devices.Times, bool) {
	m.mu.Lock()
	if p.Line != m.line {
		q := m.queues[p.Line]
		m.mu.Unlock()
		if q == nil {
			return devices.Times{}, false
		}
		return q.Times(p, by)
	}
	defer m.mu.Unlock()
	if !m.opts.Profiling {
		return devices.Times{}, false
	}
	k := m.times[p.Seq%keptTimes]
	return k.Times, k.seq == p.Seq
}

// keepTimes records the times of a destination that lands.
func (m *Mover) keepTimes(a *arrival) {
	if !m.opts.Profiling {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x := a.x
	m.times[a.point.Seq%keptTimes] = timed{a.point.Seq, devices.Times{Queued: x.queued, Submitted: x.started, Started: x.started, Ended: m.by.Now()}}
}
