package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"

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

// staging are the pools that a handle stages uploads in, made on first use: as the
// environment was when the handle was made, and page-locked in any case.
type staging struct {
	mu     sync.Mutex
	auto   *pool.PinnedPool // protected by mu
	always *pool.PinnedPool // protected by mu
}

// stagingPool returns the pool to stage in.
func (h *Handle) stagingPool(always bool) (*pool.PinnedPool, error) {
	s := &h.staging
	s.mu.Lock()
	defer s.mu.Unlock()
	at, how := &s.auto, h.pinning
	if always {
		at, how = &s.always, pool.PinAlways
	}
	if *at == nil {
		var err error
		if *at, err = pool.NewPinnedPool(h.Context(), pool.PinnedOptions{Pinning: how, Ceiling: maxStaging}); err != nil {
			return nil, err
		}
	}
	return *at, nil
}

// close gives staging memory back. No upload is under way.
func (s *staging) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range []*pool.PinnedPool{s.auto, s.always} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	s.auto, s.always = nil, nil
	return errors.Join(errs...)
}

// UploadStaged copies data to off of b: first, before it returns, to memory of the
// handle's own, so that data may be changed at once; from there on the handle's
// queue, asynchronously. The memory is page-locked where that helps (see
// pool.PinAuto). It waits for earlier uploads, under ctx, only where more than 256 MiB
// would be under way. The event is the caller's to release; it fails where any part of
// the upload does. It fails like runtime.Queue.EnqueueWrite; b then holds some of data
// or none of it.
func (h *Handle) UploadStaged(ctx context.Context, b *runtime.Buffer, off uint64, data []byte) (runtime.Event, error) {
	return h.upload(ctx, b, off, data, false)
}

// UploadPinned is UploadStaged by way of page-locked memory, whatever the device and
// the environment, as far as the system lets a process lock memory.
func (h *Handle) UploadPinned(ctx context.Context, b *runtime.Buffer, off uint64, data []byte) (runtime.Event, error) {
	return h.upload(ctx, b, off, data, true)
}

func (h *Handle) upload(ctx context.Context, b *runtime.Buffer, off uint64, data []byte, always bool) (e runtime.Event, err error) {
	if err := h.fits(b, off, data); err != nil {
		return runtime.Event{}, err
	}
	p, err := h.stagingPool(always)
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
	h.staging.mu.Lock()
	defer h.staging.mu.Unlock()
	for _, p := range []*pool.PinnedPool{h.staging.auto, h.staging.always} {
		if p != nil {
			held += p.Held()
		}
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
