package devicetest

import (
	"slices"
	"sync"

	"godwit/devices"
	"godwit/mem"
)

// Hold is a device that can be held: what its queues are given meanwhile is accepted, and
// does not start until the device is let go. So whoever waits for the device waits for
// ever, on any machine and under any load. It has none of the
// inner device's optional interfaces, and runs no kernels. Safe for concurrent use.
type Hold struct {
	devices.Device
	line *mem.Timeline
	mu   sync.Mutex
	on   mem.Point // zero while it is not held; protected by mu
	kept []mem.Point
}

// NewHold returns d, not held.
func NewHold(d devices.Device) *Hold {
	return &Hold{Device: d, line: mem.NewTimeline("held", true, nil)}
}

// Hold has no command start that is submitted from now on.
func (h *Hold) Hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.on.IsZero() {
		h.on, h.kept = h.line.Next(), nil
	}
}

// Release lets go what was held, and returns how much of that there was.
func (h *Hold) Release() int {
	h.mu.Lock()
	on, n := h.on, len(h.kept)
	h.on = mem.Point{}
	h.mu.Unlock()
	if !on.IsZero() {
		h.line.End(on, nil)
	}
	return n
}

// Ended is how many commands have ended of those that were held: none.
func (h *Hold) Ended() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.kept {
		if p.Reached() {
			n++
		}
	}
	return n
}

// Unwrap is the device whose commands are held.
func (h *Hold) Unwrap() devices.Device { return h.Device }

// NewQueue implements devices.Device.
func (h *Hold) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return Tap(h.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.on.IsZero() {
			return q.Submit(cmd, waits)
		}
		p, err := q.Submit(cmd, append(slices.Clone(waits), mem.Wait{Point: h.on}))
		if err == nil {
			h.kept = append(h.kept, p)
		}
		return p, err
	})
}
