//go:build cgo

package opencl

import (
	"slices"

	"godwit/devices/opencl/internal/ocl"
	"godwit/devices/storage"
	"godwit/mem"
)

// Copies that need no OpenCL.
//
// Where kernels run in this process, a device's memory is this process's, and a
// transfer a memcpy, which OpenCL makes in a thread of its own: two threads have to be
// woken for it, which takes as long as copying some hundred KiB, and a command, an
// event and a look at it are made and thrown away. So there the buffers lie in memory
// of ours (CL_MEM_USE_HOST_PTR; a probe tells whether that is where commands find it),
// and what is copied here are reads and writes whose waits are reached, that is, which
// OpenCL has no part in:
//
//   - up to directAtOnce, within Submit: copying costs less than enqueueing;
//   - up to directHeld, of commands that were held back, by who moves them on;
//   - of any size where who submits waits at once (devices.Command.Awaited), in its
//     own thread: the record is left until its Wait comes, or a Flush.
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

// createDirect makes a cl_mem in memory of ours; 0 where there is no room.
func (s *store) createDirect(size uint64) (m ocl.Mem, memory uintptr) {
	if limit := s.dev.info.GlobalMemory; limit != 0 && (size > limit || s.reserved > limit-size) {
		return 0, 0
	}
	if m, memory = s.dev.host.context.NewDirectBuffer(size); m != 0 {
		s.reserved += size
	}
	return m, memory
}

// memoryOf is the address in this process of a block's address, which resolve has
// found; 0 where there is none.
func (s *store) memoryOf(addr uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.objects[addr>>objectShift-1]
	if o.memory == 0 {
		return 0
	}
	return uint64(o.memory) + addr&(1<<objectShift-1)
}

// bypass notes that r, a read or write of size bytes at off of b, can be done here.
func (r *record) bypass(b mem.Block, off, size uint64) {
	d := r.q.dev
	if !d.direct || r.q.times != nil || r.late != nil || !d.info.SharesHost {
		return
	}
	if addr, err := d.memory.Address(b, off, size); err == nil {
		r.memory = d.store.memoryOf(addr)
	}
}

// copyHere does r.
func (r *record) copyHere() {
	at := storage.BytesAt(r.memory, uint64(len(r.bytes)))
	for bytes := r.bytes; len(bytes) > 0; {
		n := min(len(bytes), directPiece)
		if r.cmd.Op == ocl.Write {
			copy(at[:n], bytes[:n])
		} else {
			copy(bytes[:n], at[:n])
		}
		at, bytes = at[n:], bytes[n:]
	}
}

// here reports whether r may be done by copyHere, being of at most so many bytes: its
// waits must be reached, and not just OpenCL's to see to.
func (r *record) here(most int) bool {
	return r.memory != 0 && r.reached && len(r.bytes) <= most
}

// copyNowLocked does r within Submit: held to free. mu is released in between, which
// nobody uses: nobody knows of r.
func (h *host) copyNowLocked(r *record) mem.Point {
	q := r.q
	if len(r.bytes) > directLocked {
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
	h.refuseLocked(r)
	return p
}

// copyLocked does and finishes r, which was accepted. mu is released in between.
func (h *host) copyLocked(r *record) {
	r.state = elsewhere
	h.mu.Unlock()
	r.copyHere()
	h.mu.Lock()
	h.finishLocked(r, nil)
}

// copyOwed does the command of p where it is left to who waits for it.
func (h *host) copyOwed(q *Queue, p mem.Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q.owed = slices.DeleteFunc(q.owed, func(x mem.Point) bool { return x == p })
	r := q.flight.get(p.Seq)
	if r == nil || !r.left {
		return
	}
	r.left = false // to nobody else
	h.draining++
	h.copyLocked(r)
	h.drainLocked()
}

// copyAllOwed does what is owed on the queue, in its order.
func (q *Queue) copyAllOwed() {
	h := q.dev.host
	for {
		h.mu.Lock()
		if len(q.owed) == 0 {
			h.mu.Unlock()
			return
		}
		p := q.owed[0]
		h.mu.Unlock()
		h.copyOwed(q, p)
	}
}
