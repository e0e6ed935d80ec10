//go:build cgo

package nvlink

// #cgo noescape gw_window_copies
// #cgo nocallback gw_window_copies
// #cgo noescape gw_window_mapped
// #cgo nocallback gw_window_mapped
// #include "calls.h"
import "C"

import (
	"fmt"
	"syscall"
	"time"

	"godwit/mem"
)

// Window is memory of one GPU that can be imported elsewhere, and copied from and to by the
// engine.
type Window struct {
	e     *Engine      // immutable
	gpu   int          // immutable
	size  uint64       // immutable: bytes
	c     *C.gw_window // immutable until it is released
	given bool         // protected by e.mu: released
	maps  bool         // protected by e.mu: it is, or is being, mapped
}

// Granularity is what sizes of windows are rounded up to, in bytes.
func (e *Engine) Granularity() uint64 { return e.granularity }

// NewWindow makes a window of at least size bytes. It fails with mem.ErrNoMemory where the GPU has no
// room, with mem.ErrInvalidSize for a size of 0 or from Limit on, with what the
// GPU lacks, and as Err.
func (e *Engine) NewWindow(gpu int, size uint64) (*Window, error) {
	if gpu < 0 || gpu >= len(e.gpus) {
		return nil, fmt.Errorf("window on GPU %d of %d: %w", gpu, len(e.gpus), mem.ErrInvalidDevice)
	}
	up, ok := mem.AlignUp(size, e.granularity)
	if size == 0 || !ok || up >= Limit {
		return nil, fmt.Errorf("window of %d bytes: from 1 to %d: %w", size, Limit-e.granularity, mem.ErrInvalidSize)
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	if err := e.missing[gpu]; err != nil {
		return nil, err
	}
	w := &Window{e: e, gpu: gpu, size: up}
	var r C.int
	ours(func() { r = C.gw_cu_window(e.cuda, e.gpus[gpu], C.size_t(up), &w.c) })
	if r != 0 {
		return nil, e.failed(r, "window of %s on %s", mem.FormatBytes(up), e.opts.GPUs[gpu])
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		ours(w.unmap)
		return nil, e.errLocked()
	}
	e.windows[w] = struct{}{}
	e.bytes += up
	if e.made[gpu] {
		w.mapLocked()
	}
	return w, nil
}

// mapAll has all windows of some GPUs mapped, from now on.
func (e *Engine) mapAll(gpus []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	for _, i := range gpus {
		e.made[i] = true
	}
	for w := range e.windows {
		if e.made[w.gpu] && !w.maps && !w.given {
			w.mapLocked()
		}
	}
}

// mapLocked maps the window beside, for its own GPU and all that reach it. Copies of it wait for
// that. e.mu is held.
func (w *Window) mapLocked() {
	e := w.e
	w.maps = true
	devices := []C.int{e.gpus[w.gpu]}
	for i := range e.gpus {
		if p := &e.peers[i*len(e.gpus)+w.gpu]; p.err == nil {
			devices = append(devices, e.gpus[i])
		}
	}
	e.background.Go(func() {
		ours(func() { C.gw_cu_map(e.cuda, w.c, &devices[0], C.int(len(devices))) })
	})
}

// Size is the window's size in bytes.
func (w *Window) Size() uint64 { return w.size }

// GPU is the index of its GPU.
func (w *Window) GPU() int { return w.gpu }

// Export makes a file descriptor of the window's memory, close-on-exec, for one import: it belongs to
// that once it has succeeded, and else to the caller.
func (w *Window) Export() (fd int, err error) {
	var r, c C.int
	ours(func() {
		syscall.ForkLock.RLock() // no child of ours has it
		defer syscall.ForkLock.RUnlock()
		if r = C.gw_cu_export(w.e.cuda, w.c, &c); r == 0 {
			syscall.CloseOnExec(int(c))
		}
	})
	if r != 0 {
		return -1, w.e.failed(r, "descriptor of a window of %s on %s", mem.FormatBytes(w.Size()), w.e.opts.GPUs[w.gpu])
	}
	return int(c), nil
}

// Release gives the window back: no new copies name it, and what was imported of it has been
// released, or is dead. It blocks nowhere. In a forked child it does nothing.
func (w *Window) Release() {
	e := w.e
	if C.gw_cuda_forked() != 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.given || e.closed { // Close has it
		return
	}
	w.given = true
	e.background.Go(func() {
		for C.gw_window_copies(w.c) > 0 || w.mapping() {
			time.Sleep(100 * time.Microsecond)
		}
		e.mu.Lock()
		delete(e.windows, w)
		e.bytes -= w.Size()
		e.mu.Unlock()
		ours(w.unmap)
	})
}

// mapping reports whether the window is still to be mapped. Nobody unmaps it.
func (w *Window) mapping() bool {
	w.e.mu.RLock()
	defer w.e.mu.RUnlock()
	return w.maps && C.gw_window_mapped(w.c) == 0
}

func (w *Window) released() bool {
	w.e.mu.RLock()
	defer w.e.mu.RUnlock()
	return w.given
}

// unmap ends the window, of which nothing is in use.
func (w *Window) unmap() {
	C.gw_cu_unmap(w.e.cuda, w.c)
	w.c = nil
}
