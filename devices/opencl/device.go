//go:build cgo

package opencl

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/storage"
	"godwit/mem"
)

// errBusy: the device cannot be closed yet.
var errBusy = mem.Sentinel("device in use", mem.InvalidOperation)

// Device is an open OpenCL device. All methods are safe for use from many
// goroutines.
type Device struct {
	driver *driver
	host   *host
	found  Found
	name   string
	info   devices.Info
	id     ocl.DeviceID // of found.device
	memory *storage.Blocks
	store  *store

	service   ocl.Queue // touches fresh memory, maps pinned memory, tells the device's clock
	clock     *engine.Clock
	node      int // of the NUMA nodes
	pinned    *storage.PinnedNodes
	staging   staging
	carves    bool       // immutable: blocks may be carved
	direct    bool       // immutable: blocks are in this process's memory; see direct.go
	launching sync.Mutex // held to set arguments of its kernels, which are their state, and to launch them

	busy   atomic.Int32 // queues and modules not yet closed
	lost   atomic.Bool  // the device reported that it is gone
	closed atomic.Bool
}

var (
	_ devices.Device     = (*Device)(nil)
	_ devices.PageLocker = (*Device)(nil)
	_ devices.Claimed    = (*Device)(nil)

	_ devices.Windowed = (*Device)(nil)
)

func newDevice(dr *driver, h *host, f Found, opts options) (*Device, error) {
	d := &Device{driver: dr, host: h, found: f, name: cmp.Or(opts.name, fmt.Sprintf("opencl%d.%d", f.Platform, f.Index)), info: f.Info, id: f.device.ID}
	var err error
	if d.service, err = h.context.NewQueue(f.device, false, true); err != nil {
		return nil, fmt.Errorf("device %s: no command queue: %w", d.name, errors.Join(err, mem.ErrDeviceLost))
	}
	d.clock = engine.NewClock(d.readClock)
	if opts.memory != 0 {
		d.info.GlobalMemory = min(opts.memory, d.info.GlobalMemory)
		d.info.MaxAlloc = min(d.info.MaxAlloc, d.info.GlobalMemory)
	}
	d.info.SharesHost = !opts.bus.or(!d.info.SharesHost)
	d.carves = opts.carve.or(!d.info.SharesHost && h.worker == nil) // checkers look at whole cl_mems
	d.direct = (!d.carves || opts.memory != 0) && opts.direct.or(true) && d.isDirect()
	d.store = newStore(d, d.carves, opts.slab)
	d.memory = storage.NewBlocks(d.name, d.info.BaseAlign, d.store)
	d.node = nodeOf(d.id)
	d.pinned = storage.NewPinnedNodes(d.name, func(name string, node int) *storage.Pinned { return newPinned(d, name, node) })
	return d, nil
}

// Info implements devices.Device.
func (d *Device) Info() devices.Info { return d.info }

// Name is the device's name in errors and traces.
func (d *Device) Name() string { return d.name }

// Memory implements devices.Device.
func (d *Device) Memory() mem.Resource { return d.memory }

// Close implements devices.Device. It fails, and closes nothing, while queues
// or modules are open.
func (d *Device) Close() error { return d.driver.close(d) }

// shut is Close without the driver's part.
func (d *Device) shut() error {
	if n := d.busy.Load(); n > 0 {
		return fmt.Errorf("device %s: %d queues and modules are open: close them first: %w", d.name, n, errBusy)
	}
	if d.closed.Swap(true) {
		return fmt.Errorf("device %s: %w", d.name, mem.ErrClosed)
	}
	d.host.dropRoutes(d)
	err := errors.Join(d.memory.Close(), d.staging.close(), d.pinned.Close())
	d.store.close()
	d.clock.Close()        // times are asked for longer
	_ = d.service.Finish() // only errors of a lost device, which is going anyway
	d.service.Release()
	return err
}

// usable fails where the device is lost or closed.
func (d *Device) usable() error {
	switch {
	case d.lost.Load():
		return fmt.Errorf("device %s was lost: %w", d.name, mem.ErrDeviceLost)
	case d.closed.Load():
		return fmt.Errorf("device %s: %w", d.name, mem.ErrClosed)
	}
	return nil
}

// sees notes whether a status says that the device will not come back, and returns the status.
func (d *Device) sees(st int32) int32 {
	if st == int32(mem.DeviceNotAvailable) || st == kernelFault {
		d.lost.Store(true)
	}
	return st
}
