//go:build cgo

package opencl

import (
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Batches (devices.Batcher).
//
// A batch has a record for each destination, its ends, whose events are those of their last
// writes. The first end stands for the batch until OpenCL has it: it is held by what the batch
// waits for, asks for the staging, and has all legs enqueued by one call into C; then all ends
// are native. A leg's event is waited for by the legs that follow from it. The last write of an
// end waits for all writes of that end before it, where its queue does not see to that also when
// one fails (quirks): where it has ended well, so have they, and the reads that they waited for.
//
// Where it has not, or not all legs were enqueued, no end that failed is finished before every
// end has been completed and a goroutine has waited for every leg: staging is in use until then. What
// went wrong is what a leg says that did not end for what it waited for (look). Where all ended
// for that, and no Data wait failed, an Order wait has: the batch is enqueued once more, behind
// nothing.
//
// Legs go to in-order cl queues of the driver's own, in tracks: one for reads out of a device and
// one for writes into another. Of two devices there is a main track, where copies that are not
// gated follow each other without gaps, and side tracks for a batch alone until it has ended. A
// batch that still waits for something would hold all that comes after it on the main track, so
// it takes a side track; where none is free, or no staging for as long as that takes, it is held
// until its waits are reached. A batch of several destinations takes side tracks too: the slowest
// holds up its reads. Tracks are made by a goroutine when a batch first needs them. The queue that a batch
// comes from stays open until it has ended, and so do its device and the tracks.
//
// Everything in a track ends without help from outside, so nothing can stand still.
type batch struct {
	of      devices.Batch
	from    *Queue    // of the source
	ends    []*record // by destination; nil once recycled
	open    int       // ends that have not finished
	kept    int       // ends that have not been recycled
	tracks  []track   // by destination
	side    bool      // they are for this batch alone
	again   bool      // it was enqueued once more
	looking bool      // a goroutine waits for its legs
	looked  bool      // and has
	refused error     // why not all legs were enqueued, or why there are no tracks

	todo  []devices.Leg // of's, until they are enqueued
	legs  []ocl.Leg
	after []int32 // the list of legs
}

// track is two in-order queues of a route.
type track struct {
	read, write ocl.Queue
	of          *route
}

// route is the tracks from one device to another. Protected by host.mu.
type route struct {
	main track
	free []track // side tracks
	all  []track
	err  error // why there are none
}

type routeKey struct {
	from, to *Device
	timing   bool // the queues keep times
}

// to is what batches from q to o need.
func (q *Queue) to(o *Queue) routeKey { return routeKey{q.dev, o.dev, q.timing} }

// sideTracks is how many batches between two devices may be beside the main track at a
// time. Gated ones leave one for those of several destinations.
const sideTracks = 4

var _ devices.Batcher = (*Queue)(nil)

// Joins implements devices.Batcher.
func (q *Queue) Joins(o devices.Queue) bool {
	x, ok := o.(*Queue)
	return ok && x.dev.host == q.dev.host && q.dev.isDiscrete() && x.dev.isDiscrete()
}

// SubmitBatch implements devices.Batcher.
func (q *Queue) SubmitBatch(b devices.Batch, to []devices.Queue, waits []mem.Wait, points []mem.Point) error {
	h := q.dev.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := q.takesLocked(); err != nil {
		return err
	}
	for _, o := range to {
		x, ok := o.(*Queue)
		if !ok || x.dev.host != h || len(points) != len(to) {
			return fmt.Errorf("queue %s: a batch of %d points to queues of another platform: %w", q.line.Name(), len(points), mem.ErrInvalidQueue)
		}
		if err := x.takesLocked(); err != nil {
			return err
		}
	}
	q.inside++
	defer q.leaveLocked()
	x := h.takeBatchLocked(b, q, to, waits)
	_, err := h.submitUnlocks(x.ends[0])
	for i, o := range to {
		if err == nil {
			points[i] = x.ends[i].point
		}
		o.(*Queue).leaveLocked()
	}
	return err
}

// Chunk implements devices.Batcher: the mover measures.
func (q *Queue) Chunk(devices.Queue, uint64) uint64 { return 0 }

// Resume implements devices.Batcher.
func (q *Queue) Resume(b devices.Batch) {
	h := q.dev.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resumeLocked(func(x *batch) bool { return x.of == b })
}

// resumeLocked has batches that need staging ask again.
func (h *host) resumeLocked(which func(*batch) bool) {
	h.unstaged = slices.DeleteFunc(h.unstaged, func(x *batch) bool {
		if !which(x) {
			return false
		}
		h.unblockLocked(x.ends[0])
		return true
	})
}

func (h *host) takeBatchLocked(b devices.Batch, from *Queue, to []devices.Queue, waits []mem.Wait) *batch {
	var x *batch
	if n := len(h.batches); n > 0 {
		x, h.batches = h.batches[n-1], h.batches[:n-1]
	} else {
		x = new(batch)
	}
	x.of, x.from, x.open, x.kept = b, from, len(to), len(to)
	for _, o := range to {
		r := h.takeLocked(o.(*Queue), devices.OpCopy, len(waits)+len(to))
		r.q.inside++
		r.batch, r.end, r.waits = x, len(x.ends), append(r.waits, waits...)
		if q := r.q; q.inOrder && !q.tail.Reached() {
			r.waits = append(r.waits, mem.Wait{Point: q.tail, Kind: mem.Order})
		}
		x.ends = append(x.ends, r)
	}
	for _, r := range x.ends[1:] { // the first waits for all of them
		x.ends[0].waits = append(x.ends[0].waits, r.waits[len(waits):]...)
	}
	return x
}

// ends are what r stands for: the ends of its batch, or itself alone.
func (r *record) ends() []*record {
	if r.batch == nil || r.end != 0 {
		return r.self[:]
	}
	return r.batch.ends
}

// stagedLocked reports whether the batch that r stands for has its tracks and legs, and nothing holds
// it. One that is gated, and would hold them for long, goes on where its waits are reached; another
// when it is resumed.
func (h *host) stagedLocked(r *record) bool {
	x, gated := r.batch, len(r.edges) > 0
	if h.takeTracksLocked(x, gated) {
		if x.refused != nil {
			return true
		}
		if legs, ok := x.of.Stage(gated); ok {
			x.todo = legs
			return true
		}
		h.giveTracksLocked(x)
	}
	if gated {
		r.strict = true
		return h.resolveLocked(r)
	}
	r.Reset()
	h.unstaged = append(h.unstaged, x)
	return false
}

// takeTracksLocked finds the batch tracks, or notes why there can be none; false where there are none now.
func (h *host) takeTracksLocked(x *batch, gated bool) bool {
	if len(x.tracks) > 0 {
		return true
	}
	side, keep := gated || len(x.ends) > 1, 0
	if gated {
		keep = 1
	}
	for _, r := range x.ends {
		w := h.routeLocked(x.from.to(r.q))
		switch {
		case w == nil, side && w.err == nil && len(w.free) <= keep:
			h.giveTracksLocked(x)
			return false
		case w.err != nil:
			delete(h.routes, x.from.to(r.q)) // the next batch tries again
			x.refused = w.err
			return true
		case side:
			x.side, x.tracks, w.free = true, append(x.tracks, w.free[len(w.free)-1]), w.free[:len(w.free)-1]
		default:
			x.tracks = append(x.tracks, w.main)
		}
	}
	return true
}

// giveTracksLocked gives back a batch's tracks.
func (h *host) giveTracksLocked(x *batch) {
	for i, t := range x.tracks {
		if x.side {
			t.of.free = append(t.of.free, t)
		}
		x.tracks[i] = track{}
	}
	x.tracks, x.side = x.tracks[:0], false
}

// routeLocked finds the tracks between two devices, or has them made and returns nil.
func (h *host) routeLocked(k routeKey) *route {
	w, ok := h.routes[k]
	if !ok {
		h.routes[k] = nil
		h.moving.Go(func() {
			w := h.newRoute(k)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.routes[k] = w
			h.ended.Broadcast()
			h.resumeLocked(func(*batch) bool { return true })
		})
	}
	return w
}

// newRoute makes the tracks between two devices.
func (h *host) newRoute(k routeKey) *route {
	w := new(route)
	var err error
	for i := 0; i <= sideTracks && err == nil; i++ {
		t := track{of: w}
		if t.read, err = h.context.NewQueue(k.from.found.device, false, k.timing); err == nil {
			if t.write, err = h.context.NewQueue(k.to.found.device, false, k.timing); err != nil {
				t.read.Release()
			}
		}
		if err == nil {
			w.all = append(w.all, t)
		}
	}
	if err != nil {
		w.release()
		return &route{err: fmt.Errorf("command queues from device %s to %s: %w: %w", k.from.name, k.to.name, err, mem.ErrNoResources)}
	}
	w.main, w.free = w.all[0], slices.Clone(w.all[1:])
	return w
}

// release gives the queues up, in which nothing is left.
func (w *route) release() {
	for _, t := range w.all {
		for _, q := range []ocl.Queue{t.read, t.write} {
			q.Finish() // a lost device has nothing left to finish
			q.Release()
		}
	}
}

// dropRoutes gives up the tracks from and to d. No queue of d is open, so batches from and to it have
// ended.
func (h *host) dropRoutes(d *Device) {
	var gone []*route
	h.mu.Lock()
	for k, w := range h.routes {
		if k.from != d && k.to != d {
			continue
		}
		for ; w == nil; w = h.routes[k] { // being made
			h.ended.Wait()
		}
		gone = append(gone, w)
		delete(h.routes, k)
	}
	h.mu.Unlock()
	for _, w := range gone {
		w.release()
	}
}

// enqueue gives a batch to OpenCL, behind events. It fails where no leg was enqueued; of one
// that was refused later, refused says why. It is called without locks.
func (x *batch) enqueue(h *host, behind []ocl.Event) error {
	if x.refused != nil {
		return x.refused
	}
	if err := x.encode(h); err != nil {
		return err
	}
	st := ocl.Submit(x.legs, x.after, behind, !h.quirks.startsAtOnce)
	if st != 0 {
		err := statusError(st, "batch of %d copies to device %s", len(x.legs), x.ends[0].q.dev.name)
		if x.ends[0].q.dev.sees(st); x.legs[0].Event == 0 {
			return err
		}
		x.refused = err
	}
	for i, r := range x.ends {
		last := &x.legs[x.last(i)]
		r.event, r.cmd.NoCallback = last.Event, last.NoCallback
		if r.event == 0 { // no callback comes: the refusal is its end
			r.callbackDue, r.completed, r.status = false, true, st
		}
	}
	return nil
}

// last is the index of the last leg of destination i.
func (x *batch) last(i int) int {
	k := len(x.todo) - 1
	for x.todo[k].To != int32(i) {
		k--
	}
	return k
}

// encode finds the cl objects of the legs.
func (x *batch) encode(h *host) error {
	x.legs, x.after = slices.Grow(x.legs[:0], len(x.todo)), x.after[:0]
	for k := range x.todo {
		l := &x.todo[k]
		q, ok := l.Queue.(*Queue)
		if !ok || q.dev.host != h || l.To >= int32(len(x.ends)) {
			return fmt.Errorf("leg %d of a batch: its queue or destination is none of the batch's: %w", k, mem.ErrInvalidQueue)
		}
		c := ocl.Leg{Queue: x.tracks[max(l.To, 0)].write, Size: l.Size, Data: l.Data, After: uint32(len(x.after))}
		if l.To < 0 {
			c.Queue = x.tracks[0].read
		}
		if k > 0 && l.Data < 0 && l.To < 0 && h.quirks.failedWaitsKeepOrder {
			c.Data = -2 // it follows the first read, which waits: another wait costs time
		}
		var err error
		if c.Src, c.SrcOff, err = h.locate(&c, &l.Src, l.Size); err == nil {
			c.Dst, c.DstOff, err = h.locate(&c, &l.Dst, l.Size)
		}
		if err != nil {
			return fmt.Errorf("leg %d of a batch: %w", k, err)
		}
		x.after = append(x.after, l.After...)
		if l.To >= 0 && k == x.last(int(l.To)) {
			for i := range x.todo[:k] {
				if x.todo[i].To == l.To && !h.quirks.failedWaitsKeepOrder {
					x.after = append(x.after, int32(i))
				}
			}
			c.Listen(x.ends[l.To].tag)
		}
		c.Afters = uint32(len(x.after)) - c.After
		x.legs = append(x.legs, c)
	}
	return nil
}

// locate finds one end of a leg: a block, or staging, whose address is Host.
func (h *host) locate(c *ocl.Leg, l *devices.Loc, n uint64) (m ocl.Mem, off uint64, err error) {
	if d, ok := l.Device.(*Device); ok && d.host == h {
		at, err := d.locate(l.Block, l.Off, n, false)
		return at.mem, at.off, err
	}
	if l.Device != nil || uint64(len(l.Bytes)) < n || !h.pinned.holds(addressOf(l.Bytes), n) {
		return 0, 0, fmt.Errorf("%d bytes that are neither a block of the platform's nor page-locked by it: %w", n, mem.ErrInvalidValue)
	}
	c.Host = uintptr(addressOf(l.Bytes))
	return 0, 0, nil
}

// settlesLocked reports whether r, an end that OpenCL has ended, may be finished, or
// enqueued again, as it says. With the last end that is completed, it has a goroutine look where
// one failed.
func (h *host) settlesLocked(r *record) bool {
	x := r.batch
	if x.looked {
		return true
	}
	failed, all := false, true
	for _, e := range x.ends {
		if e != nil && e.state == native {
			failed, all = failed || e.completed && e.status < 0, all && e.completed
		}
	}
	if failed && all && !x.looking {
		x.looking = true
		h.moving.Go(func() { h.look(x) })
	}
	return r.status == 0
}

// look waits for all legs of a batch of which some have failed, and settles its ends.
func (h *host) look(x *batch) {
	own := ocl.Status(0)
	for i := range x.legs {
		if e := x.legs[i].Event; e != 0 {
			if st := e.Wait(); st < 0 && own == 0 && !endedByWaits(st) {
				own = st
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining++
	x.looked = true
	ends := slices.Clone(x.ends)
	for _, e := range ends {
		if e != nil && e.state == native && e.completed && e.status < 0 && own != 0 {
			e.status = own
		}
	}
	for _, e := range ends {
		if e != nil && e.state == native && e.completed && e.status < 0 {
			h.readyLocked(e)
		}
	}
	h.drainUnlocks(mostTrash)
}

// mayAgain reports whether all of a batch may be enqueued once more.
func (x *batch) mayAgain() bool {
	return !x.again && x.refused == nil && x.open == len(x.ends) &&
		!slices.ContainsFunc(x.ends, func(e *record) bool { return e.state != native || e.callbackDue || !endedByWaits(e.status) })
}

// againBatchLocked is againLocked for all ends.
func (h *host) againBatchLocked(x *batch) {
	x.again, x.looked, x.looking = true, false, false
	for i := range x.legs {
		if e := x.legs[i].Event; e != 0 {
			end := x.ends[max(x.todo[i].To, 0)]
			end.earlier = append(end.earlier, e) // somebody may be looking at it
		}
	}
	for _, e := range x.ends {
		h.dropEdgesLocked(e)
		e.event = 0 // a leg's
		e.heldAgain()
	}
	x.legs = x.legs[:0]
	h.readyLocked(x.ends[0])
}

// endedLocked: an end of the batch is finished; with the last one nothing uses its staging
// and its tracks any more.
func (h *host) endedLocked(x *batch) {
	if x.open--; x.open > 0 {
		return
	}
	side := x.side
	h.giveTracksLocked(x)
	x.of.Ended()
	if x.from.feeds--; x.from.closing {
		h.ended.Broadcast()
	}
	if side && len(h.unstaged) > 0 {
		h.resumeLocked(func(*batch) bool { return true })
	}
}

// forgetLocked: r, an end of the batch, is recycled; with the last one the batch is.
func (x *batch) forgetLocked(h *host, r *record) {
	x.ends[r.end] = nil
	if x.kept--; x.kept > 0 {
		return
	}
	for i := range x.legs {
		if e := x.legs[i].Event; e != 0 {
			h.trash = append(h.trash, e)
		}
	}
	if h.giveTracksLocked(x); len(h.unstaged) > 0 { // of one that was refused
		h.resumeLocked(func(*batch) bool { return true })
	}
	clear(x.ends)
	*x = batch{ends: x.ends[:0], tracks: x.tracks, legs: x.legs[:0], after: x.after[:0]}
	h.batches = append(h.batches, x)
}

// times are those of a batch's end: from the first read's start to the last write's end.
func (x *batch) times(r *record) [4]uint64 {
	t := x.legs[0].Event.Times()
	t[3] = r.event.Times()[3]
	return t
}
