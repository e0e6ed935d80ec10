//go:build cgo

package opencl

import (
	"time"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Handovers are when a copy between windows went from hand to hand, by the host's clock: what
// the time of a small copy is made of beside the copy.
type Handovers struct {
	Queued   time.Time // Submit had found its blocks
	Accepted time.Time // the engine of package nvlink had it
	Ready    time.Time // its thread has seen what the copy waits for ended
	Given    time.Time // and calls CUDA
	Called   time.Time // CUDA's calls have returned
	Seen     time.Time // the thread has seen the copy ended
	Told     time.Time // who waits, or else the goroutine for ends, has been told
	Ended    time.Time // the copy's point ends
}

// monotonicAt is hostNow's zero by CLOCK_MONOTONIC, which is its clock too.
var monotonicAt = func() (at int64) {
	least := int64(1) << 62
	for range 8 { // the best of some looks at both
		before := ocl.Monotonic()
		now := int64(hostNow())
		if after := ocl.Monotonic(); after-before < least {
			least, at = after-before, before+(after-before)/2-now
		}
	}
	return at
}()

// keepHandoversLocked keeps the times of a hop that has ended well: what OpenCL calls submitted is
// what it waits for seen ended.
func (q *Queue) keepHandoversLocked(r *record) {
	ended := hostNow()
	if !r.told { // there was nothing to copy
		q.keepLocked(r.point.Seq, devices.Times{Queued: r.times.Queued, Submitted: ended, Started: ended, Ended: ended}, true)
		return
	}
	at := r.tag.Stamps()
	host := func(stamp int64) uint64 { return uint64(stamp - monotonicAt) }
	day := func(t uint64) time.Time { return epoch.Add(time.Duration(t)) }
	q.hands, q.handsOf = Handovers{
		Queued: day(r.times.Queued), Accepted: day(host(at[0])), Ready: day(host(at[1])), Given: day(host(at[2])), Called: day(host(at[3])),
		Seen: day(host(at[4])), Told: day(r.hop.told), Ended: day(ended),
	}, r.point.Seq
	q.keepLocked(r.point.Seq, devices.Times{Queued: r.times.Queued, Submitted: host(at[1]), Started: host(at[2]), Ended: host(at[4])}, true)
}

// Handovers are those of p's copy, where that is the copy between windows that has ended last in this queue,
// and the queue keeps times.
func (q *Queue) Handovers(p mem.Point) (Handovers, bool) {
	q.dev.host.mu.Lock()
	defer q.dev.host.mu.Unlock()
	return q.hands, p.Line == q.line && p.Seq == q.handsOf && q.timing
}
