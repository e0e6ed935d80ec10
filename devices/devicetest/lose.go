package devicetest

import (
	"fmt"
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
)

// Losable wraps devices, of which lose has the i-th be lost: from then on no queue, of any of them, takes a command that
// has to do with it. Commands that were accepted end. Lose is called once, by anybody.
func Losable(devs []devices.Device) (wrapped []devices.Device, lose func(i int)) {
	var gone atomic.Pointer[devices.Device]
	for _, d := range devs {
		wrapped = append(wrapped, &losable{d, &gone})
	}
	return wrapped, func(i int) { gone.Store(&devs[i]) }
}

type losable struct {
	devices.Device
	gone *atomic.Pointer[devices.Device]
}

// Unwrap is the device as it was.
func (d *losable) Unwrap() devices.Device { return d.Device }

// NewQueue implements devices.Device.
func (d *losable) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return Tap(d.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if g := d.gone.Load(); g != nil && (*g == d.Device || cmd.Dst.Device == *g || cmd.Src.Device == *g) {
			return mem.Point{}, fmt.Errorf("device %s has gone: %w", (*g).Info().Name, mem.ErrDeviceLost)
		}
		return q.Submit(cmd, waits)
	})
}
