//go:build cgo

package opencl

import (
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/storage"
	"godwit/mem"
)

// Copies that need no OpenCL.
//
// Where kernels run in this process, a device's memory is this process's, and a
// transfer a memcpy, which OpenCL makes in a thread of its own: two threads have to be
// woken for it, which takes as long as copying some hundred KiB, and a command, an
// event and a look at it are made and thrown away. So there the buffers lie in memory
// of ours (CL_MEM_USE_HOST_PTR; a probe tells whether that is where commands find it),
// and what is copied here are reads, writes and copies between two such devices whose waits are
// reached, that is, which OpenCL has no part in:
//
//   - up to directAtOnce, within Submit: copying costs less than enqueueing;
//   - up to directHeld, of commands that were held back, by who moves them on;
//   - reads and writes of any size that are deferred to their Wait (blocking.go).
//
// All others go to OpenCL, those with times too, which are its clock's.
const (
	directAtOnce = 8 << 10   // bytes
	directHeld   = 64 << 10  // bytes
	directPiece  = 256 << 10 // bytes copied in one go: nothing stops a goroutine meanwhile
	directLocked = 1 << 10   // bytes copied with host.mu held: to give it up takes as long
)

// isDirect finds out whether a device's memory can be this process's.
func (d *Device) isDirect() bool {
	return d.info.SVM.InPlace && d.info.SharesHost && d.host.worker == nil &&
		d.host.context.IsDirect(d.service)
}

// copyHere copies what r, which is done in place, has to copy.
func (r *record) copyHere() {
	if r.memory == 0 {
		return
	}
	at := storage.BytesAt(r.memory, uint64(len(r.bytes)))
	for bytes := r.bytes; len(bytes) > 0; {
		n := min(len(bytes), directPiece)
		if r.cmd.Op == ocl.Read {
			copy(bytes[:n], at[:n])
		} else {
			copy(at[:n], bytes[:n])
		}
		at, bytes = at[n:], bytes[n:]
	}
}

// copyNowUnlocks does r within Submit: held to free, and its point has ended. Nobody knows of r.
func (h *host) copyNowUnlocks(r *record) mem.Point {
	q := r.q
	if r.cmd.Size > directLocked {
		h.mu.Unlock()
		r.copyHere()
		h.mu.Lock()
	} else {
		r.copyHere()
	}
	p := q.line.Ended()
	if q.inOrder {
		q.tail = p
	}
	if r.point = p; q.timing && !r.forgotten {
		q.keepHostTimesLocked(r)
	}
	h.refuseLocked(r)
	return p
}

// copyUnlocks does and finishes r, which was accepted.
func (h *host) copyUnlocks(r *record) {
	r.to(elsewhere)
	h.mu.Unlock()
	r.copyHere()
	h.mu.Lock()
	h.finishUnlocks(r, nil)
}
