package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"godwit/devices"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// StackOptions shape the stack of layers that Stack builds for each device.
type StackOptions struct {
	Limit  uint64                // bytes callers may hold; 0 is no limit
	Pool   *resource.PoolOptions // nil carves nothing: every block is the device's own
	Bins   []uint64              // slot sizes for small blocks; needs Pool
	Stacks int                   // stack frames kept with each block
	Trace  *trace.AllocWriter    // nil records nothing
}

// Stack returns a function for runtime.Options.Resource that puts the
// documented stack of package resource over every device's memory: with it a
// DeviceAllocator has statistics and certificates. The host's memory is left
// as it is. Options that a layer refuses are its error, found at the first use.
func Stack(o StackOptions) func(id mem.MemoryID, base mem.Resource) mem.Resource {
	return func(id mem.MemoryID, base mem.Resource) mem.Resource {
		if id == mem.Host {
			return base
		}
		r, err := o.build(base)
		if err != nil {
			return broken{base, err}
		}
		return r
	}
}

func (o StackOptions) build(r mem.Resource) (_ mem.Resource, err error) {
	if o.Pool != nil {
		if r, err = resource.NewPool(r, *o.Pool); err != nil {
			return nil, err
		}
	}
	if len(o.Bins) > 0 {
		if r, err = resource.NewBins(r, 16*o.Bins[len(o.Bins)-1], o.Bins...); err != nil {
			return nil, err
		}
	}
	if o.Limit > 0 {
		if r, err = resource.NewLimit(r, o.Limit); err != nil {
			return nil, err
		}
	}
	r = resource.NewTrack(resource.NewStatistics(resource.NewRetry(r)), o.Stacks)
	if o.Trace != nil {
		r = resource.NewTrace(r, o.Trace)
	}
	return r, nil
}

// broken answers every request with the reason why there is no stack.
type broken struct {
	mem.Resource
	err error
}

func (b broken) AllocAll([]mem.Request, []mem.Block, *mem.Reuse) (mem.Outcome, error) {
	return mem.Exhausted, b.err
}

func (b broken) Fits([]mem.Request, []mem.Block, *mem.Reuse) bool { return false }

// DeviceAllocator gives device memory the way a framework's allocator does, over
// the stack of layers that the context has for the device (see Stack). Memory is
// really taken when asked for, not at first use. Safe for use from many
// goroutines.
type DeviceAllocator struct {
	ctx   *runtime.Context // immutable
	id    mem.MemoryID     // immutable
	name  string           // immutable
	res   mem.Resource     // immutable
	queue *runtime.Queue   // immutable: takes the memory and copies

	late sync.WaitGroup // releases that wait for recorded streams

	mu      sync.Mutex
	live    map[*Allocation]struct{} // protected by mu; nil once closed
	lateErr error                    // protected by mu: what late releases met
}

// Allocation is device memory on loan, a buffer of the allocator's context. The
// zero-size allocation is a valid, empty handle.
type Allocation struct {
	a    *DeviceAllocator
	buf  *runtime.Buffer // nil where empty
	size uint64

	mu       sync.Mutex
	released bool        // protected by mu
	streams  []mem.Point // protected by mu: see RecordStream
}

// NewDeviceAllocator returns an allocator for a device of c. It opens a queue
// there, which Close closes.
func NewDeviceAllocator(c *runtime.Context, d devices.Device) (*DeviceAllocator, error) {
	id, err := c.Memory(d)
	if err != nil {
		return nil, err
	}
	name := c.Topology().Name(id)
	id = c.Topology().Store(id) // the host's, where the two were declared to be one
	q, err := c.NewQueue(d, runtime.QueueOptions{Name: name + " allocator", OutOfOrder: true})
	if err != nil {
		return nil, err
	}
	return &DeviceAllocator{ctx: c, id: id, name: name, res: c.Resource(id), queue: q, live: map[*Allocation]struct{}{}}, nil
}

// Initialized reports whether the allocator can be used: made and not closed.
func (a *DeviceAllocator) Initialized() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live != nil
}

// Allocate takes size bytes on the device, named for reports. Zero bytes give
// an empty handle. Where memory has run out the error is an *OutOfMemory.
func (a *DeviceAllocator) Allocate(ctx context.Context, size uint64, name string) (*Allocation, error) {
	if !a.Initialized() {
		return nil, fmt.Errorf("allocator %s: %w", a.name, mem.ErrClosed)
	}
	h := &Allocation{a: a, size: size}
	if size > 0 {
		buf, err := a.take(ctx, size, name)
		if err != nil {
			return nil, err
		}
		h.buf = buf
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live == nil {
		return nil, errors.Join(fmt.Errorf("allocator %s: %w", a.name, mem.ErrClosed), h.drop())
	}
	a.live[h] = struct{}{}
	return h, nil
}

func (a *DeviceAllocator) take(ctx context.Context, size uint64, name string) (*runtime.Buffer, error) {
	buf, err := a.ctx.CreateNamedBuffer(name, size, 0, nil)
	if err != nil {
		return nil, err
	}
	ev, err := a.queue.EnqueueMigrate(ctx, []*runtime.Buffer{buf}, runtime.ContentUndefined)
	if err != nil {
		if errors.Is(err, mem.ErrNoMemory) {
			err = a.certify(size, err)
		}
		return nil, errors.Join(err, buf.Release())
	}
	a.label(buf, name)
	return buf, ev.Release()
}

// certify adds to the runtime's certificate whose release would help.
func (a *DeviceAllocator) certify(size uint64, cause error) error {
	var e *resource.OutOfMemory
	if !errors.As(cause, &e) {
		return cause
	}
	out := *e
	outcome := mem.Exhausted
	if e.Verdict == resource.Budget {
		outcome = mem.OverBudget
	}
	below := resource.Certify(a.name, a.res, size, outcome)
	out.Device, out.Release = a.name, below.Release
	return &out
}

// label names the buffer's block in a Track layer, where there is one.
func (a *DeviceAllocator) label(buf *runtime.Buffer, name string) {
	t, ok := resource.Find[*resource.Track](a.res)
	if !ok || name == "" {
		return
	}
	for _, h := range t.Holdings() {
		if h.Tag == uint64(buf.ID()) {
			_ = t.Name(h.Block, name) // freed meanwhile: nothing to name
			return
		}
	}
}

// Size is the number of bytes asked for.
func (h *Allocation) Size() uint64 { return h.size }

// Buffer is the memory as a buffer of the allocator's context; nil where empty.
func (h *Allocation) Buffer() *runtime.Buffer { return h.buf }

// RecordStream says that commands enqueued on q so far use the memory in a way
// the runtime cannot see (a native handle, say): it is freed after they have
// ended. What is enqueued through the runtime needs no such call.
func (h *Allocation) RecordStream(q *runtime.Queue) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return fmt.Errorf("allocation of %d bytes: %w", h.size, ErrReturned)
	}
	h.streams = append(h.streams, q.Last())
	return nil
}

// Release is the deleter: the memory goes back to the stack once the commands
// that use it have ended. A second call fails with ErrReturned.
func (h *Allocation) Release() error {
	h.a.mu.Lock()
	delete(h.a.live, h)
	h.a.mu.Unlock()
	return h.drop()
}

func (h *Allocation) drop() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return fmt.Errorf("allocation of %d bytes: %w", h.size, ErrReturned)
	}
	h.released = true
	if h.buf == nil {
		return nil
	}
	for _, p := range h.streams {
		if !p.Passed() {
			return h.releaseLater()
		}
	}
	return h.buf.Release()
}

// releaseLater gives the buffer up on a goroutine that waits for the recorded
// streams; the allocator's Close waits for it.
func (h *Allocation) releaseLater() error {
	points, buf := h.streams, h.buf
	h.a.late.Go(func() {
		for _, p := range points {
			for !p.Passed() {
				_ = oldest(p).Wait(context.Background()) // how it ends does not matter
			}
		}
		if err := buf.Release(); err != nil {
			h.a.mu.Lock()
			h.a.lateErr = errors.Join(h.a.lateErr, err)
			h.a.mu.Unlock()
		}
	})
	return nil
}

// oldest is the point to wait for next, so that p has passed.
func oldest(p mem.Point) mem.Point {
	if o := p.Line.Oldest(); !o.IsZero() && o.Seq <= p.Seq {
		return o
	}
	return p
}

// CopyData copies n bytes from the start of src to that of dst: within a device,
// between devices, or between contexts (by way of the host). It returns when the
// bytes are there.
func CopyData(ctx context.Context, dst, src *Allocation, n uint64) error {
	if n > dst.size || n > src.size {
		return fmt.Errorf("copy of %d bytes from an allocation of %d to one of %d: %w", n, src.size, dst.size, mem.ErrInvalidValue)
	}
	if n == 0 {
		return nil
	}
	if dst.a.ctx == src.a.ctx {
		ev, err := dst.a.queue.EnqueueCopy(ctx, src.buf, dst.buf, 0, 0, n)
		if err != nil {
			return err
		}
		return errors.Join(ev.Wait(ctx), ev.Release())
	}
	staging := make([]byte, n)
	if err := src.a.queue.Read(ctx, src.buf, 0, staging); err != nil {
		return err
	}
	return dst.a.queue.Write(ctx, dst.buf, 0, staging)
}

// EmptyCache gives cached memory back to the device and returns the bytes.
func (a *DeviceAllocator) EmptyCache() uint64 { return a.res.Trim(0) }

// Stats are PyTorch's figures; ok is false where the device's stack has no
// Statistics layer.
func (a *DeviceAllocator) Stats() (f resource.Figures, ok bool) {
	s, ok := resource.Find[*resource.Statistics](a.res)
	if ok {
		f = s.Figures()
	}
	return f, ok
}

// ResetPeak sets every peak to its current figure.
func (a *DeviceAllocator) ResetPeak() {
	if s, ok := resource.Find[*resource.Statistics](a.res); ok {
		s.ResetPeak()
	}
}

// ResetAccumulated sets every accumulated figure to zero.
func (a *DeviceAllocator) ResetAccumulated() {
	if s, ok := resource.Find[*resource.Statistics](a.res); ok {
		s.ResetAccumulated()
	}
}

// LargestFree is the largest block that could be had now, in bytes, and the
// external fragmentation: 1 - largest free / free.
func (a *DeviceAllocator) LargestFree() (bytes uint64, fragmentation float64) {
	s := a.res.Stats()
	free := uint64(0)
	if used := s.Live + s.Pending; s.Capacity > used {
		free = s.Capacity - used
	}
	if free == 0 || s.LargestFree > free {
		return s.LargestFree, 0
	}
	return s.LargestFree, 1 - float64(s.LargestFree)/float64(free)
}

// Close releases what is still allocated, naming it in the error, waits for the
// streams recorded for what was released, and closes the queue. A second call fails with mem.ErrClosed.
func (a *DeviceAllocator) Close() error {
	a.mu.Lock()
	live := a.live
	a.live = nil
	a.mu.Unlock()
	if live == nil {
		return fmt.Errorf("allocator %s: %w", a.name, mem.ErrClosed)
	}
	var errs []error
	for h := range live {
		errs = append(errs, fmt.Errorf("%s: %d bytes not released: %w", a.name, h.size, runtime.ErrLeak), h.drop())
	}
	a.late.Wait()
	return errors.Join(append(errs, a.lateErr, a.queue.Close())...)
}
