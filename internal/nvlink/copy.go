//go:build cgo

package nvlink

// #cgo noescape gw_nv_start
// #cgo nocallback gw_nv_start
// #include "pilot.h"
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"godwit/mem"
)

// Start accepts a copy: its hook is told when it has ended. It never blocks, and allocates nothing in
// the steady state. It fails with mem.ErrInvalidValue on bytes that are not in the windows, with
// ErrNoPeer and errNotConnected, and as Err.
func (e *Engine) Start(c *Copy) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if err := e.errLocked(); err != nil {
		return err
	}
	leg, err := e.leg(c)
	if err != nil {
		return err
	}
	var gates *C.gw_gate
	if len(c.Gates) > 0 {
		gates = (*C.gw_gate)(unsafe.Pointer(&c.Gates[0]))
	}
	hook := *(*unsafe.Pointer)(unsafe.Pointer(&c.Hook.Func)) // a C function
	if C.gw_nv_start(e.nv, leg, gates, C.int(len(c.Gates)), (*[0]byte)(hook), C.uint64_t(c.Hook.Arg), C.uint64_t(c.ID)) != 0 {
		return fmt.Errorf("copy with %d gates: %w", len(c.Gates), mem.ErrNoHostMemory)
	}
	return nil
}

// A Gate is a gw_gate.
var _ [0]struct{} = [unsafe.Sizeof(Gate{}) - C.sizeof_gw_gate]struct{}{}

// leg checks a copy and says it in CUDA's terms. mu is held, for reading at least.
func (e *Engine) leg(c *Copy) (leg C.gw_leg, err error) {
	dst, src := c.Dst, c.Src
	if dst == nil || src == nil || dst.e != e || src.e != e {
		return leg, fmt.Errorf("copy of a window that is not this engine's: %w", mem.ErrInvalidValue)
	}
	at := src.gpu*len(e.gpus) + dst.gpu
	switch d, s := dst.size, src.size; {
	case e.apart[at] != nil:
		return leg, e.apart[at]
	case c.Size == 0 || c.DstOff > d || c.Size > d-c.DstOff || c.SrcOff > s || c.Size > s-c.SrcOff:
		return leg, fmt.Errorf("copy of %d bytes from %d in a window of %d to %d in one of %d: %w", c.Size, c.SrcOff, s, c.DstOff, d, mem.ErrInvalidValue)
	case !e.open[at].Load():
		return leg, fmt.Errorf("copy from %s to %s: %w", e.opts.GPUs[src.gpu], e.opts.GPUs[dst.gpu], errNotConnected)
	}
	for _, w := range []*Window{dst, src} {
		if _, there := e.windows[w]; !there {
			return leg, errReleased
		}
	}
	return C.gw_leg{dst: dst.address + C.uint64_t(c.DstOff), src: src.address + C.uint64_t(c.SrcOff), size: C.size_t(c.Size), lane: C.int(at)}, nil
}

var errReleased = fmt.Errorf("copy of a window that was released: %w", mem.ErrInvalidValue)

// Time gives CUDA copies all at once and waits for them: what the GPUs can do, without us. It knows no gates and no
// hooks, and nothing else is to be under way. It fails as Start, and with errFailed.
func (e *Engine) Time(copies []Copy) (time.Duration, error) {
	e.mu.RLock()
	err := e.errLocked()
	legs := make([]C.gw_leg, len(copies))
	for i := 0; i < len(copies) && err == nil; i++ {
		legs[i], err = e.leg(&copies[i])
	}
	e.mu.RUnlock()
	if err != nil {
		return 0, err
	}
	var t C.int64_t
	ours(func() { t = C.gw_nv_time(e.nv, unsafe.SliceData(legs), C.int(len(legs))) })
	if t < 0 {
		return 0, e.failed(C.int(-t), "timing %d copies", len(legs))
	}
	return time.Duration(t), nil
}
