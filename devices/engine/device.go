package engine

import (
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// Device is what simulated devices have in common. A driver's device embeds it, calls
// Init, and adds what its commands do (Execute) and what only it can do.
type Device struct {
	info   devices.Info
	memory *storage.Blocks
	engine *engine
}

// Init prepares a device whose blocks are of memory, before its first use. exec, mostly
// the device that embeds this one, executes commands; opts.Name is info's.
func (d *Device) Init(info devices.Info, memory *storage.Blocks, exec Executor, opts EngineOptions) {
	opts.Name = info.Name
	d.info, d.memory = info, memory
	d.engine = newEngine(exec, &d.info, opts)
}

// Info implements devices.Device.
func (d *Device) Info() devices.Info { return d.info }

// Memory implements devices.Device.
func (d *Device) Memory() mem.Resource { return d.memory }

// NewQueue implements devices.Device.
func (d *Device) NewQueue(o devices.QueueOptions) (devices.Queue, error) { return d.engine.newQueue(o) }

// Link implements devices.Device: it states nothing.
func (d *Device) Link(_, _ devices.Device) mem.Link { return mem.Link{} }

// ReserveSVM implements devices.Device: there is none.
func (d *Device) ReserveSVM(mem.Range) error { return devices.NoSVM(&d.info) }

// noKernels is why a device builds and launches nothing.
func (e *engine) noKernels() error {
	return fmt.Errorf("device %s runs no kernels: %w", e.opts.Name, mem.ErrInvalidOperation)
}

// Close implements devices.Device. It fails, and changes nothing, while queues are open.
func (d *Device) Close() error { return d.CloseAnd() }

// CloseAnd is Close for devices that have more to close than their memory.
func (d *Device) CloseAnd(more ...func() error) error {
	if err := d.engine.close(); err != nil {
		return err
	}
	err := d.memory.Close()
	for _, f := range more {
		err = errors.Join(err, f())
	}
	return err
}
