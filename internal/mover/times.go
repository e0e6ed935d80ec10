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
// profiles and the times are still kept. A ring, or one that gives way, is queued by Move, submitted and
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

// keepTimes records the times of a point of the mover's own that ends now.
func (m *Mover) keepTimes(p mem.Point, queued, started uint64) {
	if !m.opts.Profiling {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times[p.Seq%keptTimes] = timed{p.Seq, devices.Times{Queued: queued, Submitted: started, Started: started, Ended: m.by.Now()}}
}
