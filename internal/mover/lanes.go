package mover

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"godwit/devices"
	"godwit/mem"
)

// Lanes: how bytes get between pageable memory of this process and a device that is
// reached over a bus.
//
// Given pageable memory, a vendor's library copies it through a small buffer of its
// own, in the thread that calls: NVIDIA's gets along at 10 GB/s into the device and 19
// out of it, where the link has 55. So here goroutines copy, into or out of
// page-locked staging, and the device's queue moves what is staged meanwhile.
//
// A lane is one goroutine; those of a mover serve all its devices in both directions. A
// ring is cut into chunks, which lanes that are free take one after the other: into the
// device, a lane copies a chunk into one of its two slots, has the queue move it, and
// copies the next one into the other slot meanwhile; out of it, it has the next chunk
// moved before it copies the last one out. Slots are the ring's, so that a lane holds no
// memory. One lane for each MiB is the most that pays: waking a goroutine costs time
// too. On an H200's host, where one goroutine copies 6 GB/s, eight lanes reach 42 GB/s
// up and 36 down, four 28 and 26; larger or smaller slots are slower (docs/measured.md).
//
// Lanes start with the first work for them, and end in Close. Rings are worked off in
// the order in which they can begin.
const (
	laneChunk  = 2 << 20   // bytes of a slot
	leastChunk = 128 << 10 // bytes: smaller ones cost more than they overlap
	laneShare  = 1 << 20   // bytes of a ring for each lane
	mostLanes  = 64
)

// DefaultLanes is how many lanes a mover has where nobody says.
func DefaultLanes() int { return min(max(runtime.NumCPU()/2, 1), 8) }

// lanes are a mover's.
type lanes struct {
	m     *Mover         // immutable
	ended sync.WaitGroup // its goroutines

	mu      sync.Mutex
	work    sync.Cond // there are chunks, or closed; its L is mu
	jobs    []*ring   // protected by mu: rings with chunks nobody has taken, in order
	running int       // protected by mu: lanes
	idle    int       // protected by mu: of them, those without work
	closed  bool      // protected by mu
}

// laneWork is what a ring has of its lanes. Protected by lanes.mu.
type laneWork struct {
	next   uint64 // bytes taken by lanes so far
	most   int    // lanes that may work on it
	joined int    // lanes that ever were
	busy   int    // at work on it
}

// laneQueue is the queue of one memory and direction that lanes use: in order, and not
// shared with copies that wait for something. Its fields but the last two are immutable.
type laneQueue struct {
	queue  devices.Queue
	shut   devices.Shuttle // as queue; nil where it is none
	locker devices.PageLocker

	mu  sync.Mutex      // held over each Submit
	cmd devices.Command // protected by mu
}

func (l *lanes) init(m *Mover) { l.m, l.work.L = m, &l.mu }

// start has the queue move a slot's bytes.
func (q *laneQueue) start(dst, src devices.Loc, size uint64) (v laneMove, err error) {
	v.q = q
	if q.shut != nil && q.locked(dst.Bytes, src.Bytes) {
		v.shut = q.shut
		v.ticket, err = q.shut.Start(dst, src, size)
		return v, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cmd = devices.Command{Op: devices.OpCopy, Dst: dst, Src: src, Size: size}
	if v.p, err = q.queue.Submit(&q.cmd, nil); err == nil {
		_ = q.queue.Flush() // of a lost device, which the wait is told
	}
	return v, err
}

// locked reports whether the slot, which is one of both, is page-locked for the device.
func (q *laneQueue) locked(dst, src []byte) bool {
	b := src
	if dst != nil {
		b = dst
	}
	return q.locker.Locked(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), uint64(len(b)))
}

// wait waits for what start began.
func (v *laneMove) wait() error {
	if v.shut != nil {
		return v.shut.Finish(v.ticket)
	}
	return v.q.queue.Wait(context.Background(), v.p, devices.BlockThread)
}

// push has x, which has its staging, carried out.
func (l *lanes) push(x *ring) {
	w := &x.lanes
	*w = laneWork{most: min(x.lanesFor(), len(x.staging[0].bytes)/(2*int(x.chunk)))}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, x)
	for n := l.idle; n < w.most && l.running < l.m.opts.Lanes; n++ {
		l.running++
		l.ended.Go(l.life)
	}
	for range min(w.most, l.idle) {
		l.work.Signal()
	}
}

// lanesFor is how many lanes pay for a ring.
func (x *ring) lanesFor() int { return int(min(max(x.size/laneShare, 1), uint64(x.m.opts.Lanes))) }

// join waits for a ring that has chunks left and takes another lane, whose number on it
// is n; nil once the lanes are closed.
func (l *lanes) join() (x *ring, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		for _, x := range l.jobs {
			if w := &x.lanes; w.joined < w.most {
				w.joined++
				w.busy++
				return x, w.joined - 1
			}
		}
		l.idle++
		l.work.Wait()
		l.idle--
	}
	return nil, 0
}

// take takes the next chunk of x; ok is false where there is none left, or nothing can
// succeed any more.
func (l *lanes) take(x *ring) (off, n uint64, ok bool) {
	err := l.m.aborted()
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &x.lanes
	if err != nil && w.next < x.size { // what has been taken ends as it ends
		x.fail(err)
	}
	if x.lost() {
		w.next = x.size
	}
	if w.next < x.size {
		off, n, ok = w.next, min(x.chunk, x.size-w.next), true
		w.next += n
	}
	if i := slices.Index(l.jobs, x); w.next == x.size && i >= 0 {
		l.jobs = slices.Delete(l.jobs, i, i+1)
	}
	return off, n, ok
}

// leave ends a lane's part in x, and with the last one's the ring.
func (l *lanes) leave(x *ring) {
	l.mu.Lock()
	x.lanes.busy--
	last := x.lanes.busy == 0 && x.lanes.next == x.size
	l.mu.Unlock()
	if last {
		x.settle()
	}
}

// close ends the lanes. No ring is under way.
func (l *lanes) close() {
	l.mu.Lock()
	l.closed = true
	l.work.Broadcast()
	l.mu.Unlock()
	l.ended.Wait()
}

// laneSlot is half of a lane's staging on a ring, and the moves of it under way.
type laneSlot struct {
	bytes []byte
	off   uint64 // bytes into the ring's range
	size  uint64 // bytes
	moves []laneMove
}

type laneMove struct {
	q      *laneQueue
	p      mem.Point
	shut   devices.Shuttle // not nil: which has the ticket
	ticket devices.Ticket
	dest   *arrival
}

func (l *lanes) life() {
	var slots [2]laneSlot
	for x, n := l.join(); x != nil; x, n = l.join() {
		for k := range slots {
			at := uint64(2*n+k) * x.chunk
			slots[k].bytes = x.staging[0].bytes[at : at+x.chunk]
		}
		if x.m.mems[x.src.Memory].discrete && x.src.Bytes == nil {
			l.get(x, &slots)
		} else {
			l.put(x, &slots)
		}
		slots[0].bytes, slots[1].bytes = nil, nil
		l.leave(x)
	}
}

// put moves chunks of x into devices.
func (l *lanes) put(x *ring, slots *[2]laneSlot) {
	src, err := l.m.mems[x.src.Memory].bytes(&x.src, x.size)
	if err != nil {
		x.fail(err)
	}
	for k := 0; ; k ^= 1 {
		off, n, ok := l.take(x)
		if !ok {
			break
		}
		s := &slots[k]
		s.finish()
		s.off, s.size = off, n
		if !x.hand.touch(s.bytes[:n], src.Bytes[off:off+n]) {
			_, left := x.hand.over()
			x.fail(left)
			continue
		}
		for _, a := range x.dsts[:x.n] {
			if a.err.Load() == nil {
				s.start(l.m.mems[a.dst.Memory].lanes[1], a, l.m.loc(&a.dst, off), devices.Loc{Bytes: s.bytes[:n]})
			}
		}
	}
	slots[0].finish()
	slots[1].finish()
}

// get moves chunks of x out of a device.
func (l *lanes) get(x *ring, slots *[2]laneSlot) {
	a := x.dsts[0]
	dst, err := l.m.mems[a.dst.Memory].bytes(&a.dst, x.size)
	if err != nil {
		x.fail(err)
	}
	for k, ok := 0, true; ok; k ^= 1 {
		var off, n uint64
		if off, n, ok = l.take(x); ok {
			s := &slots[k]
			s.off, s.size = off, n
			s.start(l.m.mems[x.src.Memory].lanes[0], a, devices.Loc{Bytes: s.bytes[:n]}, l.m.loc(&x.src, off))
		}
		if s := &slots[k^1]; len(s.moves) > 0 && s.finish() {
			x.hand.touch(dst.Bytes[s.off:s.off+s.size], s.bytes[:s.size])
		}
	}
}

// start has a queue move the slot for a destination.
func (s *laneSlot) start(q *laneQueue, a *arrival, dst, src devices.Loc) {
	v, err := q.start(dst, src, s.size)
	if err != nil {
		a.fail(fmt.Errorf("%d bytes at %d by way of staging: %w", s.size, s.off, err))
		return
	}
	v.dest = a
	a.x.m.count(func(st *Stats) { st.Legs++ })
	s.moves = append(s.moves, v)
}

// finish waits for the moves of the slot, and reports whether all went well.
func (s *laneSlot) finish() bool {
	ok := true
	for _, v := range s.moves {
		if err := v.wait(); err != nil {
			v.dest.fail(err)
			ok = false
		}
	}
	clear(s.moves)
	s.moves = s.moves[:0]
	return ok
}
