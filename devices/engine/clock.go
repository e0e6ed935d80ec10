package engine

import (
	"slices"
	"sync"

	"godwit/devices"
)

// A device's clock, on the host's axis.
//
// Assumptions: nobody can set a device's clock; it runs at a nearly constant rate, at most drift apart from the
// host's, and that rate changes by at most wander. It can be read only with a round trip, at some moment of which
// it showed the time that came back.
//
// What follows. A pair is a time of the device's clock and the middle of the round trip by the host's, and may be
// wrong by half of it. Between two pairs a time lies on the line through them; so a clock that is always too fast
// costs nothing, however far apart the pairs are. After the last pair it lies as far behind that as by the
// device's clock. Pairs ascend on both clocks, and so do the times that are made of them: what ended before
// something else began on a device has done so on the host's axis.
//
// The clock is read when somebody asks for a time beyond the last pair, never when a command is enqueued or ends.

const (
	drift  = 10_000     // a clock runs apart from the host's by at most one nanosecond in so many: 100 ppm
	wander = 100_000    // and from its own mean rate: 10 ppm
	apart  = 20_000_000 // nanoseconds between two readings, at least: in them drift costs 2 us
	tries  = 4          // round trips of a reading, of which the least counts
	most   = 256        // pairs that are kept
)

// Reading is what a device's clock showed between two looks at the host's, devices.Now.
type Reading struct{ Before, Device, After uint64 }

// Clock knows where the times of a device's own clock are on the host's axis. All methods are safe for use from
// many goroutines.
type Clock struct {
	mu    sync.Mutex
	read  func() (Reading, bool) // protected by mu
	pairs []pair                 // protected by mu: ascending on both axes
	tried pair                   // protected by mu: the last reading, also where it was no better than what was known
}

// pair is one moment on both axes, which err nanoseconds may lie between.
type pair struct {
	at  [2]uint64 // by axis
	err uint64
}

// The axes, as indexes of a pair.
const (
	onHost   = int(devices.HostClock)
	onDevice = int(devices.DeviceClock)
)

// NewClock returns the clock of a device, and reads it for the first time. read may wait for the device; ok is
// false where that cannot tell the time.
func NewClock(read func() (r Reading, ok bool)) *Clock {
	c := &Clock{read: read}
	c.Now()
	return c
}

// Now is a moment on both axes. ok is false where the device cannot tell the time.
func (c *Clock) Now() (device, host uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok = c.lookLocked()
	return c.tried.at[onDevice], c.tried.at[onHost], ok
}

// Close has the clock read no more, when it returns: times are told by what is known of it.
func (c *Clock) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = func() (Reading, bool) { return Reading{}, false }
}

// lookLocked reads the clock, and keeps the pair if it says more than the last one does by now.
func (c *Clock) lookLocked() bool {
	best := pair{err: ^uint64(0)}
	for range tries {
		r, ok := c.read()
		if !ok {
			return false
		}
		if half := (r.After - r.Before + 1) / 2; half < best.err {
			best = pair{[2]uint64{onHost: r.Before + half, onDevice: r.Device}, half}
		}
	}
	c.tried = best
	if n := len(c.pairs); n > 0 {
		last := c.pairs[n-1]
		passed := best.at[onHost] - last.at[onHost]
		if int64(passed) <= 0 || best.at[onDevice] <= last.at[onDevice] || best.err > last.err+passed/drift {
			return true
		}
	}
	if len(c.pairs) == most { // every other one goes, but for the first and the last
		i := 0
		c.pairs = slices.DeleteFunc(c.pairs, func(pair) bool { i++; return i%2 == 0 && i != most })
	}
	c.pairs = append(c.pairs, best)
	return true
}

// On brings t, which is by the clock from, to the other axis, and adds to Error what that may be wrong by. Where it may
// read, it reads the clock for times that nothing is known of yet. ok is false where the device cannot tell the time.
func (c *Clock) On(t devices.Times, from devices.Clock, read bool) (out devices.Times, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if read && (len(c.pairs) == 0 || int64(t.Ended-c.tried.at[from]) > apart) {
		c.lookLocked()
	}
	if len(c.pairs) == 0 {
		return out, false
	}
	for _, x := range []struct {
		to *uint64
		at uint64
	}{{&out.Queued, t.Queued}, {&out.Submitted, t.Submitted}, {&out.Started, t.Started}, {&out.Ended, t.Ended}} {
		var err uint64
		*x.to, err = c.otherLocked(x.at, int(from))
		out.Error = max(out.Error, t.Error+err)
	}
	return out, true
}

// otherLocked is the time x of one axis on the other one, and by how much that may be wrong.
func (c *Clock) otherLocked(x uint64, from int) (y, err uint64) {
	to := 1 - from
	i, _ := slices.BinarySearchFunc(c.pairs, x, func(p pair, x uint64) int { return int(min(1, max(-1, int64(p.at[from]-x)))) })
	if i == 0 {
		p := &c.pairs[0]
		return p.at[to] - (p.at[from] - x), p.err + (p.at[from]-x)/drift
	}
	a, passed := &c.pairs[i-1], x-c.pairs[i-1].at[from]
	if i == len(c.pairs) {
		return a.at[to] + passed, a.err + passed/drift
	}
	b := &c.pairs[i]
	length := b.at[from] - a.at[from]
	faster := float64(int64(b.at[to]-a.at[to]-length)) / float64(length)
	return a.at[to] + passed + uint64(int64(faster*float64(passed))), max(a.err, b.err) + min(passed, length-passed)/wander
}
