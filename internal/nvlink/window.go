//go:build cgo

package nvlink

// #include "calls.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"

	"godwit/mem"
)

// Window is memory of one GPU that can be imported elsewhere, and copied from and to by the
// engine.
type Window struct {
	e       *Engine    // immutable
	gpu     int        // immutable
	size    uint64     // immutable: bytes
	handle  C.uint64_t // immutable
	address C.uint64_t // immutable: where all that are joined with its GPU have it mapped
}

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
	e.mu.RLock()
	err := errors.Join(e.gpus[gpu].missing, e.errLocked())
	e.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	seen := []C.int{e.gpus[gpu].device}
	for i := range e.gpus {
		if e.apart[i*len(e.gpus)+gpu] == nil {
			seen = append(seen, e.gpus[i].device)
		}
	}
	w := &Window{e: e, gpu: gpu, size: up}
	var r C.int
	ours(func() { r = C.gw_cu_window(e.cuda, &seen[0], C.int(len(seen)), C.size_t(up), &w.handle, &w.address) })
	if r != 0 {
		return nil, e.failed(r, "window of %s on %s", mem.FormatBytes(up), e.opts.GPUs[gpu])
	}
	e.mu.Lock()
	if err = e.errLocked(); err == nil {
		e.windows[w] = struct{}{}
	}
	e.mu.Unlock()
	if err != nil {
		ours(w.end)
		return nil, err
	}
	return w, nil
}

// Granularity is what the sizes of windows are multiples of, in bytes.
func (e *Engine) Granularity() uint64 { return e.granularity }

// Size is the window's size in bytes.
func (w *Window) Size() uint64 { return w.size }

// Export makes a file descriptor of the window's memory, close-on-exec, for one import: it belongs to
// that once it has succeeded, and else to the caller.
func (w *Window) Export() (fd int, err error) {
	var r, c C.int
	ours(func() {
		syscall.ForkLock.RLock() // no child of ours has it
		defer syscall.ForkLock.RUnlock()
		if r = C.gw_cu_export(w.e.cuda, w.handle, &c); r == 0 {
			syscall.CloseOnExec(int(c))
		}
	})
	if r != 0 {
		return -1, w.e.failed(r, "descriptor of a window of %s on %s", mem.FormatBytes(w.size), w.e.opts.GPUs[w.gpu])
	}
	return int(c), nil
}

// Release ends the window: copies of it have ended, and what was imported of it has been
// released, or is dead. In a forked child it does nothing.
func (w *Window) Release() {
	if C.gw_cuda_forked() != 0 {
		return
	}
	w.e.mu.Lock()
	_, there := w.e.windows[w] // else it was released, or Close has ended it
	delete(w.e.windows, w)
	w.e.mu.Unlock()
	if there {
		ours(w.end)
	}
}

func (w *Window) end() { C.gw_cu_window_end(w.e.cuda, w.handle, C.size_t(w.size), w.address) }
