//go:build cgo

package opencl

import (
	"fmt"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// readClock reads the device's clock: by a marker, which OpenCL notes the time of when it is enqueued. (No platform
// that this was tried with answers clGetDeviceAndHostTimer.) It waits for OpenCL; ok is false where that keeps no
// times.
func (d *Device) readClock() (r engine.Reading, ok bool) {
	cmd := ocl.Command{Queue: d.service, Op: ocl.Marker}
	d.host.do(func() {
		r.Before = devices.Now()
		st := cmd.Submit(nil, nil, nil, ocl.Tag{})
		r.After = devices.Now()
		if st != 0 {
			return
		}
		if cmd.Event.End() == 0 {
			r.Device = cmd.Event.Times()[0]
		}
		ocl.ReleaseEvents([]ocl.Event{cmd.Event})
	})
	return r, r.Device != 0
}

// Clock is the time now by the device's clock, devices.DeviceClock, and by the host's, in nanoseconds. It waits for
// the device. It fails with mem.ErrInvalidOperation where OpenCL keeps no times.
func (d *Device) Clock() (device, host uint64, err error) {
	if err := d.usable(); err != nil {
		return 0, 0, err
	}
	device, host, ok := d.clock.Now()
	if !ok {
		return 0, 0, fmt.Errorf("device %s keeps no times: %w", d.name, mem.ErrInvalidOperation)
	}
	return device, host, nil
}
