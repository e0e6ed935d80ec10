//go:build cgo

package nvlink

// #include "calls.h"
import "C"

import (
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
	address C.uint64_t // protected by e.making: where CUDA has it mapped, 0 where it has not; Start reads it once the GPUs are open
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
	g, w := &e.gpus[gpu], &Window{e: e, gpu: gpu, size: up}
	e.making.Lock()
	defer e.making.Unlock()
	if err := e.Err(); err != nil {
		return nil, err
	}
	if g.missing != nil {
		return nil, g.missing
	}
	var r C.int
	ours(func() {
		if r = C.gw_cu_window(e.cuda, g.device, C.size_t(up), &w.handle); r != 0 || !g.mapped {
			return
		}
		if r = w.mapLocked(); r != 0 {
			w.end()
		}
	})
	if r != 0 {
		return nil, e.failed(r, "window of %s on %s", mem.FormatBytes(up), e.opts.GPUs[gpu])
	}
	e.windows[w] = struct{}{}
	return w, nil
}

// mapLocked maps the window for its own GPU and all that are joined with that, where it is not mapped yet. It returns a
// CUresult. e.making is held.
func (w *Window) mapLocked() C.int {
	e := w.e
	if w.address != 0 {
		return 0
	}
	devices := []C.int{e.gpus[w.gpu].device}
	for i := range e.gpus {
		if e.apart[i*len(e.gpus)+w.gpu] == nil {
			devices = append(devices, e.gpus[i].device)
		}
	}
	return C.gw_cu_map(e.cuda, w.handle, C.size_t(w.size), &devices[0], C.int(len(devices)), &w.address)
}

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
	w.e.making.Lock()
	defer w.e.making.Unlock()
	if _, ok := w.e.windows[w]; ok { // else it was released, or Close has ended it
		delete(w.e.windows, w)
		ours(w.end)
	}
}

// end ends the window, of which nothing is in use.
func (w *Window) end() {
	C.gw_cu_unmap(w.e.cuda, w.handle, C.size_t(w.size), w.address)
	w.address = 0
}
