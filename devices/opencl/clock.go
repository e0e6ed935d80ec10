//go:build cgo

package opencl

import (
	"fmt"
	"sync"
	"time"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// The device's clock. OpenCL tells the times of its own commands, by a clock of the
// device's that nobody can read. What runs beside it, host calls, is timed by the
// host's clock, brought over to the device's: by a marker, which OpenCL notes the time
// of when it is enqueued, between two looks at the host's clock.

// clock is a device's. The two run apart by some microseconds a second.
type clock struct {
	mu  sync.Mutex
	off uint64    // protected by mu: nanoseconds from the host's clock to the device's, modulo 2^64
	at  time.Time // protected by mu: when that was found; zero before
}

// clockGoodFor is how long the distance of two clocks is believed.
const clockGoodFor = time.Second

var epoch = time.Now()

// hostNow is the host's clock, in nanoseconds.
func hostNow() uint64 { return uint64(time.Since(epoch)) }

// clockOff is the distance from hostNow to the device's clock, modulo 2^64. It may
// wait for OpenCL; ok is false where that keeps no times.
func (d *Device) clockOff() (off uint64, ok bool) {
	c := &d.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < clockGoodFor {
		return c.off, true
	}
	cmd := ocl.Command{Queue: d.service, Op: ocl.Marker}
	var before, after uint64
	var t [4]uint64
	d.host.do(func() {
		before = hostNow()
		st := cmd.Submit(nil, ocl.SetArgs{}, nil, nil, ocl.Tag{})
		after = hostNow()
		if st != 0 {
			return
		}
		if cmd.Event.End() == 0 {
			t = cmd.Event.Times()
		}
		ocl.ReleaseEvents([]ocl.Event{cmd.Event})
	})
	if t[0] == 0 {
		return 0, false
	}
	c.off, c.at = t[0]-before/2-after/2, time.Now()
	return c.off, true
}

// Clock is the time now by the device's clock, that of devices.Times, in nanoseconds.
// It may wait for the device. It fails with mem.ErrInvalidOperation where OpenCL keeps
// no times.
func (d *Device) Clock() (uint64, error) {
	if err := d.usable(); err != nil {
		return 0, err
	}
	off, ok := d.clockOff()
	if !ok {
		return 0, fmt.Errorf("device %s keeps no times: %w", d.name, mem.ErrInvalidOperation)
	}
	return hostNow() + off, nil
}

// onDevice are times of the host's clock by the device's.
func (d *Device) onDevice(t devices.Times) (devices.Times, bool) {
	off, ok := d.clockOff()
	return devices.Times{Queued: t.Queued + off, Submitted: t.Submitted + off, Started: t.Started + off, Ended: t.Ended + off}, ok
}
