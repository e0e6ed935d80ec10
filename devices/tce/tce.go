// Package tce is a driver for a simulated accelerator in the manner of
// transport-triggered processors: a global and a local address space of a fixed
// size each, placed by bufalloc regions, and one core.
//
// Kernels are Go forms that get integer addresses. They reach memory only by
// loads and stores that are checked: out of bounds, after a free, misaligned or
// where there is no memory, the launch fails with a work.Fault that names
// address, kernel, argument and work-item. Local memory is taken from its
// region for each launch and freed when it ends; where it runs out the launch
// fails with mem.ErrNoResources. Work-groups run one after another, launches
// too; copies run beside them.
//
// Shared virtual memory has addresses that the device's own memory has not:
// launches translate them, so that a pointer in memory is the same number here
// and on the host.
//
// The device is nobody's peer: bytes come and go through the host, but for blocks in
// windows, which tce devices copy between each other (devices.Windowed). With a DMA
// word, its copies go in such words, and ends that are none byte by byte (see
// Transfers): links to it want aligned copies.
//
// Parameters of Config.Params: strategy (of bufalloc, both regions), base-align
// (bytes), dma-word (bytes), windows (bytes of the smallest block that lies in one),
// max-work-group (work-items), global-base and local-base (addresses).
package tce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/internal/region"
	"godwit/devices/work"
	"godwit/internal/storage"
	"godwit/mem"
)

func init() { devices.Register("tce", driver{}) }

type driver struct{}

// Open opens one device.
func (driver) Open(_ context.Context, cfg devices.Config) ([]devices.Device, error) {
	o := Options{Name: cfg.Name, Memory: cfg.Memory, LocalMemory: cfg.Local}
	if err := region.Params("tce", cfg, &o); err != nil {
		return nil, err
	}
	return devices.One(New(o))
}

// Options describe a device; zero values are defaults. Parameters of Config.Params are named by tags.
type Options struct {
	Name         string            // "tce"
	Memory       uint64            // bytes of global memory; 256 MiB
	LocalMemory  uint64            // bytes of local memory; 64 KiB
	Strategy     bufalloc.Strategy `param:"strategy"`       // of both regions
	BaseAlign    uint64            `param:"base-align"`     // bytes, a power of two; 128
	DMAWord      uint64            `param:"dma-word"`       // bytes, a power of two up to BaseAlign; 1
	Windows      uint64            `param:"windows"`        // bytes of the smallest block in a window; 0 has none
	MaxWorkGroup uint64            `param:"max-work-group"` // work-items; 1024
	GlobalBase   uint64            `param:"global-base"`    // address; 0x10000000
	LocalBase    uint64            `param:"local-base"`     // address; 0x1000
}

// Device is an open tce device.
type Device struct {
	engine.Device
	engine.WindowSet
	globals       *storage.Blocks
	locals        *storage.Blocks
	global, local *region.Store
	copier        *engine.Copier
	dma           dma
	spaces        sync.Pool // of *space, for launches
}

var (
	_ devices.Device  = (*Device)(nil)
	_ engine.Executor = (*Device)(nil)
	_ work.Space      = (*Device)(nil)

	_ devices.Windowed = (*Device)(nil)
)

// New opens a device. It fails with mem.ErrInvalidValue where BaseAlign or
// DMAWord is no power of two, or the address spaces overlap, and with mem.ErrNoHostMemory where
// the host has no such memory.
func New(o Options) (*Device, error) {
	o.Name = cmp.Or(o.Name, "tce")
	o.Memory, o.LocalMemory = cmp.Or(o.Memory, 256<<20), cmp.Or(o.LocalMemory, 64<<10)
	o.BaseAlign, o.DMAWord = cmp.Or(o.BaseAlign, 128), cmp.Or(o.DMAWord, 1)
	o.MaxWorkGroup = cmp.Or(o.MaxWorkGroup, 1024)
	o.GlobalBase, o.LocalBase = cmp.Or(o.GlobalBase, 0x10000000), cmp.Or(o.LocalBase, 0x1000)
	if !mem.IsPow2(o.BaseAlign) {
		return nil, fmt.Errorf("device %s: base alignment %d: it must be a power of two: %w", o.Name, o.BaseAlign, mem.ErrInvalidValue)
	}
	if !mem.IsPow2(o.DMAWord) || o.DMAWord > o.BaseAlign {
		return nil, fmt.Errorf("device %s: DMA word of %d bytes: it must be a power of two, at most the base alignment of %d: %w", o.Name, o.DMAWord, o.BaseAlign, mem.ErrInvalidValue)
	}
	global, err := mem.Span(o.GlobalBase, o.Memory)
	if err != nil {
		return nil, fmt.Errorf("device %s: global memory: %w", o.Name, err)
	}
	local, err := mem.Span(o.LocalBase, o.LocalMemory)
	if err != nil {
		return nil, fmt.Errorf("device %s: local memory: %w", o.Name, err)
	}
	if global.Overlaps(local) {
		return nil, fmt.Errorf("device %s: global memory %v and local memory %v overlap: %w", o.Name, global, local, mem.ErrInvalidValue)
	}
	info := devices.Info{
		Driver: "tce", Platform: "Godwit", Name: o.Name, Vendor: "Godwit", Version: "1",
		Type: devices.Accelerator, ComputeUnits: 1,
		GlobalMemory: o.Memory, LocalMemory: o.LocalMemory, MaxAlloc: o.Memory, BaseAlign: o.BaseAlign, MaxWorkGroup: o.MaxWorkGroup,
		MaxWorkItems: [3]uint64{o.MaxWorkGroup, o.MaxWorkGroup, o.MaxWorkGroup}, FP64: true, SVM: devices.SVMCaps{Coarse: true},
		CopyAlign: o.DMAWord,
		Spaces: []devices.AddressSpace{
			{Name: "global", Base: o.GlobalBase, Size: o.Memory}, {Name: "local", Base: o.LocalBase, Size: o.LocalMemory},
		},
	}
	d := new(Device)
	d.spaces.New = func() any { return &space{Device: d} }
	if d.global, err = region.New(o.Name, o.GlobalBase, o.Memory, false, bufalloc.Options{Strategy: o.Strategy}); err != nil {
		return nil, err
	}
	if d.local, err = region.New(o.Name+" local", o.LocalBase, o.LocalMemory, false, bufalloc.Options{Strategy: o.Strategy}); err != nil {
		return nil, errors.Join(err, d.global.Close())
	}
	d.globals = storage.NewBlocks(o.Name, o.BaseAlign, d.global)
	d.locals = storage.NewBlocks(o.Name+" local", localAlign, d.local)
	d.Init(info, d.globals, d, engine.EngineOptions{Workers: 2, Serial: true})
	d.InitWindows(d, d.globals, d.global.Shift(), o.Windows)
	d.copier = d.NewCopier(d, d.global.Shift())
	d.dma.word = o.DMAWord
	return d, nil
}

// localAlign is the alignment of local arguments: a word of the core. What
// needs more asks for more.
const localAlign = 8

// LocalMemory is where launches take local memory from.
func (d *Device) LocalMemory() mem.Resource { return d.locals }

// ReserveSVM implements devices.Device.
func (d *Device) ReserveSVM(r mem.Range) error {
	info := d.Info()
	for _, s := range info.Spaces {
		if own := (mem.Range{Start: s.Base, End: s.Base + s.Size}); own.Overlaps(r) {
			return fmt.Errorf("device %s: shared virtual memory at %v: its %s memory is at %v: %w", info.Name, r, s.Name, own, mem.ErrInvalidOperation)
		}
	}
	return nil
}

// Close implements devices.Device.
func (d *Device) Close() error {
	return d.CloseAnd(d.CloseWindows, d.locals.Close, d.global.Close, d.local.Close)
}

// Epoch implements work.Space.
func (d *Device) Epoch() uint64 { return d.global.Epoch() + d.local.Epoch() }

// Find implements work.Space.
func (d *Device) Find(addr uint64) (work.Chunk, bool) {
	switch {
	case d.global.Contains(addr):
		return d.global.Find(addr)
	case d.local.Contains(addr):
		return d.local.Find(addr)
	}
	return work.Chunk{}, false
}
