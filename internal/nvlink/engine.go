//go:build cgo

package nvlink

// #cgo LDFLAGS: -ldl -lpthread
// #cgo noescape gw_nv_lost
// #cgo nocallback gw_nv_lost
// #cgo noescape gw_nv_flying
// #cgo nocallback gw_nv_flying
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
	opts        Options    // immutable
	cuda        *C.gw_cuda // immutable
	nv          *C.gw_nv   // immutable until it is closed
	gpus        []C.int    // immutable: CUDA's devices
	missing     []error    // immutable: by GPU: why CUDA cannot use it
	granularity uint64     // immutable
	peers       []peer     // immutable: from*len(gpus)+to

	background sync.WaitGroup // what maps and releases windows

	connecting chan struct{}    // holds a token: who has it, connects
	contexts   []unsafe.Pointer // protected by the token: by GPU; nil where there is none
	open       []atomic.Bool    // from*len(gpus)+to: copies can start

	mu      sync.RWMutex
	windows map[*Window]struct{} // protected by mu
	made    []bool               // protected by mu: by GPU: its windows are to be mapped
	bytes   uint64               // protected by mu
	closed  bool                 // protected by mu
}

type peer struct {
	Peer
	err error // why there is no way
}

// Open opens CUDA's library and finds the GPUs. Windows can be made then; copies have to wait for
// Connect. It fails with what is missing (errors.go), or as ctx ends, which is looked at between
// calls of the library. A GPU that CUDA cannot use, such as one that CUDA_VISIBLE_DEVICES hides,
// is missing by itself (Peer), where there are others.
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
	if _, err := Judge(opts.Driver); err != nil && !opts.Trial {
		return nil, err
	}
	e := &Engine{opts: opts, connecting: make(chan struct{}, 1), windows: make(map[*Window]struct{})}
	n := len(opts.GPUs)
	e.gpus, e.missing, e.peers, e.contexts, e.open, e.made = make([]C.int, n), make([]error, n), make([]peer, n*n), make([]unsafe.Pointer, n), make([]atomic.Bool, n*n), make([]bool, n)
	var err error
	ours(func() { err = e.find(ctx) })
	if err != nil {
		return nil, err
	}
	e.connecting <- struct{}{}
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

// find opens the library, finds the GPUs and their peers, and starts the pilot.
func (e *Engine) find(ctx context.Context) error {
	if C.gw_cuda_forked() != 0 {
		return ErrForked
	}
	name := C.CString(e.opts.Library)
	defer C.free(unsafe.Pointer(name))
	var lacking, why *C.char
	if e.cuda = C.gw_cuda_open(name, &lacking, &why); e.cuda == nil {
		if lacking != nil {
			return fmt.Errorf("%s lacks %s, %s: %w", e.opts.Library, C.GoString(lacking), C.GoString(why), ErrOldLibrary)
		}
		return fmt.Errorf("%s: %w", C.GoString(why), ErrNoLibrary)
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
		e.missing[i] = e.findGPU(i, u)
		there = there || e.missing[i] == nil
	}
	if !there {
		return e.missing[0]
	}
	for i := range e.gpus {
		for j := range e.gpus {
			e.peers[i*len(e.gpus)+j] = e.findPeer(i, j)
		}
	}
	begin := *(*unsafe.Pointer)(unsafe.Pointer(&e.opts.OnThread)) // a C function
	if e.nv = C.gw_nv_new(e.cuda, C.int(len(e.gpus)), C.size_t(e.opts.Piece), (*[0]byte)(begin)); e.nv == nil {
		return fmt.Errorf("a thread for copies: %w", mem.ErrNoResources)
	}
	return nil
}

func (e *Engine) findGPU(i int, u UUID) error {
	if r := C.gw_cu_find(e.cuda, (*C.uchar)(&u[0]), &e.gpus[i]); r < 0 {
		return fmt.Errorf("%s, which CUDA does not see (CUDA_VISIBLE_DEVICES?): %w", u, ErrNoGPU)
	} else if r > 0 {
		return e.failed(r, "finding %s", u)
	}
	var granularity C.size_t
	var can C.int
	r := C.gw_cu_exports(e.cuda, e.gpus[i], &can, &granularity)
	if r != 0 {
		return e.failed(r, "what %s can", u)
	}
	if can == 0 {
		return fmt.Errorf("%s: %w", u, ErrNoExport)
	}
	e.granularity = max(e.granularity, uint64(granularity))
	return nil
}

func (e *Engine) findPeer(i, j int) (p peer) {
	var access, atomics C.int
	switch {
	case e.missing[i] != nil:
		p.err = e.missing[i]
	case e.missing[j] != nil:
		p.err = e.missing[j]
	case e.gpus[i] == e.gpus[j]:
		p.err = fmt.Errorf("%s is one GPU: %w", e.opts.GPUs[i], mem.ErrInvalidDevice)
	case C.gw_cu_peer(e.cuda, e.gpus[i], e.gpus[j], &access, &atomics) != 0 || access == 0:
		p.err = fmt.Errorf("%s and %s: %w", e.opts.GPUs[i], e.opts.GPUs[j], ErrNoPeer)
	}
	p.NVLink = atomics != 0
	return p
}

// failed is the error for a CUresult.
func (e *Engine) failed(r C.int, format string, args ...any) error {
	cause := ErrFailed
	if r == C.CU_OUT_OF_MEMORY {
		cause = mem.ErrNoMemory
	}
	return fmt.Errorf("%s: %s: %w", fmt.Sprintf(format, args...), C.GoString(C.gw_cu_name(e.cuda, r)), cause)
}

// Error is the error for a positive status that a Hook was told.
func (e *Engine) Error(status int32) error {
	if err := e.Err(); err != nil {
		return fmt.Errorf("%w: %w", e.failed(C.int(status), "copy between GPUs"), err)
	}
	return e.failed(C.int(status), "copy between GPUs")
}

func (e *Engine) lost(r C.int) error {
	return fmt.Errorf("copies between GPUs: %s: %w", C.GoString(C.gw_cu_name(e.cuda, r)), ErrLost)
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
		return ErrForked
	case e.closed:
		return fmt.Errorf("copies between GPUs: %w", mem.ErrClosed)
	}
	if lost := C.gw_nv_lost(e.nv); lost != 0 {
		return e.lost(lost)
	}
	return nil
}

// Peer says how copies get from a GPU to another. It fails with ErrNoPeer where they cannot, and
// with what a GPU lacks.
func (e *Engine) Peer(from, to int) (Peer, error) {
	p := &e.peers[from*len(e.gpus)+to]
	return p.Peer, p.err
}

// Connected reports whether copies from a GPU to another can start: Connect has opened the two,
// and Err is nil.
func (e *Engine) Connected(from, to int) bool {
	return e.open[from*len(e.gpus)+to].Load() && e.Err() == nil
}

// Connect opens some GPUs for copies among each other: a CUDA context for each, which costs time
// and some 525 MiB of its memory. GPUs that are open cost nothing. It fails as ctx ends, which is
// looked at between calls of the library; where memory has run out, with mem.ErrNoMemory, and can
// be called again; and as Err.
func (e *Engine) Connect(ctx context.Context, gpus ...int) error {
	select {
	case <-e.connecting:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { e.connecting <- struct{}{} }()
	var err error
	ours(func() { err = e.connect(ctx, gpus) })
	return err
}

// connect does. Its caller has the token.
func (e *Engine) connect(ctx context.Context, gpus []int) error {
	if err := e.Err(); err != nil {
		return err
	}
	for _, i := range gpus {
		if err := errors.Join(ctx.Err(), e.Err()); err != nil {
			return err
		}
		if e.missing[i] != nil {
			return e.missing[i]
		}
		if e.contexts[i] != nil {
			continue
		}
		var c unsafe.Pointer
		r := C.gw_cu_context(e.cuda, e.gpus[i], &c)
		C.gw_cuda_guard_again()
		if r != 0 {
			return e.failed(r, "context on %s", e.opts.GPUs[i])
		}
		e.contexts[i] = c
	}
	for _, i := range gpus {
		for _, j := range gpus {
			at := i*len(e.gpus) + j
			if e.peers[at].err != nil || e.open[at].Load() {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if r := C.gw_nv_lane(e.nv, C.int(i), C.int(j), e.contexts[i]); r != 0 {
				return e.failed(r, "stream from %s to %s", e.opts.GPUs[i], e.opts.GPUs[j])
			}
			e.open[at].Store(true)
		}
	}
	e.mapAll(gpus)
	return nil
}

// Stats returns the engine's figures.
func (e *Engine) Stats() Stats {
	e.mu.RLock()
	defer e.mu.RUnlock()
	s := Stats{Windows: len(e.windows), Bytes: e.bytes}
	if e.nv != nil {
		s.Flying = int64(C.gw_nv_flying(e.nv))
	}
	for _, m := range e.made {
		if m {
			s.Contexts++
		}
	}
	return s
}

// Check tests the engine's invariants: its windows are of its GPUs, smaller than Limit, and as many
// bytes as it counts.
func (e *Engine) Check() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var bytes uint64
	for w := range e.windows {
		bytes += w.Size()
		if w.e != e || w.gpu < 0 || w.gpu >= len(e.gpus) || w.Size() >= Limit || w.Size()%e.granularity != 0 {
			return fmt.Errorf("a window of %d bytes on GPU %d of %d", w.Size(), w.gpu, len(e.gpus))
		}
	}
	if bytes != e.bytes {
		return fmt.Errorf("%d bytes of windows, but counted %d", bytes, e.bytes)
	}
	return nil
}

// Close refuses what comes, waits until all copies have ended and gives everything back, windows
// that nobody has released too, which it names. In a forked child it does nothing.
func (e *Engine) Close() error {
	if C.gw_cuda_forked() != 0 {
		return ErrForked
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return fmt.Errorf("copies between GPUs: %w", mem.ErrClosed)
	}
	e.closed = true
	e.mu.Unlock()
	<-e.connecting
	defer func() { e.connecting <- struct{}{} }()
	C.gw_nv_join(e.nv)
	e.background.Wait()
	var err error
	ours(func() { err = e.giveBack() })
	return err
}

func (e *Engine) giveBack() (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.windows); n > 0 {
		err = fmt.Errorf("%d windows of %s were never released", n, mem.FormatBytes(e.bytes))
	}
	C.gw_nv_free(e.nv)
	e.nv = nil
	for w := range e.windows {
		w.unmap()
	}
	for _, c := range e.contexts {
		if c != nil {
			C.gw_cu_context_end(e.cuda, c)
		}
	}
	clear(e.windows)
	clear(e.made)
	e.bytes = 0
	return err
}
