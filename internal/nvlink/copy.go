//go:build cgo

package nvlink

// #cgo noescape gw_nv_start
// #cgo nocallback gw_nv_start
// #include "calls.h"
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"godwit/mem"
)

// Start accepts a copy: its hook is told when it has ended. It never blocks, and allocates nothing in
// the steady state. It fails with mem.ErrInvalidValue on bytes that are not in the windows, with
// ErrNoPeer and ErrNotConnected, and as Err.
func (e *Engine) Start(c *Copy) error {
	at, err := e.between(c.Dst, c.Src, c.DstOff, c.SrcOff, c.Size)
	if err != nil {
		return err
	}
	if !e.open[at].Load() {
		return fmt.Errorf("copy from %s to %s: %w", e.opts.GPUs[c.Src.gpu], e.opts.GPUs[c.Dst.gpu], ErrNotConnected)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if err := e.errLocked(); err != nil {
		return err
	}
	if c.Dst.given || c.Src.given {
		return errGiven
	}
	var gates *C.gw_gate
	if len(c.Gates) > 0 {
		gates = (*C.gw_gate)(unsafe.Pointer(&c.Gates[0]))
	}
	hook := *(*unsafe.Pointer)(unsafe.Pointer(&c.Hook.Func)) // a C function
	if C.gw_nv_start(e.nv, C.int(c.Src.gpu), C.int(c.Dst.gpu), c.Dst.c, c.Src.c, C.size_t(c.DstOff), C.size_t(c.SrcOff), C.size_t(c.Size),
		gates, C.int(len(c.Gates)), (*[0]byte)(hook), C.uint64_t(c.Hook.Arg), C.uint64_t(c.ID)) != 0 {
		return fmt.Errorf("copy with %d gates: %w", len(c.Gates), mem.ErrNoHostMemory)
	}
	return nil
}

var errGiven = fmt.Errorf("copy of a window that was released: %w", mem.ErrInvalidValue)

// A Gate is a gw_gate.
var _ [0]struct{} = [unsafe.Sizeof(Gate{}) - C.sizeof_gw_gate]struct{}{}

// between checks a copy and returns the index of its two GPUs.
func (e *Engine) between(dst, src *Window, dstOff, srcOff, size uint64) (at int, err error) {
	if dst == nil || src == nil || dst.e != e || src.e != e {
		return 0, fmt.Errorf("copy of a window that is not this engine's: %w", mem.ErrInvalidValue)
	}
	at = src.gpu*len(e.gpus) + dst.gpu
	if err := e.peers[at].err; err != nil {
		return 0, err
	}
	if d, s := dst.size, src.size; size == 0 || dstOff > d || size > d-dstOff || srcOff > s || size > s-srcOff {
		return 0, fmt.Errorf("copy of %d bytes from %d in a window of %d to %d in one of %d: %w", size, srcOff, s, dstOff, d, mem.ErrInvalidValue)
	}
	return at, nil
}

// Time gives CUDA copies all at once and waits for them: what the GPUs can do, without us. Nothing else
// is to be under way. It fails as Start, and with ErrFailed.
func (e *Engine) Time(legs []Leg) (time.Duration, error) {
	c := make([]C.gw_leg, len(legs))
	for i, l := range legs {
		at, err := e.between(l.Dst, l.Src, l.DstOff, l.SrcOff, l.Size)
		if err == nil && !e.open[at].Load() {
			err = ErrNotConnected
		}
		if err == nil && l.After >= i {
			err = mem.ErrInvalidValue
		}
		if err != nil {
			return 0, fmt.Errorf("leg %d: %w", i, err)
		}
		for _, w := range []*Window{l.Dst, l.Src} {
			for !w.released() && w.mapping() { // one that was released may be unmapped by now
				time.Sleep(time.Millisecond)
			}
			if w.released() {
				return 0, errGiven
			}
			if r := C.gw_window_mapped(w.c); r < 0 {
				return 0, e.failed(-r, "mapping a window")
			}
		}
		c[i] = C.gw_leg{
			dst: l.Dst.c.address + C.uint64_t(l.DstOff), src: l.Src.c.address + C.uint64_t(l.SrcOff), size: C.size_t(l.Size),
			from: C.int32_t(l.Src.gpu), to: C.int32_t(l.Dst.gpu), after: C.int32_t(l.After),
		}
	}
	if err := e.Err(); err != nil || len(c) == 0 {
		return 0, err
	}
	var t C.int64_t
	ours(func() { t = C.gw_nv_time(e.nv, &c[0], C.int(len(c))) })
	if t < 0 {
		return 0, e.failed(C.int(-t), "timing %d copies", len(c))
	}
	return time.Duration(t), nil
}
