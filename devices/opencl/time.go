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
}

// TimeHops gives CUDA copies all at once and waits for them: what the link can do without
// the rest of us. Nothing else is to be under way, and the devices are connected. It fails
// with mem.ErrInvalidValue where blocks lie in no windows, and as package nvlink does.
func TimeHops(hops []Hop) (time.Duration, error) {
	copies := make([]nvlink.Copy, len(hops))
	var e *nvlink.Engine
	for i, x := range hops {
		from, ok := x.From.Device.(*Device)
		to, also := x.To.Device.(*Device)
		if !ok || !also {
			return 0, fmt.Errorf("hop %d: its devices are not OpenCL's: %w", i, mem.ErrInvalidDevice)
		}
		var err error
		if copies[i], err = from.copyTo(to, &x.From, &x.To, x.Size); err != nil {
			return 0, fmt.Errorf("hop %d: %w", i, err)
		}
		e, _ = from.host.fabric.of(from)
	}
	if e == nil {
		return 0, fmt.Errorf("no hops: %w", mem.ErrInvalidValue)
	}
	return e.Time(copies)
}
