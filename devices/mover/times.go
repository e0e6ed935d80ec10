package mover

import (
	"godwit/devices"
	"godwit/mem"
)

// keptTimes is how many of the latest staged transfers of a profiling transport
// have their times kept.
const keptTimes = 4096

type timed struct {
	seq uint64
	devices.Times
}

func (t *Transport) countDirect(q devices.Queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Direct++
	if t.queues != nil {
		if p, ok := q.(devices.Profiler); ok {
			t.queues[q.Timeline()] = p
		}
	}
}

// Times returns the times of a reached point that Copy gave, where the
// transport profiles and the times are still kept. A staged transfer is queued
// by Copy, submitted and started with its first leg, and ended with its last. The
// clock is that of simulated devices, or for a copy of one leg the device's.
func (t *Transport) Times(p mem.Point) (devices.Times, bool) {
	t.mu.Lock()
	if p.Line != t.line {
		q := t.queues[p.Line]
		t.mu.Unlock()
		if q == nil {
			return devices.Times{}, false
		}
		return q.Times(p)
	}
	defer t.mu.Unlock()
	if !t.opts.Profiling {
		return devices.Times{}, false
	}
	k := t.times[p.Seq%keptTimes]
	return k.Times, k.seq == p.Seq
}

// keepTimes records the times of a destination that lands.
func (t *Transport) keepTimes(a *arrival) {
	if !t.opts.Profiling {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x := a.x
	t.times[a.point.Seq%keptTimes] = timed{a.point.Seq, devices.Times{Queued: x.queued, Submitted: x.started, Started: x.started, Ended: devices.Now()}}
}
