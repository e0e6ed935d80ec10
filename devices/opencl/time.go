//go:build cgo

package opencl

import (
	"fmt"
	"time"

	"godwit/devices"
	"godwit/internal/nvlink"
	"godwit/mem"
)

// Hop is a copy of TimeHops between blocks that lie in windows of two devices.
type Hop struct {
	From, To devices.Loc
	Size     uint64 // bytes
	After    int    // the index of an earlier hop that it follows; -1 for none
}

// TimeHops gives CUDA copies all at once and waits for them: what the link can do without
// the rest of us. Nothing else is to be under way, and the devices are connected. It fails
// with mem.ErrInvalidValue where blocks lie in no windows, and as package nvlink does.
func TimeHops(hops []Hop) (time.Duration, error) {
	legs := make([]nvlink.Leg, len(hops))
	var e *nvlink.Engine
	for i, x := range hops {
		from, ok := x.From.Device.(*Device)
		to, also := x.To.Device.(*Device)
		if !ok || !also {
			return 0, fmt.Errorf("hop %d: its devices are not OpenCL's: %w", i, mem.ErrInvalidDevice)
		}
		l := nvlink.Leg{Size: x.Size, After: x.After}
		var err error
		if l.Src, l.SrcOff, err = from.windowed(&x.From, x.Size); err == nil {
			l.Dst, l.DstOff, err = to.windowed(&x.To, x.Size)
		}
		if err != nil || l.Src == nil || l.Dst == nil {
			return 0, fmt.Errorf("hop %d: its blocks lie in no windows: %w", i, mem.ErrInvalidValue)
		}
		e, _ = from.host.fabric.of(from)
		legs[i] = l
	}
	if e == nil {
		return 0, fmt.Errorf("no hops: %w", mem.ErrInvalidValue)
	}
	return e.Time(legs)
}
