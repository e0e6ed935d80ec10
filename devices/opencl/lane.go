//go:build cgo

package opencl

import "godwit/devices/opencl/internal/ocl"

// stagerLane is one goroutine's part of a stager. Its fields are that goroutine's.
type stagerLane struct {
	s     *stager
	slots [2]slot
	times [4]uint64
}

// slot is a piece of the ring, and the move that is under way from or to it.
type slot struct {
	bytes []byte
	move  ocl.Event // 0 where there is none
	off   uint64    // bytes into the transfer
	n     uint64    // bytes
}

func (l *stagerLane) life() {
	for r := l.s.join(); r != nil; r = l.s.join() {
		r.begun.Store(true)
		if l.s.write {
			l.put(r)
		} else {
			l.get(r)
		}
		l.s.leave(r)
	}
}

// put moves chunks of r into the device.
func (l *stagerLane) put(r *record) {
	for k := 0; ; k ^= 1 {
		off, n, ok := l.s.chunk(r)
		if !ok {
			break
		}
		x := &l.slots[k]
		l.finish(r, x)
		copy(x.bytes[:n], r.bytes[off:off+n])
		l.start(r, x, off, n)
	}
	l.finish(r, &l.slots[0])
	l.finish(r, &l.slots[1])
}

// get moves chunks of r out of the device.
func (l *stagerLane) get(r *record) {
	for k, ok := 0, true; ok; k ^= 1 {
		var off, n uint64
		if off, n, ok = l.s.chunk(r); ok {
			l.start(r, &l.slots[k], off, n)
		}
		if x := &l.slots[k^1]; x.move != 0 && l.finish(r, x) {
			copy(r.bytes[x.off:x.off+x.n], x.bytes[:x.n])
		}
	}
}

// start enqueues the move of a chunk.
func (l *stagerLane) start(r *record, x *slot, off, n uint64) {
	e, st := r.staged.mem.Move(l.s.queue, r.staged.off+off, x.bytes[:n], l.s.write)
	if l.s.dev.sees(st) != 0 {
		l.s.fail(r, r.refusal(st))
		return
	}
	x.move, x.off, x.n = e, off, n
}

// finish waits for the move of a slot, where there is one, and reports whether it
// went well.
func (l *stagerLane) finish(r *record, x *slot) bool {
	if x.move == 0 {
		return true
	}
	var t *[4]uint64
	if r.q.timing {
		t = &l.times
	}
	st := x.move.Moved(t)
	x.move = 0
	if l.s.dev.sees(st) < 0 {
		l.s.fail(r, r.refusal(st))
		return false
	}
	if t != nil {
		l.s.mu.Lock()
		defer l.s.mu.Unlock()
		c := &r.staged.times
		if c.Ended == 0 || t[2] < c.Started {
			c.Queued, c.Submitted, c.Started = t[0], t[1], t[2]
		}
		c.Ended = max(c.Ended, t[3])
	}
	return true
}
