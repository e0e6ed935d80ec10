package mover

import (
	"fmt"
	"slices"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/internal/gate"
	"godwit/mem"
)

// transfer is a copy through staging to one or more destinations. See
// transport.go for its life. Pooled: it is free once every destination has
// landed and every leg has ended.
type transfer struct {
	gate.Gate
	t               *Transport
	src             End
	size            uint64
	late            devices.Late // nil where all of size is to move
	chunk           uint64
	dsts            []*arrival // pooled with the transfer
	n               int        // of dsts in use
	slots           []slot
	queued, started uint64       // times, where the transport profiles
	left            atomic.Int32 // destinations not landed, one for the submitter

	writes []mem.Point // of the last chunk in each slot, slots x destinations
	waits  []mem.Wait  // scratch
}

// arrival is one destination of a transfer.
type arrival struct {
	x     *transfer
	dst   End
	index int       // in the caller's list
	point mem.Point // on the transport's timeline
	left  atomic.Int32
	err   atomic.Pointer[error] // the first
}

// take returns a free transfer.
func (t *Transport) take(src End, size uint64) *transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	var x *transfer
	if n := len(t.spare); n > 0 {
		x, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		x = &transfer{t: t}
	}
	x.src, x.size = src, size
	if t.opts.Profiling {
		x.queued, x.started = devices.Now(), 0
	}
	t.stats.Flying++
	return x
}

// add adds a destination.
func (x *transfer) add(dst End, index int) {
	if x.n == len(x.dsts) {
		x.dsts = append(x.dsts, &arrival{x: x})
	}
	a := x.dsts[x.n]
	a.dst, a.index = dst, index
	a.err.Store(nil)
	x.n++
}

// begin accepts a transfer: where its waits are reached and there is staging,
// it is submitted at once.
func (t *Transport) begin(x *transfer, waits []mem.Wait, out []mem.Point) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		t.recycle(x)
		return fmt.Errorf("transport %s: %w", t.opts.Name, mem.ErrClosed)
	}
	x.chunk = t.chunkOf(x.src.Device, x.dsts[0].dst.Device, x.size)
	t.mu.Unlock()
	x.left.Store(int32(x.n) + 1)
	x.Hold(1)
	ready := x.late == nil // else the pump finds out what there is to move
	for i := 0; ready && i < len(waits); i++ {
		ready = waits[i].Point.Succeeded() || (waits[i].Kind == mem.Order && waits[i].Point.Reached())
	}
	if !ready {
		x.issue(out)
		x.Watch(waits, (*dataTransfer)(x), (*orderTransfer)(x))
		x.release()
		return nil
	}
	t.mu.Lock()
	ready, err := t.admit(x)
	if err == nil && !ready {
		x.issue(out) // before the pump can find it
		t.starved = append(t.starved, x)
	}
	t.mu.Unlock()
	if err == nil && ready {
		err = x.launch()
	}
	if err != nil {
		t.recycle(x)
		return err
	}
	if ready {
		x.issue(out)
		x.settle()
	}
	return nil
}

// issue gives every destination its point.
func (x *transfer) issue(out []mem.Point) {
	for _, a := range x.dsts[:x.n] {
		a.point = x.t.line.Next()
		out[a.index] = a.point
	}
}

// dataTransfer and orderTransfer are transfers as seen by the points they wait
// for.
type (
	dataTransfer  transfer
	orderTransfer transfer
)

// PointReached implements mem.Waiter.
func (w *dataTransfer) PointReached(p mem.Point, err error) {
	x := (*transfer)(w)
	x.Ended(p, err)
	x.release()
}

// PointReached implements mem.Waiter.
func (w *orderTransfer) PointReached(mem.Point, error) { (*transfer)(w).release() }

// release drops a hold; with the last the pump starts the transfer.
func (x *transfer) release() {
	if x.Drop() {
		x.t.post(task{x: x})
	}
}

// launch submits all legs. It fails where the first one is refused, and has
// then changed nothing. Each destination keeps one hold, for settle.
func (x *transfer) launch() error {
	for _, a := range x.dsts[:x.n] {
		a.left.Store(1)
	}
	if x.t.opts.Profiling {
		x.started = devices.Now()
	}
	ring := len(x.slots)
	x.writes = slices.Grow(x.writes[:0], ring*x.n)[:ring*x.n]
	clear(x.writes)
	for k, off := 0, uint64(0); off < x.size && !x.lost(); k, off = k+1, off+x.chunk {
		err := x.launchChunk(k%ring, off, min(x.chunk, x.size-off))
		if err != nil && k == 0 {
			return err
		}
		if err != nil {
			x.fail(err)
		}
	}
	x.t.count(func(s *TransportStats) { s.Staged++ })
	return nil
}

// lost reports whether no destination can succeed any more.
func (x *transfer) lost() bool {
	for _, a := range x.dsts[:x.n] {
		if a.err.Load() == nil {
			return false
		}
	}
	return true
}

// fail fails all destinations that have not landed.
func (x *transfer) fail(err error) {
	for _, a := range x.dsts[:x.n] {
		a.fail(err)
	}
}

// launchChunk submits the legs of one chunk. It fails where the read is refused.
func (x *transfer) launchChunk(s int, off, size uint64) error {
	bytes := x.slots[s].bytes[:size]
	before := x.writes[s*x.n : (s+1)*x.n]
	x.waits = x.waits[:0]
	for _, p := range before {
		if !p.Reached() {
			x.waits = append(x.waits, mem.Wait{Point: p, Kind: mem.Order})
		}
	}
	from := devices.Loc{Device: x.src.Device, Block: x.src.Block, Off: x.src.Off + off}
	read, err := x.t.submitLeg(x.src.Queue, devices.Loc{Bytes: bytes}, from, size, nil, x.waits)
	if err != nil {
		return fmt.Errorf("read of %d bytes into staging: %w", size, err)
	}
	x.waits = append(x.waits[:0], mem.Wait{Point: read, Kind: mem.Data})
	watched := false
	for i, a := range x.dsts[:x.n] {
		if a.err.Load() != nil {
			continue // this destination is lost already
		}
		to := devices.Loc{Device: a.dst.Device, Block: a.dst.Block, Off: a.dst.Off + off}
		write, err := x.t.submitLeg(a.dst.Queue, to, devices.Loc{Bytes: bytes}, size, nil, x.waits)
		if err != nil {
			a.fail(fmt.Errorf("write of %d bytes out of staging: %w", size, err))
			continue
		}
		before[i] = write
		a.watch(write)
		watched = true
	}
	if !watched { // all are lost, but may not end while the source is being read
		for _, a := range x.dsts[:x.n] {
			a.watch(read)
		}
		before[0] = read
	}
	return nil
}

// watch holds a destination until a leg has ended.
func (a *arrival) watch(leg mem.Point) {
	a.left.Add(1)
	if done, err := leg.Notify(a); done {
		a.PointReached(leg, err)
	}
}

// settle drops the submitter's holds: from here on the last leg to end lands
// its destination.
func (x *transfer) settle() {
	for _, a := range x.dsts[:x.n] {
		a.release()
	}
	x.done()
}

// done drops one hold of the transfer.
func (x *transfer) done() {
	if x.left.Add(-1) == 0 {
		x.t.recycle(x)
	}
}

// PointReached implements mem.Waiter: a leg has ended.
func (a *arrival) PointReached(_ mem.Point, err error) {
	if err != nil {
		a.fail(err)
	}
	a.release()
}

func (a *arrival) fail(err error) {
	if a.err.Load() == nil {
		a.err.CompareAndSwap(nil, &err)
	}
}

func (a *arrival) release() {
	if a.left.Add(-1) != 0 {
		return
	}
	if a.err.Load() != nil {
		a.x.t.post(task{a: a}) // not from within Copy
		return
	}
	if a.x.late != nil {
		a.x.late.Moved()
	}
	a.x.t.keepTimes(a)
	a.x.t.line.End(a.point, nil)
	a.x.done()
}

// cut leaves of a transfer what its Late asks for, now that it is known. Its
// chunk is chosen again for what is left.
func (x *transfer) cut() {
	part := devices.PartOf(x.late, x.size)
	x.src.Off += part.Start
	x.dsts[0].dst.Off += part.Start
	if x.size = part.Size(); part.Empty() {
		x.size = 0
		return
	}
	x.t.mu.Lock()
	x.chunk = x.t.chunkOf(x.src.Device, x.dsts[0].dst.Device, x.size)
	x.t.mu.Unlock()
}
