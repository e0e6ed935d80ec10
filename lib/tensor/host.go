package tensor

import (
	"context"
	"fmt"

	"godwit/lib/backend"
	"godwit/runtime"
)

// Option shapes FromHost.
type Option func(*upload)

type upload struct {
	shape  []int
	borrow bool
	alias  bool
	pinned bool
	async  bool
}

// Shape gives the tensor more, or fewer, dimensions than the slice's one.
func Shape(dims ...int) Option {
	return func(u *upload) { u.shape = append([]int{}, dims...) }
}

// Borrow copies straight out of the caller's slice, which must stay as it is until
// Ready has returned nil. Without it the elements are staged: the slice is the caller's on return.
func Borrow() Option { return func(u *upload) { u.borrow = true } }

// Pinned stages the elements in page-locked memory, whatever the device and
// GODWIT_PINNED_H2D say: without it they are where that helps. It has no effect with
// Borrow, whose source goes to the device as it is: page-locked where it came from
// Handle.PinnedPool.
func Pinned() Option { return func(u *upload) { u.pinned = true } }

// ZeroCopy makes the slice itself the tensor's storage where the device shares the
// host's memory (Handle.Has(backend.Integrated), on the cpu backend): no byte is copied,
// and kernels that write to the tensor write to the slice. Elsewhere it is Borrow. The
// slice is the tensor's, and must stay as it is, until that is released and all that
// uses it has ended.
func ZeroCopy() Option { return func(u *upload) { u.alias = true } }

// Async returns once the copy is enqueued, whatever GODWIT_ASYNC_H2D says.
func Async() Option { return func(u *upload) { u.async = true } }

// Sync returns once the device has the elements, whatever GODWIT_ASYNC_H2D says.
func Sync() Option { return func(u *upload) { u.async = false } }

// FromHost makes a tensor of a slice's elements: of one dimension, or Shape's. It
// fails with ErrShape where that has not as many elements, and like Empty.
func FromHost[T Numeric](ctx context.Context, h *backend.Handle, data []T, opts ...Option) (*Tensor, error) {
	if err := refuse("FromHost", h); err != nil {
		return nil, err
	}
	u := upload{shape: []int{len(data)}, async: h.Async()}
	for _, o := range opts {
		o(&u)
	}
	n, err := count(u.shape)
	if err != nil {
		return nil, err
	}
	if n != len(data) {
		return nil, fmt.Errorf("shape %v has %d elements, the slice %d: %w", u.shape, n, len(data), ErrShape)
	}
	if u.alias && h.SharesStorage() {
		return aliased(h, data, u.shape)
	}
	t, err := Empty(h, DTypeOf[T](), u.shape...)
	if err != nil {
		return nil, err
	}
	put := h.UploadStaged
	switch {
	case u.borrow || u.alias:
		put = h.Upload
	case u.pinned:
		put = h.UploadPinned
	case !u.async: // a wait follows: nothing to stage for
		put = h.Upload
	}
	if t.s.upload, err = put(ctx, t.s.buf, 0, runtime.BytesOf(data)); err == nil && !u.async {
		err = t.Ready(ctx)
	}
	if err != nil {
		_ = t.Release() // the first error counts
		return nil, err
	}
	return t, nil
}

// aliased makes a tensor of which the slice is the storage.
func aliased[T Numeric](h *backend.Handle, data []T, shape []int) (*Tensor, error) {
	if _, err := bytesFor(h, DTypeOf[T](), shape); err != nil {
		return nil, err
	}
	bytes := runtime.BytesOf(data)
	b, err := h.Context().CreateBuffer(uint64(len(bytes)), runtime.UseHostPtr, bytes)
	if err != nil {
		return nil, fmt.Errorf("tensor %v %s over a slice: %w", shape, DTypeOf[T](), err)
	}
	return own(h, b, b.Release, shape, DTypeOf[T]()), nil
}

// ToHost returns the elements, once all that writes them has ended. It fails with
// ErrDType where they are of another type.
func ToHost[T Numeric](ctx context.Context, t *Tensor) ([]T, error) {
	if err := t.live(); err != nil {
		return nil, err
	}
	out := make([]T, t.Len())
	return out, CopyTo(ctx, t, out)
}

// CopyTo is ToHost into a slice of the tensor's type and length. It fails with
// ErrDType and ErrShape. Where ctx ends first, out may still be written to until the
// device's queue has finished.
func CopyTo[T Numeric](ctx context.Context, t *Tensor, out []T) error {
	if err := holds[T](t); err != nil {
		return err
	}
	if len(out) != t.Len() {
		return fmt.Errorf("%s into %d elements: %w", t, len(out), ErrShape)
	}
	return t.read(ctx, runtime.BytesOf(out))
}

// Fill sets every element to v. It fails with ErrDType where they are of another type.
func Fill[T Numeric](ctx context.Context, t *Tensor, v T) error {
	if err := holds[T](t); err != nil {
		return err
	}
	return done(t.s.h.Queue().EnqueueFill(ctx, t.use(), runtime.BytesOf([]T{v}), 0, t.Bytes()))
}

// holds fails where t was released, or its elements are of another type than T.
func holds[T Numeric](t *Tensor) error {
	if err := t.live(); err != nil {
		return err
	}
	if d := DTypeOf[T](); d != t.s.dtype {
		return fmt.Errorf("%s and elements of %s: %w", t, d, ErrDType)
	}
	return nil
}

func (t *Tensor) read(ctx context.Context, out []byte) error {
	if err := refuse("reading", t.s.h); err != nil {
		return err
	}
	return t.s.h.Queue().Read(ctx, t.s.buf, 0, out)
}

// done lets a command go whose end nobody waits for.
func done(e runtime.Event, err error) error {
	if err != nil {
		return err
	}
	return e.Release()
}
