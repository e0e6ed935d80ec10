//go:build cgo

package opencl

import (
	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Times of commands (QueueOptions.Profiling).
//
// OpenCL keeps them with the event, and to read them takes four calls, which on some platforms
// wait for whoever enqueues. So a command's event is kept beyond its end, and read when somebody
// asks; who knows that nobody will says so (Forget). A queue keeps so many that it has not read
// (mostUnread), and reads an older one for each that comes; and all when it closes.

// timed are the times of a command that has ended well.
type timed struct {
	seq   uint64
	t     devices.Times
	began *Device   // whose clock t is by but for its end, nil is the host's
	ended *Device   // and whose that is by
	event ocl.Event // not zero: t is still to be read from it
	owned bool      // event is nobody else's: its record was recycled
	held  uint64    // nanoseconds for which OpenCL was not given the command; of event
}

// Times are kept for so many commands at first, and for as many as there have been
// up to a bound: programs ask for them when all is done.
const (
	keptTimes  = 4096
	mostTimes  = 1 << 18
	mostUnread = 4096
)

// slot is where the times of a command are, if they are kept. host.mu is held.
func (q *Queue) slot(seq uint64) *timed { return &q.times[seq%uint64(len(q.times))] }

// Times implements devices.Queue.
func (q *Queue) Times(p mem.Point, by devices.Clock) (devices.Times, bool) {
	if p.Line != q.line || !q.timing {
		return devices.Times{}, false
	}
	h := q.dev.host
	h.mu.Lock()
	at := q.slot(p.Seq)
	if at.seq == p.Seq {
		h.readLocked(at)
	}
	k := *at
	h.mu.Unlock()
	if k.seq != p.Seq {
		return devices.Times{}, false
	}
	return k.by(by, q.dev)
}

// by are the times by a clock, the host's or that of their queue's device.
func (k *timed) by(clock devices.Clock, d *Device) (t devices.Times, ok bool) {
	if k.began == k.ended && (clock == devices.AnyClock || (k.ended == d) == (clock == devices.DeviceClock)) {
		return k.t, true
	}
	t, ok = k.t, true
	if k.ended != nil {
		t, ok = k.ended.clock.On(k.t, devices.DeviceClock, clock != devices.AnyClock)
	}
	if k.began != k.ended && ok { // of a ring, which began on the source
		end := t
		t, ok = k.began.clock.On(k.t, devices.DeviceClock, clock != devices.AnyClock)
		t.Ended, t.Error = end.Ended, max(t.Error, end.Error)
	}
	if clock == devices.DeviceClock && ok {
		return d.clock.On(t, devices.HostClock, true)
	}
	return t, ok
}

// Forget implements devices.Queue.
func (q *Queue) Forget(p mem.Point) {
	if p.Line != q.line || !q.timing {
		return
	}
	h := q.dev.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := q.flight.get(p.Seq); r != nil {
		r.forgotten = true
		return
	}
	if k := q.slot(p.Seq); k.seq == p.Seq {
		h.dropLocked(k)
		*k = timed{}
	}
}

// readLocked reads times from their event.
func (h *host) readLocked(k *timed) {
	if k.event == 0 {
		return
	}
	k.take(k.event.Times())
	h.dropLocked(k)
}

// take takes over what OpenCL says.
func (k *timed) take(t [4]uint64) {
	k.t = devices.Times{Queued: t[0] - min(t[0], k.held), Submitted: t[1], Started: t[2], Ended: t[3]}
}

// readAll reads all times of a queue that closes.
func (q *Queue) readAll() {
	h := q.dev.host
	for i := range q.times {
		h.mu.Lock()
		h.readLocked(&q.times[i])
		h.mu.Unlock()
	}
}

// dropLocked gives up a slot's event.
func (h *host) dropLocked(k *timed) {
	if k.event != 0 && k.owned {
		h.trash = append(h.trash, k.event)
	}
	k.event, k.owned = 0, false
}

// keepTimesLocked keeps the times of r, which has ended well.
func (q *Queue) keepTimesLocked(r *record) {
	k := timed{seq: r.point.Seq, event: r.event, began: q.dev, ended: q.dev}
	if r.times.Submitted != 0 { // it was held: OpenCL takes the end of that for its enqueue
		k.held = r.times.Submitted - r.times.Queued
	}
	if r.batch != nil {
		k.take(r.batch.times(r))
		k.began, k.event = r.batch.from.dev, 0
	}
	q.keepLocked(k)
	if old := k.seq - mostUnread; k.seq > mostUnread && q.slot(old).seq == old {
		q.dev.host.readLocked(q.slot(old))
	}
}

// keepHostTimesLocked keeps the times of r by the host's clock.
func (q *Queue) keepHostTimesLocked(r *record) {
	t := r.times
	if t.Ended == 0 { // there was nothing to do
		t.Submitted = devices.Now()
		t.Started, t.Ended = t.Submitted, t.Submitted
	}
	q.keepLocked(timed{seq: r.point.Seq, t: t})
}

// keepLocked keeps times, in a ring that grows while it may.
func (q *Queue) keepLocked(k timed) {
	for n := uint64(len(q.times)); k.seq >= n && n < mostTimes; n *= 2 {
		q.times = append(q.times, make([]timed, n)...)
	}
	at := q.slot(k.seq)
	q.dev.host.dropLocked(at)
	*at = k
}

// ownedLocked reports whether the event of r, which is recycled, is kept for its times.
func (q *Queue) ownedLocked(r *record) bool {
	if !q.timing || r.point.IsZero() {
		return false
	}
	k := q.slot(r.point.Seq)
	if k.seq != r.point.Seq || k.event != r.event {
		return false
	}
	k.owned = true
	return true
}
