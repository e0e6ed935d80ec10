// Package cpu is a driver for the host's processors: memory of this process
// outside the Go heap, from the operating system or, where a size is given, a
// bufalloc region of that size; kernels are Go forms whose work-groups run in
// parallel.
//
// Each device is a memory of its own, though it could reach the others': the
// host and cpu devices copy between each other directly, as peers.
//
// Parameters of Config.Params: workers (goroutines, default the processors),
// strategy (of bufalloc, with a memory size), base-align (bytes), max-work-group
// (work-items), shares-host (bool), promises (bool: compare buffers before and after
// kernels with what launches declare of them; slow).
package cpu

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/internal/region"
	"godwit/devices/work"
	"godwit/internal/storage"
	"godwit/mem"
)

func init() { devices.Register("cpu", driver{}) }

type driver struct{}

// Open opens one device.
func (driver) Open(_ context.Context, cfg devices.Config) ([]devices.Device, error) {
	o := Options{Name: cfg.Name, Memory: cfg.Memory, LocalMemory: cfg.Local}
	if err := region.Params("cpu", cfg, &o); err != nil {
		return nil, err
	}
	return devices.One(New(o))
}

// Options describe a device; zero values are defaults. Parameters of Config.Params are named by tags.
type Options struct {
	Name         string            // "cpu"
	Memory       uint64            // bytes of a region of its own; 0 takes blocks from the system, without limit
	Strategy     bufalloc.Strategy `param:"strategy"` // of the region
	Plan         *bufalloc.Plan    // of a recorded run, which the region follows; nil is none
	LocalMemory  uint64            // bytes for each work-group; 256 KiB
	Workers      int               `param:"workers"`        // goroutines that execute at once; the number of processors
	BaseAlign    uint64            `param:"base-align"`     // bytes, a power of two; 128
	MaxWorkGroup uint64            `param:"max-work-group"` // work-items; 4096
	SharesHost   bool              `param:"shares-host"`    // say that host memory is as near; then SVM may be fine-grained
	Promises     bool              `param:"promises"`       // compare buffers before and after kernels with what launches declare of them; slow
	Pace         engine.Pace       // says when commands start and end, of devices in virtual time
}

// Device is an open cpu device.
type Device struct {
	engine.InPlace
	store    *region.Store // nil where blocks are the system's
	promises bool          // immutable: Options.Promises
}

var (
	_ devices.HostBacked = (*Device)(nil)
	_ devices.Viewer     = (*Device)(nil)
	_ devices.PageLocker = (*Device)(nil)
	_ engine.Executor    = (*Device)(nil)
)

// New opens a device. It fails with mem.ErrInvalidValue where BaseAlign is no
// power of two, and with mem.ErrNoHostMemory where the host has no such region.
func New(o Options) (*Device, error) {
	o.Name = cmp.Or(o.Name, "cpu")
	o.LocalMemory = cmp.Or(o.LocalMemory, 256<<10)
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.BaseAlign = cmp.Or(o.BaseAlign, 128)
	o.MaxWorkGroup = cmp.Or(o.MaxWorkGroup, 4096)
	if !mem.IsPow2(o.BaseAlign) {
		return nil, fmt.Errorf("device %s: base alignment %d: it must be a power of two: %w", o.Name, o.BaseAlign, mem.ErrInvalidValue)
	}
	info := devices.Info{
		Driver: "cpu", Platform: "Godwit", Name: o.Name, Vendor: "Godwit", Version: "1",
		Type: devices.CPU, ComputeUnits: o.Workers,
		GlobalMemory: o.Memory, LocalMemory: o.LocalMemory, BaseAlign: o.BaseAlign, MaxWorkGroup: o.MaxWorkGroup,
		MaxWorkItems: [3]uint64{o.MaxWorkGroup, o.MaxWorkGroup, o.MaxWorkGroup},
		SharesHost:   o.SharesHost, FP64: true,
		SVM: devices.SVMCaps{Coarse: true, Fine: o.SharesHost, Atomics: o.SharesHost},
	}
	d := &Device{promises: o.Promises}
	memory := storage.NewHostBlocks(o.Name, o.BaseAlign, 0)
	if o.Memory > 0 {
		var err error
		if d.store, err = region.New(o.Name, 0, o.Memory, true, bufalloc.Options{Strategy: o.Strategy, Plan: o.Plan}); err != nil {
			return nil, err
		}
		memory = storage.NewBlocks(o.Name, o.BaseAlign, d.store)
	}
	d.Init(info, &storage.Host{Blocks: memory}, d, engine.EngineOptions{Workers: o.Workers, Pace: o.Pace})
	return d, nil
}

// Close implements devices.Device.
func (d *Device) Close() error {
	if d.store == nil {
		return d.CloseAnd()
	}
	return d.CloseAnd(d.store.Close)
}

// Execute implements engine.Executor.
func (d *Device) Execute(cmd *devices.Command) error {
	if moved, err := d.Move(cmd); moved {
		return err
	}
	return d.launch(cmd)
}

// pinner is the device whose blocks kernels use in place: this one, or another
// cpu device or the host, where the two were declared to share one store.
func (d *Device) pinner(of devices.Device) devices.HostBacked {
	if h, ok := of.(devices.HostBacked); ok {
		return h
	}
	return d
}

// launch runs a kernel with its buffers kept in place, whoever frees them.
func (d *Device) launch(cmd *devices.Command) error {
	var array [16]work.Arg
	args := array[:0]
	defer func() {
		for i := range args {
			if a := &cmd.Args[i]; args[i].Kind == work.BufferArg && !args[i].Null {
				d.pinner(a.Device).Unpin(a.Block)
			}
		}
	}()
	for i := range cmd.Args {
		a := &cmd.Args[i]
		b := work.Arg{Kind: work.BufferArg, Size: a.Size, ID: uint64(i) + 1, Promise: a.Promise}
		switch {
		case a.Kind == devices.ArgValue:
			b.Kind, b.Bytes, b.Size = work.ValueArg, a.Value, uint64(len(a.Value))
		case a.Kind == devices.ArgLocal:
			b.Kind = work.LocalArg
		case a.Block.IsZero():
			b.Null, b.Size = true, 0
		default:
			addr, err := d.pinner(a.Device).Pin(a.Block, a.Off, a.Size)
			if err != nil {
				return fmt.Errorf("kernel %s, argument %d: %w", cmd.Kernel.Name(), i, err)
			}
			b.Addr, b.Bytes = addr, storage.BytesAt(addr, a.Size)
			if a.Kind == devices.ArgSVM {
				b.Addr = a.Pointer
			}
		}
		args = append(args, b)
	}
	if d.promises {
		return d.launchGuarded(cmd, args)
	}
	return d.Launch(cmd, args, engine.KernelRun{})
}
