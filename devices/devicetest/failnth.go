package devicetest

import (
	"fmt"
	"sync/atomic"

	"godwit/devices"
	"godwit/internal/history"
	"godwit/mem"
)

// ErrInjected is the error of a Submit that FailNth made fail.
var ErrInjected = fmt.Errorf("injected: %w", mem.ErrNoResources)

// Submits counts the commands submitted to the queues of devices that share
// it, and says which one fails. Safe for use from many goroutines.
type Submits struct {
	fail  atomic.Int64
	count atomic.Int64
}

// Fail makes the n-th Submit from now on fail, from 1; 0 makes none fail.
func (s *Submits) Fail(n int) {
	s.count.Store(0)
	s.fail.Store(int64(n))
}

// Count is the number of Submits since Fail.
func (s *Submits) Count() int { return int(s.count.Load()) }

// FailNth returns d with queues that refuse a Submit when s says so. Commands may name it, or d,
// as a device.
func FailNth(d devices.Device, s *Submits) devices.Device {
	return history.Wrap(d, func(q devices.Queue, _ devices.QueueOptions) devices.Queue {
		return &tapped{q, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
			if n := s.count.Add(1); n == s.fail.Load() {
				return mem.Point{}, fmt.Errorf("submit %d, a %v: %w", n, cmd.Op, ErrInjected)
			}
			return q.Submit(cmd, waits)
		}}
	})
}
