package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"godwit/mem"
	"godwit/runtime"
)

// maxStaging bounds the bytes of staging memory of a handle, in use and kept; a
// larger upload is staged alone.
const maxStaging = 256 << 20

// stager keeps copies of uploaded bytes until the device has them. Slices go from
// flying to idle as their events end, looked at on the next upload.
type stager struct {
	mu     sync.Mutex
	flying []flight // protected by mu: in the order of their queue
	idle   [][]byte // protected by mu: for reuse
	held   uint64   // protected by mu: bytes of all slices in both
}

type flight struct {
	event runtime.Event // a reference of the stager's own
	bytes []byte
}

// UploadStaged copies data to off of b: first, before it returns, to memory of the
// handle's own, so that data may be changed at once; from there on the handle's
// queue, asynchronously. It waits for earlier uploads only where more than 256 MiB
// would be under way. The event is the caller's to release. It fails like
// runtime.Queue.EnqueueWrite.
func (h *Handle) UploadStaged(ctx context.Context, b *runtime.Buffer, off uint64, data []byte) (runtime.Event, error) {
	s := &h.staging
	s.mu.Lock()
	defer s.mu.Unlock()
	staged, err := s.take(ctx, len(data))
	if err != nil {
		return runtime.Event{}, fmt.Errorf("%s: staging %d bytes: %w", h, len(data), err)
	}
	copy(staged, data)
	e, err := h.queue.EnqueueWrite(ctx, b, off, staged)
	if err == nil {
		if err = e.Retain(); err != nil { // cannot fail for an event just made
			err = errors.Join(err, e.Wait(ctx), e.Release())
		}
	}
	if err != nil {
		s.idle = append(s.idle, staged)
		return runtime.Event{}, err
	}
	s.flying = append(s.flying, flight{e, staged})
	return e, nil
}

// take finds n bytes: idle ones that are not far too many, or new ones. s.mu is
// held.
func (s *stager) take(ctx context.Context, n int) ([]byte, error) {
	s.reap()
	for i, b := range s.idle {
		if cap(b) >= n && cap(b)/4 <= n {
			s.idle[i] = s.idle[len(s.idle)-1]
			s.idle = s.idle[:len(s.idle)-1]
			return b[:n], nil
		}
	}
	for s.held+uint64(n) > maxStaging {
		if len(s.idle) > 0 {
			s.held -= uint64(cap(s.idle[0]))
			s.idle = s.idle[1:]
			continue
		}
		if len(s.flying) == 0 {
			break
		}
		// Its failure is told to whoever reads the bytes.
		if _ = s.flying[0].event.Wait(ctx); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.reap()
	}
	b := make([]byte, n)
	s.held += uint64(n)
	return b, nil
}

// reap makes the slices idle whose uploads have ended. s.mu is held.
func (s *stager) reap() {
	done := 0
	for _, f := range s.flying {
		st, err := f.event.Status()
		if err == nil && st > runtime.Complete {
			break // the queue is in order
		}
		_ = f.event.Release() // ours, once
		s.idle = append(s.idle, f.bytes)
		done++
	}
	n := copy(s.flying, s.flying[done:])
	clear(s.flying[n:])
	s.flying = s.flying[:n]
}

// StagingHeld is the number of bytes of staging memory that the handle holds.
func (h *Handle) StagingHeld() uint64 {
	h.staging.mu.Lock()
	defer h.staging.mu.Unlock()
	return h.staging.held
}

// Upload is UploadStaged without the copy: data is borrowed until the event ends.
func (h *Handle) Upload(ctx context.Context, b *runtime.Buffer, off uint64, data []byte) (runtime.Event, error) {
	if uint64(len(data)) > b.Size() {
		return runtime.Event{}, fmt.Errorf("%s: %d bytes into a buffer of %d: %w", h, len(data), b.Size(), mem.ErrInvalidSize)
	}
	return h.queue.EnqueueWrite(ctx, b, off, data)
}
