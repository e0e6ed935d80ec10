package devicetest

import (
	"context"
	"fmt"
	"sync/atomic"

	"godwit/devices"
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

// FailNth returns d with queues that refuse a Submit when s says so. It is a
// Viewer and host-backed where d is, and Windowed where d is that alone. Commands may name it, or d,
// as a device.
func FailNth(d devices.Device, s *Submits) devices.Device {
	f := faulty{d, s}
	v, views := d.(devices.Viewer)
	h, backed := d.(devices.HostBacked)
	w, windows := d.(devices.Windowed)
	switch {
	case backed && views:
		return &faultyHost{f, v, backing{h}}
	case views:
		return &faultyViewer{f, v}
	case windows:
		return &faultyWindowed{f, window{w}}
	}
	return &f
}

type faulty struct {
	devices.Device
	submits *Submits
}

// Link implements devices.Device.
func (f *faulty) Link(from, to devices.Device) mem.Link {
	return f.Device.Link(Unwrap(from), Unwrap(to))
}

type (
	faultyViewer struct {
		faulty
		devices.Viewer
	}
	faultyWindowed struct {
		faulty
		window
	}
	faultyHost struct {
		faulty
		devices.Viewer
		backing
	}
)

// backing is what is HostBacked's alone.
type backing struct{ h devices.HostBacked }

// Pin implements devices.HostBacked.
func (b backing) Pin(of mem.Block, off, size uint64) (uint64, error) { return b.h.Pin(of, off, size) }

// Unpin implements devices.HostBacked.
func (b backing) Unpin(of mem.Block) { b.h.Unpin(of) }

// window is a Windowed that knows wrapped devices.
type window struct{ w devices.Windowed }

// Windows implements devices.Windowed.
func (w window) Windows(ctx context.Context, other devices.Device) error {
	return w.w.Windows(ctx, Unwrap(other))
}

// InWindow implements devices.Windowed.
func (w window) InWindow(b mem.Block) bool { return w.w.InWindow(b) }

// Connect implements devices.Windowed.
func (w window) Connect(ctx context.Context, other devices.Device) error {
	return w.w.Connect(ctx, Unwrap(other))
}

// Connected implements devices.Windowed.
func (w window) Connected(other devices.Device) error { return w.w.Connected(Unwrap(other)) }

// Unwrap is the device that fails.
func (f *faulty) Unwrap() devices.Device { return f.Device }

// NewQueue implements devices.Device.
func (f *faulty) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := f.Device.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return &faultyQueue{Queue: q, submits: f.submits}, nil
}

type faultyQueue struct {
	devices.Queue
	submits *Submits
	cmd     devices.Command // Submit is called by one goroutine at a time
}

// Submit implements devices.Queue.
func (q *faultyQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	if n := q.submits.count.Add(1); n == q.submits.fail.Load() {
		return mem.Point{}, fmt.Errorf("submit %d, a %v: %w", n, cmd.Op, ErrInjected)
	}
	q.cmd = *cmd
	q.cmd.Dst.Device, q.cmd.Src.Device = Unwrap(cmd.Dst.Device), Unwrap(cmd.Src.Device)
	return q.Queue.Submit(&q.cmd, waits)
}
