package devicetest

import (
	"godwit/devices"
	"godwit/internal/history"
	"godwit/mem"
)

// Tap makes a queue of d whose commands go through submit: it hands a command to q, as it is or
// changed, or another one in its place, or refuses it. The command that submit gets is a copy of
// its own. Where the submitted one names a wrapper around a device (see Unwrap), the copy names
// the device. Submit is called by whoever submits, several goroutines at once if they do.
func Tap(d devices.Device, o devices.QueueOptions,
	submit func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error)) (devices.Queue, error) {
	q, err := d.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return &tapped{q, submit}, nil
}

type tapped struct {
	devices.Queue
	submit func(devices.Queue, *devices.Command, []mem.Wait) (mem.Point, error)
}

// Submit implements devices.Queue.
func (q *tapped) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	c := *cmd
	c.Dst.Device, c.Src.Device = Unwrap(cmd.Dst.Device), Unwrap(cmd.Src.Device)
	return q.submit(q.Queue, &c, waits)
}

// Unwrap is the device that d wraps, which has a method Unwrap for it, or d itself.
func Unwrap(d devices.Device) devices.Device { return history.Unwrap(d) }
