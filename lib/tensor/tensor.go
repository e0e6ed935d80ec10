package tensor

import (
	"context"
	"fmt"
	stdruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"

	"godwit/lib/backend"
	"godwit/mem"
	"godwit/runtime"
)

// Tensor is an array on a device. See the package comment.
type Tensor struct {
	s       *state
	cleanup stdruntime.Cleanup
}

// state is a tensor without its garbage collected shell, which it must not refer to.
type state struct {
	h *backend.Handle // immutable, as all but released and upload
	storage
	owner   *owner
	shape   []int
	strides []int // elements
	dtype   DType
	steps   *recorder

	released atomic.Bool

	mu     sync.Mutex
	upload runtime.Event // protected by mu: zero, or until Ready or Release
}

// storage is where a tensor's elements are: at the start of buf.
type storage struct {
	root, buf *runtime.Buffer // the same, or buf is a sub-buffer of this tensor's own
	off       uint64          // bytes of the root before buf
}

// owner gives the root buffer back with the last tensor that views it.
type owner struct {
	refs atomic.Int64
	free func() error // immutable
}

func (o *owner) drop() error {
	if o.refs.Add(-1) > 0 {
		return nil
	}
	return o.free()
}

// count is the number of elements of a shape. It fails with ErrShape where the
// shape has a dimension of less than 1, or too many elements.
func count(shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d < 1 || n > (1<<62)/8/d {
			return 0, fmt.Errorf("shape %v: every dimension is at least 1, and all together fit 2^62 bytes: %w", shape, ErrShape)
		}
		n *= d
	}
	return n, nil
}

// stridesOf is the row-major layout of a shape.
func stridesOf(shape []int) []int {
	strides := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= shape[i]
	}
	return strides
}

// wrap makes a tensor; o counts it already.
func wrap(h *backend.Handle, at storage, o *owner, shape []int, d DType) *Tensor {
	s := &state{h: h, storage: at, owner: o, shape: slices.Clone(shape), strides: stridesOf(shape), dtype: d, steps: recorderOf(h)}
	t := &Tensor{s: s}
	t.cleanup = stdruntime.AddCleanup(t, func(s *state) {
		if !s.released.Load() {
			s.h.Report(s.String() + ": found by the garbage collector")
			_ = s.release() // nobody is left to tell
		}
	}, s)
	return t
}

// Empty makes a tensor whose content is undefined, in a buffer of the handle's pool.
// It fails with ErrShape, with ErrDType, with ErrFeature where the device has no such
// numbers, and like pool.BufferPool.Get. While a step is recorded there it is in memory of the step's (Record).
func Empty(h *backend.Handle, d DType, shape ...int) (*Tensor, error) {
	size, err := bytesFor(h, d, shape)
	if err != nil {
		return nil, err
	}
	if s := recording(h); s != nil {
		return s.empty(h, size, shape, d)
	}
	loan, err := h.Pool().Get(h.Queue(), size, 0)
	if err != nil {
		return nil, fmt.Errorf("tensor %v %s on %s: %w", shape, d, h, err)
	}
	free := func() error { return h.Pool().PutAfter(loan, h.Queue()) }
	return own(h, loan.Buffer(), free, shape, d), nil
}

// own makes a tensor of a whole buffer, which free gives back with the last view of it.
func own(h *backend.Handle, b *runtime.Buffer, free func() error, shape []int, d DType) *Tensor {
	o := &owner{free: free}
	o.refs.Store(1)
	return wrap(h, storage{root: b, buf: b}, o, shape, d)
}

// bytesFor is the size of a tensor. It fails where there is no such shape, or where the
// device cannot hold elements of the type.
func bytesFor(h *backend.Handle, d DType, shape []int) (uint64, error) {
	n, err := count(shape)
	switch {
	case err != nil:
		return 0, err
	case d.Size() == 0:
		return 0, fmt.Errorf("element type %s: %w", d, ErrDType)
	case d == Float16 && !h.Has(backend.FP16):
		return 0, fmt.Errorf("float16 on %s: %s: %w", h, backend.FP16, ErrFeature)
	case d == Float64 && !h.Has(backend.FP64):
		return 0, fmt.Errorf("float64 on %s: %s: %w", h, backend.FP64, ErrFeature)
	}
	return uint64(n * d.Size()), nil
}

// FromBuffer wraps a buffer of one's own, of the context of h. The tensor holds a
// reference until it is released. It fails with ErrShape where the shape needs more
// bytes than b has, and with mem.ErrInvalidBuffer where b was released.
func FromBuffer(h *backend.Handle, b *runtime.Buffer, d DType, shape ...int) (*Tensor, error) {
	need, err := bytesFor(h, d, shape)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, fmt.Errorf("tensor over no buffer: %w", mem.ErrInvalidBuffer)
	}
	if need > b.Size() {
		return nil, fmt.Errorf("tensor %v %s needs %d bytes, the buffer has %d: %w", shape, d, need, b.Size(), ErrShape)
	}
	if err := b.Retain(); err != nil {
		return nil, err
	}
	return own(h, b, b.Release, shape, d), nil
}

// Release gives the tensor up; what is enqueued still uses it. A second call fails
// with ErrReleased.
func (t *Tensor) Release() error {
	t.cleanup.Stop()
	return t.s.release()
}

func (s *state) release() error {
	if s.released.Swap(true) {
		return fmt.Errorf("%s: %w", s, ErrReleased)
	}
	s.mu.Lock()
	if !s.upload.IsZero() {
		_ = s.upload.Release() // ours, once
		s.upload = runtime.Event{}
	}
	s.mu.Unlock()
	if s.buf != s.root {
		if err := s.buf.Release(); err != nil {
			return err
		}
	}
	return s.owner.drop()
}

// live fails where the tensor was released.
func (t *Tensor) live() error {
	if t == nil {
		return fmt.Errorf("no tensor: %w", mem.ErrInvalidValue)
	}
	if t.s.released.Load() {
		return fmt.Errorf("%s: %w", t.s, ErrReleased)
	}
	return nil
}

func (s *state) String() string { return fmt.Sprintf("tensor %v %s on %s", s.shape, s.dtype, s.h) }

// String is the tensor's shape, type and device.
func (t *Tensor) String() string { return t.s.String() }

// Ready waits until the upload that made the tensor has ended, or ctx has: from then
// on a borrowed source is the caller's again. It returns the upload's error.
func (t *Tensor) Ready(ctx context.Context) error {
	t.s.mu.Lock()
	e := t.s.upload
	if e.IsZero() {
		t.s.mu.Unlock()
		return nil
	}
	err := e.Retain()
	t.s.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() { _ = e.Release() }()
	return e.Wait(ctx)
}

// Handle is the device the tensor is on.
func (t *Tensor) Handle() *backend.Handle { return t.s.h }

// Backend is the name of the device's backend. It never changes.
func (t *Tensor) Backend() string { return t.s.h.Backend() }

// Buffer is the storage, for launches of one's own: elements are at its start. It
// may be longer than the tensor.
func (t *Tensor) Buffer() *runtime.Buffer { return t.use() }

// DType is the element type.
func (t *Tensor) DType() DType { return t.s.dtype }

// Shape is a copy of the dimensions; a scalar has none.
func (t *Tensor) Shape() []int { return slices.Clone(t.s.shape) }

// Strides is a copy of the distances, in elements, between neighbours in each
// dimension.
func (t *Tensor) Strides() []int { return slices.Clone(t.s.strides) }

// Len is the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.s.shape {
		n *= d
	}
	return n
}

// Bytes is the number of bytes of the elements.
func (t *Tensor) Bytes() uint64 { return uint64(t.Len() * t.s.dtype.Size()) }

// In is the tensor as an argument that a launch of one's own only reads.
func (t *Tensor) In() runtime.Arg { return runtime.In(t.use()).Range(0, t.Bytes()) }

// Out is the tensor as an argument of which a launch writes every byte.
func (t *Tensor) Out() runtime.Arg { return runtime.Out(t.use()).Range(0, t.Bytes()) }

// InOut is the tensor as an argument that a launch reads and writes.
func (t *Tensor) InOut() runtime.Arg { return runtime.InOut(t.use()).Range(0, t.Bytes()) }
