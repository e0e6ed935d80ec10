//go:build cgo

package opencl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/nvlink"
	"godwit/mem"
)

// Windows (devices.Windowed): memory of CUDA's that is made an OpenCL buffer, so that
// package nvlink copies between two GPUs what OpenCL computes with. The driver carves blocks
// out of slabs; from a device's first context with a second GPU on, slabs are windows where
// they can be. What is copied between two windows is a hop (hop.go).
//
// A platform has one engine. Its library is opened when a context is opened with two
// GPUs, its CUDA contexts when bytes first move between them (Connect).

// fabric is a host's engine. It has its own lock.
type fabric struct {
	mu     sync.Mutex
	tried  bool           // protected by mu
	engine *nvlink.Engine // protected by mu; set once
	err    error          // protected by mu: why there is none
	gpus   []ocl.DeviceID // protected by mu: by the engine's index
}

// uuidOf is what CUDA knows a device by, where memory can be imported for it.
func uuidOf(d ocl.DeviceID) (u nvlink.UUID, err error) {
	types := d.Info(ocl.ImportTypes)
	can := false
	for ; len(types) >= 4; types = types[4:] {
		can = can || binary.NativeEndian.Uint32(types) == ocl.OpaqueFD
	}
	if !can {
		return u, fmt.Errorf("OpenCL imports no memory by descriptor (cl_khr_external_memory_opaque_fd): %w", mem.ErrInvalidOperation)
	}
	if b := d.Info(ocl.DeviceUUID); copy(u[:], b) != len(u) {
		return u, fmt.Errorf("OpenCL does not say the device's UUID (cl_khr_device_uuid): %w", mem.ErrInvalidOperation)
	}
	return u, nil
}

// open opens the engine for all devices of the platform that it can have.
func (f *fabric) open(ctx context.Context, h *host) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.tried {
		f.engine, f.gpus, f.err = openEngine(ctx, h.devices, h.quirks.untried)
		f.tried = ctx.Err() == nil
	}
	return f.err
}

// openEngine opens an engine for those of a platform's devices that it can have.
func openEngine(ctx context.Context, of []ocl.Device, untried bool) (e *nvlink.Engine, gpus []ocl.DeviceID, err error) {
	o := nvlink.Options{Library: cudaByEnv(), OnThread: ocl.Watches()}
	version := ""
	for _, d := range of {
		u, whyNot := uuidOf(d.ID)
		if whyNot != nil || slices.Contains(o.GPUs, u) {
			err = whyNot
			continue
		}
		o.GPUs, gpus, version = append(o.GPUs, u), append(gpus, d.ID), d.ID.Text(ocl.DriverVersion)
	}
	switch {
	case len(gpus) >= 2:
		if err = nvlink.Judge(version); err == nil || untried {
			e, err = nvlink.Open(ctx, o) // without those that CUDA_VISIBLE_DEVICES hides from CUDA alone
		}
	case err == nil:
		err = fmt.Errorf("the platform has one GPU: %w", mem.ErrInvalidOperation)
	}
	return e, gpus, err
}

// of is the engine, if there is one, and the index of a device.
func (f *fabric) of(d *Device) (e *nvlink.Engine, gpu int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.engine, slices.Index(f.gpus, d.id)
}

// close ends the engine. No window is left.
func (f *fabric) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.engine != nil {
		_ = f.engine.Close() // windows that are left would be named; there are none
	}
}

// link finds the engine between d and another device, which open has opened where it is not nil, and their indices.
func (d *Device) link(other devices.Device, open func(*fabric) error) (e *nvlink.Engine, own, its int, err error) {
	h, f := d.host, &d.host.fabric
	o, ok := other.(*Device)
	switch {
	case !ok || o.host != h || o.id == d.id:
		err = fmt.Errorf("no link to %s: %w", other.Info().Name, mem.ErrInvalidOperation)
	case !h.quirks.windows:
		err = fmt.Errorf("%s: %w", noWindows, mem.ErrInvalidOperation)
	case !d.store.carve.Load() || !o.store.carve.Load():
		err = fmt.Errorf("windows take blocks that are carved (carve=on): %w", mem.ErrInvalidOperation)
	default:
		if err = errors.Join(d.usable(), o.usable()); err == nil && open != nil {
			err = open(f)
		}
	}
	if err == nil {
		e, own = f.of(d)
		_, its = f.of(o)
		switch {
		case e == nil:
			err = fmt.Errorf("no windows yet: %w", mem.ErrInvalidOperation)
		case own < 0 || its < 0:
			_, one := uuidOf(d.id)
			_, two := uuidOf(o.id)
			err = fmt.Errorf("CUDA does not know it, or %s: %w", o.name, errors.Join(one, two, mem.ErrInvalidOperation))
		}
	}
	return e, own, its, err
}

// of says that err is about the device.
func (d *Device) of(err error) error {
	if err != nil {
		err = fmt.Errorf("device %s: %w", d.name, err)
	}
	return err
}

// join has blocks of d and another device made in windows, where there is a link.
func (d *Device) join(ctx context.Context, other devices.Device) error {
	e, own, its, err := d.link(other, func(f *fabric) error { return f.open(ctx, d.host) })
	if err == nil {
		err = e.Joined(own, its)
	}
	if err == nil {
		d.store.useWindows(e, own)
		other.(*Device).store.useWindows(e, its)
	}
	return err
}

// Windows implements devices.Windowed.
func (d *Device) Windows(ctx context.Context, other devices.Device) error {
	return d.of(d.join(ctx, other))
}

// InWindow implements devices.Windowed.
func (d *Device) InWindow(b mem.Block) bool {
	w, _, err := d.store.window(b.Addr)
	return err == nil && w != nil
}

// Connect implements devices.Windowed.
func (d *Device) Connect(ctx context.Context, other devices.Device) error {
	e, own, its, err := d.link(other, nil)
	if err == nil {
		err = e.Connect(ctx, own, its)
	}
	return d.of(err)
}

// Connected implements devices.Windowed.
func (d *Device) Connected(other devices.Device) error {
	e, own, its, err := d.link(other, nil)
	if err == nil {
		err = e.Connected(its, own)
	}
	return d.of(err)
}

// useWindows has slabs made in windows from now on.
func (s *store) useWindows(e *nvlink.Engine, gpu int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine, s.gpu, s.slabSize = e, gpu, min(s.slabSize, mostInWindow)
}

// windowed reports whether a slab for size bytes is a window. mu is held.
func (s *store) windowed(size uint64) bool {
	return s.engine != nil && padded(size, true) <= mostInWindow && s.engine.Err() == nil
}

// inSlab is the size of a slab for size bytes. mu is held.
func (s *store) inSlab(size uint64) uint64 {
	n := padded(size, true)
	if s.windowed(size) {
		n, _ = mem.AlignUp(n, s.engine.Granularity()) // far from the end of the numbers
	}
	return n
}

// createWindow makes a cl_mem of at least size bytes in a window; nil where there is no room. What fails for
// another reason ends the engine. mu is held.
func (s *store) createWindow(size uint64) (m ocl.Mem, w *nvlink.Window) {
	n := s.inSlab(size)
	if !s.within(n) {
		return 0, nil
	}
	w, err := s.engine.NewWindow(s.gpu, n)
	if err == nil {
		if m, err = importWindow(w, s.dev); err != nil {
			w.Release()
			s.ended = time.Now()
		}
	}
	if err != nil {
		if !slices.ContainsFunc([]error{mem.ErrNoMemory, mem.ErrNoHostMemory, mem.ErrNoResources}, func(e error) bool { return errors.Is(err, e) }) {
			s.engine.Lose(err)
		}
		return 0, nil
	}
	s.reserved += w.Size()
	return m, w
}

// importWindow makes a cl_mem of a window for the device in whose memory it lies.
func importWindow(w *nvlink.Window, by *Device) (ocl.Mem, error) {
	fd, err := w.Export()
	if err != nil {
		return 0, err
	}
	m, st := by.host.context.Import(by.id, fd, w.Size())
	if st != 0 {
		_ = syscall.Close(fd)
	} else if st = m.Touch(by.service, w.Size()-touchPad); st != 0 {
		ocl.ReleaseMems(m)
	}
	if by.sees(st) != 0 {
		return 0, statusError(st, "device %s: import of a window of %d bytes", by.name, w.Size())
	}
	return m, nil
}

// window is the window in which a block at addr lies, nil where it lies in none, and
// where.
func (s *store) window(addr uint64) (*nvlink.Window, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, at, err := s.at(addr)
	if err != nil || o.slab == nil {
		return nil, 0, err
	}
	return o.slab.window, o.off + at, nil
}
