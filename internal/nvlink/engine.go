//go:build cgo

package nvlink

// #cgo LDFLAGS: -ldl -lpthread
// #cgo noescape gw_nv_lost
// #cgo nocallback gw_nv_lost
// #include <stdlib.h>
// #include "cuda.h"
// #include "pilot.h"
// #include "calls.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"godwit/mem"
)

// Engine makes windows of some GPUs and copies between them. All methods are safe for use
// from many goroutines.
type Engine struct {
	opts        Options       // immutable
	cuda        *C.gw_cuda    // immutable
	gpus        []gpu         // immutable but for what says so
	granularity uint64        // immutable
	apart       []error       // immutable: from*len(gpus)+to: why two GPUs are not joined, both ways; nil where they are
	open        []atomic.Bool // as apart: copies can start

	connecting sync.RWMutex // held over Close, and for reading over Connect
	lanes      sync.Mutex   // held while lanes are made

	mu      sync.RWMutex         // a leaf, but for the pilot's
	nv      *C.gw_nv             // set by Open; gone once it is closed
	windows map[*Window]struct{} // protected by mu
	closed  bool                 // protected by mu
	lost    error                // protected by mu: what Lose was told first
}

type gpu struct {
	device  C.int // immutable: CUDA's
	missing error // immutable: why CUDA cannot use it

	mu      sync.Mutex
	context unsafe.Pointer // protected by mu; nil where there is none
}

// Open opens CUDA's library and finds the GPUs. Windows can be made then; copies have to wait for
// Connect. It fails with what is missing (errors.go), or as ctx ends, which is looked at between
// calls of the library. A GPU that CUDA cannot use, such as one that CUDA_VISIBLE_DEVICES hides,
// is missing by itself (Joined), where there are others.
func Open(ctx context.Context, opts Options) (*Engine, error) {
	if opts.Library == "" {
		opts.Library = "libcuda.so.1"
	}
	if opts.Piece == 0 {
		opts.Piece = 64 << 20
	}
	if len(opts.GPUs) == 0 {
		return nil, fmt.Errorf("an engine without GPUs: %w", mem.ErrInvalidValue)
	}
	n := len(opts.GPUs)
	e := &Engine{opts: opts, gpus: make([]gpu, n), apart: make([]error, n*n), open: make([]atomic.Bool, n*n), windows: make(map[*Window]struct{})}
	var err error
	ours(func() { err = e.find(ctx) })
	if err != nil {
		return nil, err
	}
	return e, nil
}

// ours calls f on a thread that is no program's: who calls us may be on one that is.
func ours(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
	}()
	<-done
}

// find opens the library, finds the GPUs and which are joined, and starts the pilot.
func (e *Engine) find(ctx context.Context) error {
	if C.gw_cuda_forked() != 0 {
		return errForked
	}
	name := C.CString(e.opts.Library)
	defer C.free(unsafe.Pointer(name))
	var lacking, why *C.char
	if e.cuda = C.gw_cuda_open(name, &lacking, &why); e.cuda == nil {
		if lacking != nil {
			return fmt.Errorf("%s lacks %s, %s: %w", e.opts.Library, C.GoString(lacking), C.GoString(why), errOldLibrary)
		}
		return fmt.Errorf("%s: %w", C.GoString(why), errNoLibrary)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := C.gw_cu_init(e.cuda)
	C.gw_cuda_guard_again()
	if r != 0 {
		return e.failed(r, "cuInit")
	}
	there := false
	for i, u := range e.opts.GPUs {
		if err := ctx.Err(); err != nil {
			return err
		}
		e.gpus[i].missing = e.findGPU(&e.gpus[i], u)
		there = there || e.gpus[i].missing == nil
	}
	if !there {
		return e.gpus[0].missing
	}
	for i := range e.gpus {
		for j := range i + 1 {
			err := e.findLink(i, j)
			if err == nil {
				err = e.findLink(j, i)
			}
			e.apart[i*len(e.gpus)+j], e.apart[j*len(e.gpus)+i] = err, err
		}
	}
	begin := *(*unsafe.Pointer)(unsafe.Pointer(&e.opts.OnThread)) // a C function
	if e.nv = C.gw_nv_new(e.cuda, C.int(len(e.gpus)), C.size_t(e.opts.Piece), (*[0]byte)(begin)); e.nv == nil {
		return fmt.Errorf("a thread for copies: %w", mem.ErrNoResources)
	}
	return nil
}

func (e *Engine) findGPU(g *gpu, u UUID) error {
	if r := C.gw_cu_find(e.cuda, (*C.uchar)(&u[0]), &g.device); r < 0 {
		return fmt.Errorf("%s, which CUDA does not see (CUDA_VISIBLE_DEVICES?): %w", u, ErrNoGPU)
	} else if r > 0 {
		return e.failed(r, "finding %s", u)
	}
	var granularity C.size_t
	var can C.int
	r := C.gw_cu_exports(e.cuda, g.device, &can, &granularity)
	if r != 0 {
		return e.failed(r, "what %s can", u)
	}
	if can == 0 {
		return fmt.Errorf("%s: %w", u, errNoExport)
	}
	e.granularity = max(e.granularity, uint64(granularity))
	return nil
}

// findLink is why one GPU does not reach another over NVLink. Over PCIe a ring through the
// host is as fast as the bus.
func (e *Engine) findLink(i, j int) error {
	from, to := &e.gpus[i], &e.gpus[j]
	var access, atomics C.int // NVLink has native atomics, PCIe has not
	switch {
	case from.missing != nil:
		return from.missing
	case to.missing != nil:
		return to.missing
	case from.device == to.device:
		return fmt.Errorf("%s is one GPU: %w", e.opts.GPUs[i], mem.ErrInvalidDevice)
	case C.gw_cu_peer(e.cuda, from.device, to.device, &access, &atomics) != 0 || access == 0 || atomics == 0:
		return fmt.Errorf("%s and %s: %w", e.opts.GPUs[i], e.opts.GPUs[j], ErrNoPeer)
	}
	return nil
}

// failed is the error for a CUresult.
func (e *Engine) failed(r C.int, format string, args ...any) error {
	cause := errFailed
	if r == C.CU_OUT_OF_MEMORY {
		cause = mem.ErrNoMemory
	}
	return fmt.Errorf("%s: %s: %w", fmt.Sprintf(format, args...), C.GoString(C.gw_cu_name(e.cuda, r)), cause)
}

// Err is why the engine makes no windows and starts no copies any more; nil while it does.
func (e *Engine) Err() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.errLocked()
}

func (e *Engine) errLocked() error {
	switch {
	case C.gw_cuda_forked() != 0:
		return errForked
	case e.closed:
		return fmt.Errorf("copies between GPUs: %w", mem.ErrClosed)
	}
	if e.lost != nil {
		return fmt.Errorf("copies between GPUs: %w: %w", errLost, e.lost)
	}
	if lost := C.gw_nv_lost(e.nv); lost != 0 {
		return fmt.Errorf("copies between GPUs: %s: %w", C.GoString(C.gw_cu_name(e.cuda, lost)), errLost)
	}
	return nil
}

// Lose retires the engine because windows of it cannot be used. Copies that were started go on.
func (e *Engine) Lose(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost == nil {
		e.lost = why
	}
}

// Joined is nil where copies can get between two GPUs, both ways, over NVLink. Else it is ErrNoPeer, or
// what a GPU lacks.
func (e *Engine) Joined(from, to int) error { return e.apart[from*len(e.gpus)+to] }

// Connected is nil where copies from a GPU to another can start. Else it is errNotConnected, or as Err.
func (e *Engine) Connected(from, to int) error {
	if err := e.Err(); err != nil || e.open[from*len(e.gpus)+to].Load() {
		return err
	}
	return fmt.Errorf("copies from %s to %s: %w: %w", e.opts.GPUs[from], e.opts.GPUs[to], errNotConnected, mem.ErrInvalidOperation)
}

// Connect opens two GPUs for copies between them: a CUDA context for each, side by side, which costs time
// and some 525 MiB of its memory. What is open costs nothing. It fails as Joined; as ctx ends, which is
// looked at between calls of the library; where memory has run out, with mem.ErrNoMemory, and can
// be called again; and as Err.
func (e *Engine) Connect(ctx context.Context, one, other int) (err error) {
	e.connecting.RLock()
	defer e.connecting.RUnlock()
	there, back := one*len(e.gpus)+other, other*len(e.gpus)+one
	if err := errors.Join(e.Err(), e.apart[there]); err != nil || e.open[there].Load() && e.open[back].Load() {
		return err
	}
	var beside sync.WaitGroup
	var errs [2]error
	for k, i := range [2]int{one, other} {
		beside.Go(func() { ours(func() { errs[k] = e.openContext(ctx, i) }) })
	}
	beside.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	ours(func() { err = e.openLanes(one, other) })
	return err
}

// openContext makes a GPU's context. connecting is held.
func (e *Engine) openContext(ctx context.Context, gpu int) error {
	g := &e.gpus[gpu]
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := ctx.Err(); err != nil || g.context != nil {
		return err
	}
	var c unsafe.Pointer
	r := C.gw_cu_context(e.cuda, g.device, &c)
	C.gw_cuda_guard_again()
	if r != 0 {
		return e.failed(r, "context on %s", e.opts.GPUs[gpu])
	}
	g.context = c
	return nil
}

// openLanes makes a lane each way between two GPUs that have contexts. connecting is held.
func (e *Engine) openLanes(one, other int) error {
	e.lanes.Lock()
	defer e.lanes.Unlock()
	for _, pair := range [2][2]int{{one, other}, {other, one}} {
		lane := pair[0]*len(e.gpus) + pair[1]
		if e.open[lane].Load() {
			continue
		}
		if r := C.gw_nv_lane(e.nv, C.int(lane), e.gpus[pair[0]].context); r != 0 {
			return e.failed(r, "stream from %s to %s", e.opts.GPUs[pair[0]], e.opts.GPUs[pair[1]])
		}
		e.open[lane].Store(true)
	}
	return nil
}

// Check tests the engine's invariants: its windows are of its GPUs and smaller than Limit.
func (e *Engine) Check() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for w := range e.windows {
		if w.e != e || w.gpu < 0 || w.gpu >= len(e.gpus) || w.address == 0 || w.size >= Limit || w.size%e.granularity != 0 {
			return fmt.Errorf("a window of %d bytes on GPU %d of %d, at %#x", w.size, w.gpu, len(e.gpus), w.address)
		}
	}
	return nil
}

// Close refuses what comes, waits until all copies have ended and gives everything back, windows
// that nobody has released too, which it names. In a forked child it does nothing.
func (e *Engine) Close() (err error) {
	if C.gw_cuda_forked() != 0 {
		return errForked
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return fmt.Errorf("copies between GPUs: %w", mem.ErrClosed)
	}
	e.closed = true
	e.mu.Unlock()
	e.connecting.Lock()
	defer e.connecting.Unlock()
	ours(func() { err = e.giveBack() })
	return err
}

// giveBack does. connecting is held.
func (e *Engine) giveBack() (err error) {
	C.gw_nv_close(e.nv)
	e.mu.Lock()
	defer e.mu.Unlock()
	var bytes uint64
	for w := range e.windows {
		bytes += w.size
		w.end()
	}
	if n := len(e.windows); n > 0 {
		err = fmt.Errorf("%d windows of %s were never released", n, mem.FormatBytes(bytes))
	}
	clear(e.windows)
	for i := range e.gpus {
		if c := e.gpus[i].context; c != nil {
			C.gw_cu_context_end(e.cuda, c)
		}
	}
	return err
}
