//go:build cgo

package opencl

import (
	"fmt"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

var _ devices.Shuttle = (*Queue)(nil)

// Start implements devices.Shuttle: a leg, and nothing that anybody is told by.
func (q *Queue) Start(dst, src devices.Loc, size uint64) (devices.Ticket, error) {
	h := q.dev.host
	if err := q.dev.usable(); err != nil {
		return 0, err
	}
	l := [1]ocl.Leg{{Queue: q.cl, Size: size, Data: -1}}
	var err error
	if l[0].Src, l[0].SrcOff, err = h.locate(&l[0], &src, size); err == nil {
		l[0].Dst, l[0].DstOff, err = h.locate(&l[0], &dst, size)
	}
	if err != nil {
		return 0, err
	}
	q.use.RLock()
	defer q.use.RUnlock()
	if q.gone {
		return 0, q.errClosed()
	}
	if st := q.dev.sees(ocl.Submit(l[:], nil, nil, true)); st != 0 {
		return 0, statusError(st, "copy of %s on device %s", mem.FormatBytes(size), q.dev.name)
	}
	return devices.Ticket(l[0].Event), nil
}

// Finish implements devices.Shuttle.
func (q *Queue) Finish(t devices.Ticket) error {
	e := ocl.Event(t)
	st := q.dev.sees(e.Wait())
	ocl.ReleaseEvents([]ocl.Event{e})
	if st < 0 {
		return fmt.Errorf("copy by way of staging: %w", statusError(st, "device %s", q.dev.name))
	}
	return nil
}
