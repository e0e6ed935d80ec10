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

// Times returns the times of a reached point that Move gave, where the mover
// profiles and the times are still kept. A ring is queued by Move, submitted and
// started with its first leg, and ended with its last, by the host's clock whatever by is.
func (m *Mover) Times(p mem.Point, by devices.Clock) (devices.Times, bool) {
	if q := m.queueOf(p.Line); q != nil {
		return q.Times(p, by)
	}
	if p.Line != m.line || !m.opts.Profiling {
		return devices.Times{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
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
