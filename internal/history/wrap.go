package history

import (
	"context"
	"errors"
	"strings"

	"godwit/devices"
	"godwit/mem"
)

// Wrap is d with other queues: what queue makes of its own. It has the optional interfaces that d
// has, as drivers combine them here, and tells d of other devices as they are unwrapped. Commands
// may name it as a device: queue unwraps those.
func Wrap(d devices.Device, queue func(devices.Queue, devices.QueueOptions) devices.Queue) devices.Device {
	return wrap(d, nil, queue)
}

// Unwrap is the device that d wraps, which has a method Unwrap for it, or d itself.
func Unwrap(d devices.Device) devices.Device {
	if w, ok := d.(interface{ Unwrap() devices.Device }); ok {
		return w.Unwrap()
	}
	return d
}

// wrap is Wrap of a device whose calls are struck, too, where f is not nil.
func wrap(d devices.Device, f *Faults, queue func(devices.Queue, devices.QueueOptions) devices.Queue) devices.Device {
	w := wrapped{d, f, queue}
	v, views := d.(devices.Viewer)
	h, backed := d.(devices.HostBacked)
	p, locks := d.(devices.PageLocker)
	x, windows := d.(devices.Windowed)
	switch {
	case views && backed:
		return &struct {
			wrapped
			viewer
			backing
		}{w, viewer{v, f}, backing{h}}
	case locks && windows:
		return &struct {
			wrapped
			locker
			window
		}{w, locker{p, f}, window{x}}
	case locks:
		return &struct {
			wrapped
			locker
		}{w, locker{p, f}}
	case windows:
		return &struct {
			wrapped
			window
		}{w, window{x}}
	}
	return &w
}

type wrapped struct {
	devices.Device
	f     *Faults
	queue func(devices.Queue, devices.QueueOptions) devices.Queue
}

func (w *wrapped) Unwrap() devices.Device { return w.Device }

func (w *wrapped) Link(from, to devices.Device) mem.Link {
	return w.Device.Link(Unwrap(from), Unwrap(to))
}

func (w *wrapped) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	if err := w.f.fails(callNewQueue); err != nil {
		if strings.Contains(o.Name, ".lanes.") { // for any command
			w.f.hitAny()
		}
		return nil, err
	}
	q, err := w.Device.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return w.queue(q, o), nil
}

func (w *wrapped) Build(ctx context.Context, p *devices.Program) (devices.Module, error) {
	if err := w.f.fails(callBuild); err != nil {
		return nil, err
	}
	m, err := w.Device.Build(ctx, p)
	if err != nil || w.f == nil {
		return m, err
	}
	return &faultyModule{m, w.f}, nil
}

func (w *wrapped) ReserveSVM(r mem.Range) error {
	if err := w.f.fails(callReserve); err != nil {
		return err
	}
	return w.Device.ReserveSVM(r)
}

// Close closes the device, and says that it failed.
func (w *wrapped) Close() error { return errors.Join(w.Device.Close(), w.f.fails(callCloseDevice)) }

type viewer struct {
	devices.Viewer
	f *Faults
}

func (v viewer) View(b mem.Block, off, size uint64) ([]byte, error) {
	if err := v.f.fails(callView); err != nil {
		v.f.hitAny()
		return nil, err
	}
	return v.Viewer.View(b, off, size)
}

// backing is what is HostBacked's alone.
type backing struct{ of devices.HostBacked }

func (b backing) Pin(of mem.Block, off, size uint64) (uint64, error) { return b.of.Pin(of, off, size) }
func (b backing) Unpin(of mem.Block)                                 { b.of.Unpin(of) }

type locker struct {
	devices.PageLocker
	f *Faults
}

func (l locker) PinnedMemory(node int) (devices.PinnedMemory, error) {
	if err := l.f.fails(callPin); err != nil {
		return nil, err
	}
	p, err := l.PageLocker.PinnedMemory(node)
	if err != nil || l.f == nil {
		return p, err
	}
	return &faultyPinned{p, l.f}, nil
}

// window is what is Windowed's alone.
type window struct{ of devices.Windowed }

func (w window) Windows(ctx context.Context, other devices.Device) error {
	return w.of.Windows(ctx, Unwrap(other))
}

func (w window) Connect(ctx context.Context, other devices.Device) error {
	return w.of.Connect(ctx, Unwrap(other))
}

func (w window) Connected(other devices.Device) error { return w.of.Connected(Unwrap(other)) }
func (w window) InWindow(b mem.Block) bool            { return w.of.InWindow(b) }
