//go:build cgo

package opencl

import (
	"fmt"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/nvlink"
	"godwit/mem"
)

// Hops: copies from a window into another device's window, by package nvlink.
//
// A hop is a record like any that OpenCL has, but that nothing can wait for it in OpenCL:
// what waits for a hop is held until that has ended. What the hop waits for in OpenCL are
// gates, which the engine's thread polls; the events are the record's edges, kept until
// the end. That comes into the sink, as if OpenCL had called back. Of a hop that has ended well all gates
// were open, so OpenCL is asked for what it waited for, whose notice may take longer (settle).
//
// OpenCL and CUDA are in order by this alone: a hop starts after the status of what it waits for
// was seen to be CL_COMPLETE, and what waits for the hop is enqueued after CUDA said that it had
// ended. No acquire or release of the memory is needed beside (docs/measured.md).
type hop struct {
	copy  nvlink.Copy
	gates []nvlink.Gate
}

// fillHop is a copy into a window of r's device out of one of another.
func (r *record) fillHop(cmd *devices.Command, from *Device) error {
	d := r.q.dev
	c, err := from.copyTo(d, &cmd.Src, &cmd.Dst, cmd.Size)
	if err == nil {
		err = d.Connected(from)
	}
	if err != nil {
		return fmt.Errorf("device %s: copy from device %s: %w", d.name, from.name, err)
	}
	if r.hop == nil {
		r.hop = new(hop)
	}
	r.hop.copy, r.hops = c, true
	return nil
}

// copyTo is a copy of n bytes between windows of d and of another device.
func (d *Device) copyTo(to *Device, src, dst *devices.Loc, n uint64) (c nvlink.Copy, err error) {
	c.Size = n
	if c.Src, c.SrcOff, err = d.windowed(src, n); err == nil {
		c.Dst, c.DstOff, err = to.windowed(dst, n)
	}
	if err == nil && (c.Src == nil || c.Dst == nil) {
		err = fmt.Errorf("both blocks have to lie in windows: %w", mem.ErrInvalidOperation)
	}
	return c, err
}

// windowed finds the window of a part of a block.
func (d *Device) windowed(l *devices.Loc, n uint64) (*nvlink.Window, uint64, error) {
	addr, err := d.memory.Address(l.Block, l.Off, n)
	if err != nil {
		return nil, 0, err
	}
	return d.store.window(addr)
}

// giveHop gives r to the engine, behind the events of its edges.
func (r *record) giveHop() error {
	x, h := r.hop, r.host
	e, _ := h.fabric.of(r.q.dev)
	x.gates = x.gates[:0]
	for _, ev := range r.handles {
		x.gates = append(x.gates, nvlink.Gate{Poll: ocl.PollEvent(), Arg: uintptr(ev)})
	}
	c := &x.copy
	c.Gates, c.ID = x.gates, uint64(r.index)
	c.Hook = nvlink.Hook{Func: ocl.HopEnded(), Arg: r.tag.Hop()}
	if r.q.timing {
		r.times.Submitted = devices.Now()
		r.times.Started = r.times.Submitted
	}
	h.sink.HopBegins(false)
	if err := e.Start(c); err != nil {
		h.sink.HopBegins(true)
		return fmt.Errorf("copy to device %s: %w", r.q.dev.name, err)
	}
	return nil
}

// hopError is why a hop failed.
func (r *record) hopError(st ocl.Status) error {
	if st == ocl.HopFailed {
		e, _ := r.host.fabric.of(r.q.dev)
		return fmt.Errorf("copy to device %s: %w", r.q.dev.name, e.Err())
	}
	return statusError(st, "copy to device %s", r.q.dev.name)
}

// drainSinkUnlocks goes on with what has ended, for a thread that waits for it: the goroutine that does it
// otherwise takes 8 to 50 us to wake.
func (h *host) drainSinkUnlocks() {
	var out [64]ocl.Done
	for n := len(out); n == len(out); {
		n = h.sink.Some(out[:])
		h.takenUnlocks(out[:n], mostTrash)
	}
}
