package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/lib/kernels"
	"godwit/lib/pool"
	"godwit/runtime"
)

// Feature is something that some devices have.
type Feature uint8

// Features of devices.
const (
	FP16       Feature = iota // half precision: cl_khr_fp16, or the cpu backend
	FP64                      // double precision: cl_khr_fp64, or Go kernels
	Integrated                // the host's memory is as near as its own
)

// String names the feature.
func (f Feature) String() string {
	switch f {
	case FP16:
		return "half precision (cl_khr_fp16)"
	case FP64:
		return "double precision (cl_khr_fp64)"
	case Integrated:
		return "memory shared with the host"
	}
	return fmt.Sprintf("Feature(%d)", uint8(f))
}

// session is a runtime context with its handles.
type session struct {
	manager *Manager
	context *runtime.Context
	handles []*Handle // immutable once opened

	oneStorage bool // immutable: devices use the host's memory in place

	mu       sync.Mutex
	programs map[*devices.Program]*runtime.Program // protected by mu
}

// close finishes queues, empties pools and closes the context.
func (s *session) close(ctx context.Context) error {
	var errs []error
	for _, h := range s.handles {
		if err := h.queue.Finish(ctx); err != nil && ctx.Err() == nil {
			errs = append(errs, fmt.Errorf("%s: %w", h, err))
		}
	}
	for _, h := range s.handles {
		_, err := h.pool.Clear()
		errs = append(errs, err, h.staged.close((*pool.PinnedPool).Close), h.pinned.close((*pool.PinnedPool).Close),
			h.bounded.close(func(p *pool.BoundedPool) error { _, err := p.Clear(); return err }),
			h.allocator.close((*pool.DeviceAllocator).Close))
	}
	return errors.Join(append(errs, s.context.Close(ctx))...)
}

// Handle is an open device with a queue and a pool. It is the one object to keep;
// everything else is reachable from it. All methods are safe for use from many
// goroutines. A Handle lives until its Manager is closed.
type Handle struct {
	session *session // immutable, as all fields but the lazy ones
	device  devices.Device
	info    devices.Info
	backend string
	name    string
	reason  string
	queue   *runtime.Queue
	pool    *pool.BufferPool
	async   bool
	pinning pool.Pinning // of uploads

	staged, pinned lazy[pool.PinnedPool] // what uploads are staged in: as pinning says, and page-locked in any case
	bounded        lazy[pool.BoundedPool]
	allocator      lazy[pool.DeviceAllocator]
}

func newHandle(s *session, c choice, cand Candidate, d devices.Device) (*Handle, error) {
	h := &Handle{
		session: s, device: d, info: d.Info(), backend: c.backend.Name(), name: cand.Name, reason: c.reason,
		async: os.Getenv("GODWIT_ASYNC_H2D") != "0", pinning: pool.PinAuto,
	}
	if os.Getenv("GODWIT_PINNED_H2D") == "0" {
		h.pinning = pool.PinNever
	}
	var err error
	if h.queue, err = s.context.NewQueue(d, runtime.QueueOptions{}); err != nil {
		return nil, err
	}
	h.pool, err = pool.NewBufferPool(s.context, pool.Options{})
	return h, err
}

// Name is what Manager.Default takes for this device: "cl:0", "cpu".
func (h *Handle) Name() string { return h.name }

// PlatformName is the OpenCL platform's name, empty for other devices.
func (h *Handle) PlatformName() string { return h.info.Platform }

// DeviceName is the device's own name.
func (h *Handle) DeviceName() string { return h.info.Name }

// Backend is "cl" or "cpu", or the name of a simulated driver.
func (h *Handle) Backend() string { return h.backend }

// DeviceType is "gpu", "cpu", "accel" or "other".
func (h *Handle) DeviceType() string { return typeName(h.info.Type) }

// Info describes the device.
func (h *Handle) Info() devices.Info { return h.info }

// Reason says why this device was taken.
func (h *Handle) Reason() string { return h.reason }

// Device is the open device.
func (h *Handle) Device() devices.Device { return h.device }

// Context is the context of the device, which the devices of a Group share.
func (h *Handle) Context() *runtime.Context { return h.session.context }

// Queue is the device's in-order queue. Further ones come from Context().NewQueue.
func (h *Handle) Queue() *runtime.Queue { return h.queue }

// Pool is where tensors take buffers from.
func (h *Handle) Pool() *pool.BufferPool { return h.pool }

// lazy is something that few programs use, made at its first use.
type lazy[T any] struct {
	mu sync.Mutex
	v  *T // protected by mu; nil where it was not made
}

func (l *lazy[T]) get(make func() (*T, error)) (v *T, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.v == nil {
		if v, err = make(); err != nil {
			return nil, err
		}
		l.v = v
	}
	return l.v, nil
}

// close gives up what is there. Nobody uses it any more.
func (l *lazy[T]) close(f func(*T) error) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.v != nil {
		err = f(l.v)
	}
	l.v = nil
	return err
}

// BoundedPool is a pool of the context's buffers with a ceiling, seven eighths of the
// device's memory (half of the host's where the device has no limit); made at the
// first call. Others, with other ceilings, come from pool.NewBoundedPool.
func (h *Handle) BoundedPool() (*pool.BoundedPool, error) {
	return h.bounded.get(func() (*pool.BoundedPool, error) {
		ceiling := h.info.GlobalMemory / 8 * 7
		if ceiling == 0 {
			ceiling = max(storage.PhysicalMemory()/2, 64<<20)
		}
		return pool.NewBoundedPool(h.Context(), pool.BoundedOptions{Ceiling: ceiling})
	})
}

// Allocator is the device's memory as a framework's allocator gives it, with its
// statistics; made at the first call.
func (h *Handle) Allocator() (*pool.DeviceAllocator, error) {
	return h.allocator.get(func() (*pool.DeviceAllocator, error) { return pool.NewDeviceAllocator(h.Context(), h.device) })
}

// PinnedPool is page-locked host memory for transfers, one for all devices of the
// context; made at the first call.
func (h *Handle) PinnedPool() (*pool.PinnedPool, error) { return pool.Pinned(h.queue) }

// Manager is where h came from.
func (h *Handle) Manager() *Manager { return h.session.manager }

// Async reports whether uploads are asynchronous (GODWIT_ASYNC_H2D).
func (h *Handle) Async() bool { return h.async }

// SharesContext reports whether buffers of h's can be used on other.
func (h *Handle) SharesContext(other *Handle) bool { return h.session == other.session }

// SharesStorage reports whether the device uses the host's memory in place, so that a
// buffer over memory of the caller's (runtime.UseHostPtr) is used without a copy.
func (h *Handle) SharesStorage() bool { return h.session.oneStorage }

// Has reports whether the device has a feature.
func (h *Handle) Has(f Feature) bool {
	switch f {
	case FP16:
		return h.info.FP16 || h.backend == "cpu"
	case FP64:
		return h.info.FP64 || h.backend != "cl"
	case Integrated:
		return h.info.SharesHost
	}
	return false
}

// Report passes a description of an object that nobody released to the manager's
// Options.Report.
func (h *Handle) Report(what string) { h.session.manager.opts.Report(what) }

// library is one program for all, so that it is built once for each context.
var library = kernels.Program()

// Kernel is a kernel of package kernels, built at the first call for all devices
// of the context.
func (h *Handle) Kernel(ctx context.Context, name string) (*runtime.Kernel, error) {
	return h.KernelOf(ctx, library, name)
}

// KernelOf is a kernel of a program, which is built for all devices of the context
// at the first call with this pointer. It fails with mem.ErrBuild and the log, and
// mem.ErrKernelName.
func (h *Handle) KernelOf(ctx context.Context, p *devices.Program, name string) (*runtime.Kernel, error) {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	built := s.programs[p]
	if built == nil {
		var err error
		if built, err = s.context.Build(ctx, p); err != nil {
			return nil, err
		}
		s.programs[p] = built
	}
	return built.Kernel(name)
}

// String is the handle's name, backend and device.
func (h *Handle) String() string {
	if h.backend == "cl" {
		return fmt.Sprintf("%s (%s on %s)", h.name, h.info.Name, h.info.Platform)
	}
	return fmt.Sprintf("%s (%s)", h.name, h.info.Name)
}
