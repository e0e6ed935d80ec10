// Package null is a driver that runs the whole stack and moves nothing. Its
// memory is bookkeeping without bytes, its commands take no time, its kernels
// are looked up and never called.
//
// It has two uses: measuring what everything above a driver costs, and being
// the skeleton to clone. A new driver starts as a copy of this package, and
// replaces, in this order: the Store (where blocks are), Execute (what commands
// do), Info (what the limits are). See docs/drivers.md.
package null

import (
	"cmp"
	"context"
	"fmt"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/storage"
	"godwit/mem"
)

func init() { devices.Register("null", driver{}) }

type driver struct{}

// Open opens one device. It takes no parameters.
func (driver) Open(_ context.Context, cfg devices.Config) ([]devices.Device, error) {
	for key := range cfg.Params {
		return nil, fmt.Errorf("driver null: parameter %q: it takes none: %w", key, mem.ErrInvalidValue)
	}
	return []devices.Device{New(cfg)}, nil
}

// Device is an open null device.
type Device struct{ engine.Device }

var (
	_ devices.Device  = (*Device)(nil)
	_ engine.Executor = (*Device)(nil)
)

// New opens a device of its own; cfg.Memory 0 is unlimited.
func New(cfg devices.Config) *Device {
	cfg.Name, cfg.Local = cmp.Or(cfg.Name, "null"), cmp.Or(cfg.Local, 64<<10)
	info := devices.Info{
		Driver: "null", Platform: "Godwit", Name: cfg.Name, Vendor: "Godwit", Version: "1",
		Type: devices.Custom, ComputeUnits: 1,
		GlobalMemory: cfg.Memory, LocalMemory: cfg.Local, BaseAlign: 128,
		FP16: true, FP64: true, SVM: devices.SVMCaps{Coarse: true},
	}
	d := new(Device)
	d.Init(info, storage.NewBlocks(cfg.Name, 128, &store{capacity: cfg.Memory}), d, engine.EngineOptions{Instant: true, InstantLaunch: true})
	return d
}

// Link implements devices.Device: nothing is moved from anywhere.
func (d *Device) Link(_, _ devices.Device) mem.Link { return mem.DirectLink(0, 0) }

// ReserveSVM implements devices.Device: nothing is ever reached.
func (d *Device) ReserveSVM(mem.Range) error { return nil }

// Execute implements engine.Executor: every command has already succeeded.
func (d *Device) Execute(*devices.Command) error { return nil }

// store gives out addresses that were never used before, up to a number of
// bytes at a time.
type store struct {
	capacity uint64 // 0 is unlimited
	used     uint64
	next     uint64
}

// Take implements storage.Store.
func (s *store) Take(reqs []mem.Request, at []storage.Place) bool {
	return storage.TakeEach(reqs, at, s.take, s.Give)
}

func (s *store) take(size, align uint64) (storage.Place, bool) {
	addr, ok := mem.AlignUp(s.next, align)
	if !ok || size > ^uint64(0)-addr || (s.capacity != 0 && size > s.capacity-s.used) {
		return storage.Place{}, false
	}
	s.next, s.used = addr+size, s.used+size
	return storage.Place{Addr: addr}, true
}

// Give implements storage.Store.
func (s *store) Give(_ storage.Place, size uint64) { s.used -= size }

// Fits implements storage.Store.
func (s *store) Fits(reqs []mem.Request, gone []storage.Gone) bool {
	return s.capacity == 0 || storage.FitsIn(s.capacity-s.used, reqs, gone, func(size uint64) uint64 { return size })
}

// Limits implements storage.Store.
func (s *store) Limits() (capacity, largest uint64) {
	if s.capacity == 0 {
		return 0, 0
	}
	return s.capacity, s.capacity - s.used
}

// Trim implements storage.Store; nothing is cached.
func (s *store) Trim(uint64) uint64 { return 0 }

// Cached implements storage.Store.
func (s *store) Cached() uint64 { return 0 }

// Check implements storage.Store.
func (s *store) Check() error {
	if s.capacity != 0 && s.used > s.capacity {
		return fmt.Errorf("%d bytes used of %d", s.used, s.capacity)
	}
	return nil
}
