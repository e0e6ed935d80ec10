package backend

import (
	"context"
	"errors"
	"fmt"

	"godwit/lib/pool"
	"godwit/mem"
	"godwit/runtime"
)

// Uploads are staged in pieces, so that the device takes one while the next is being
// copied, and a few pieces, still in the processor's caches, do for any length.
const (
	maxStaging = 256 << 20 // bytes of staging memory of a handle, in use and kept
	piece      = 4 << 20   // bytes
)

// UploadStaged copies data to off of b: first, before it returns, to memory of the
// handle's own, so that data may be changed at once; from there on the handle's
// queue, asynchronously. The memory is page-locked where that helps (see
// pool.PinAuto). It waits for earlier uploads, under ctx, only where more than 256 MiB
// would be under way. The event is the caller's to release; it fails where any part of
// the upload does. It fails like runtime.Queue.EnqueueWrite; b then holds some of data
// or none of it.
func (h *Handle) UploadStaged(ctx context.Context, b *runtime.Buffer, off uint64, data []byte) (runtime.Event, error) {
	return h.upload(ctx, &h.staged, h.pinning, b, off, data)
}

// UploadPinned is UploadStaged by way of page-locked memory, whatever the device and
// the environment, as far as the system lets a process lock memory.
func (h *Handle) UploadPinned(ctx context.Context, b *runtime.Buffer, off uint64, data []byte) (runtime.Event, error) {
	return h.upload(ctx, &h.pinned, pool.PinAlways, b, off, data)
}

func (h *Handle) upload(ctx context.Context, in *lazy[pool.PinnedPool], how pool.Pinning, b *runtime.Buffer, off uint64, data []byte) (e runtime.Event, err error) {
	if err := h.fits(b, off, data); err != nil {
		return runtime.Event{}, err
	}
	p, err := in.get(func() (*pool.PinnedPool, error) {
		return pool.NewPinnedPool(h.Context(), pool.PinnedOptions{Pinning: how, Ceiling: maxStaging})
	})
	if err != nil {
		return runtime.Event{}, err
	}
	if len(data) <= piece {
		return h.uploadPiece(ctx, p, b, off, data)
	}
	events := make([]runtime.Event, 0, (len(data)+piece-1)/piece)
	defer func() {
		for _, e := range events {
			err = errors.Join(err, e.Release())
		}
	}()
	for i := 0; i < len(data); i += piece {
		e, err := h.uploadPiece(ctx, p, b, off+uint64(i), data[i:min(i+piece, len(data))])
		if err != nil {
			return runtime.Event{}, err
		}
		events = append(events, e)
		if i == 0 {
			_ = h.queue.Flush() // the device begins while the rest is copied; whoever waits is told of failures
		}
	}
	return h.queue.EnqueueMarker(ctx, events...)
}

// uploadPiece is an upload in one piece.
func (h *Handle) uploadPiece(ctx context.Context, p *pool.PinnedPool, b *runtime.Buffer, off uint64, data []byte) (runtime.Event, error) {
	loan, err := p.Get(ctx, h.queue, uint64(len(data)))
	if err != nil {
		return runtime.Event{}, fmt.Errorf("%s: staging %d bytes: %w", h, len(data), err)
	}
	copy(loan.Bytes(), data)
	e, err := h.queue.EnqueueWrite(ctx, b, off, loan.Bytes())
	return e, errors.Join(err, p.PutAfter(loan, h.queue))
}

// fits fails where data has no bytes, or more than b from off on.
func (h *Handle) fits(b *runtime.Buffer, off uint64, data []byte) error {
	if b == nil {
		return fmt.Errorf("%s: upload into no buffer: %w", h, mem.ErrInvalidBuffer)
	}
	if n := uint64(len(data)); n == 0 || off > b.Size() || n > b.Size()-off {
		return fmt.Errorf("%s: %d bytes at %d of a buffer of %d: %w", h, n, off, b.Size(), mem.ErrInvalidSize)
	}
	return nil
}

// StagingHeld is the number of bytes of staging memory that the handle holds.
func (h *Handle) StagingHeld() (held uint64) {
	for _, l := range []*lazy[pool.PinnedPool]{&h.staged, &h.pinned} {
		l.mu.Lock()
		if l.v != nil {
			held += l.v.Held()
		}
		l.mu.Unlock()
	}
	return held
}

// Upload copies data to off of b without staging: data is borrowed until the event
// ends. The event is the caller's to release. It fails like
// runtime.Queue.EnqueueWrite.
func (h *Handle) Upload(ctx context.Context, b *runtime.Buffer, off uint64, data []byte) (runtime.Event, error) {
	if err := h.fits(b, off, data); err != nil {
		return runtime.Event{}, err
	}
	return h.queue.EnqueueWrite(ctx, b, off, data)
}
