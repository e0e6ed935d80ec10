package tensor

import (
	"context"
	"fmt"

	"godwit/lib/backend"
)

// Slice is rows [lo, hi) of the first dimension, without a copy: a sub-buffer, so
// that writes to either show in both. It is a tensor of its own, to be released. It
// fails with ErrShape outside the tensor, and with mem.ErrMisaligned where row lo is
// not at a multiple of the device's base address alignment (Handle.Info().BaseAlign
// bytes): a device cannot start a buffer there, and a copy would be no view.
func (t *Tensor) Slice(lo, hi int) (*Tensor, error) {
	if err := t.live(); err != nil {
		return nil, err
	}
	s := t.s
	if len(s.shape) == 0 || lo < 0 || lo >= hi || hi > s.shape[0] {
		return nil, fmt.Errorf("%s: rows [%d, %d): %w", s, lo, hi, ErrShape)
	}
	shape := append([]int{hi - lo}, s.shape[1:]...)
	row := uint64(s.strides[0] * s.dtype.Size())
	off := s.off + uint64(lo)*row
	sub, err := s.root.Sub(off, uint64(hi-lo)*row, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: rows [%d, %d): %w", s, lo, hi, err)
	}
	s.owner.refs.Add(1)
	return wrap(s.h, storage{s.root, sub, off}, s.owner, shape, s.dtype), nil
}

// Reshape is the same elements in another shape, without a copy. It is a tensor of
// its own, to be released. It fails with ErrShape where the numbers of elements
// differ.
func (t *Tensor) Reshape(shape ...int) (*Tensor, error) {
	if err := t.live(); err != nil {
		return nil, err
	}
	n, err := count(shape)
	if err != nil {
		return nil, err
	}
	s := t.s
	if n != t.Len() {
		return nil, fmt.Errorf("%s as %v: %d elements as %d: %w", s, shape, t.Len(), n, ErrShape)
	}
	if s.buf != s.root {
		if err := s.buf.Retain(); err != nil {
			return nil, err
		}
	}
	s.owner.refs.Add(1)
	return wrap(s.h, s.storage, s.owner, shape, s.dtype), nil
}

// Clone is a copy on the same device.
func (t *Tensor) Clone(ctx context.Context) (*Tensor, error) { return t.To(ctx, t.s.h) }

// To is a copy on another device: within a context straight from device to device,
// asynchronously; else through the host, and the elements are there on return. It
// fails like Empty on the other device.
func (t *Tensor) To(ctx context.Context, h *backend.Handle) (*Tensor, error) {
	if err := t.live(); err != nil {
		return nil, err
	}
	dst, err := Empty(h, t.s.dtype, t.s.shape...)
	if err != nil {
		return nil, err
	}
	if h.SharesContext(t.s.h) {
		err = done(h.Queue().EnqueueCopy(ctx, t.use(), dst.s.buf, 0, 0, t.Bytes()))
	} else {
		host := make([]byte, t.Bytes())
		if err = t.read(ctx, host); err == nil {
			err = h.Queue().Write(ctx, dst.s.buf, 0, host)
		}
	}
	if err != nil {
		_ = dst.Release() // the first error counts
		return nil, err
	}
	return dst, nil
}
