package history

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// Batches and lanes with faults.

// faultyBatcher is a queue that takes batches, and copies for lanes.
type faultyBatcher struct {
	*faultyQueue
	batcher devices.Batcher
	shuttle devices.Shuttle
	native  bool // the driver has its own queues in legs

	// Protected by Faults.mu.
	batches map[devices.Batch]*faultyBatch // under way
	tickets map[devices.Ticket]ticket      // by the number given out
	given   devices.Ticket
}

// Joins implements devices.Batcher.
func (q *faultyBatcher) Joins(other devices.Queue) bool { return q.batcher.Joins(plainQueue(other)) }

// SubmitBatch implements devices.Batcher.
func (q *faultyBatcher) SubmitBatch(b devices.Batch, to []devices.Queue, waits []mem.Wait, points []mem.Point) error {
	f := q.f
	x := f.draw(callBatch, string(callBatch))
	if x == faultRefused {
		if f.pieces { // of a transfer that was accepted before, perhaps
			f.hitAny()
		}
		return errFault
	}
	plain := make([]devices.Queue, len(to))
	for i := range to {
		plain[i] = plainQueue(to[i])
	}
	w := &faultyBatch{Batch: b, q: q, struck: x != faultNone}
	f.mu.Lock()
	q.batches[b] = w
	f.mu.Unlock()
	var err error
	switch x {
	case faultUndone:
		err = q.undone(w, plain, waits, points)
	default:
		err = q.batcher.SubmitBatch(w, plain, waits, points)
	}
	if err != nil {
		w.forget()
		return err
	}
	for i := range to {
		if x == faultDone {
			if points[i], err = plain[i].Submit(f.failing(), []mem.Wait{{Point: points[i], Kind: mem.Order}}); err != nil {
				return err
			}
		}
		f.mu.Lock()
		f.last[points[i].Line] = points[i]
		f.mu.Unlock()
	}
	return nil
}

// undone accepts a batch, of which nothing is done.
func (q *faultyBatcher) undone(w *faultyBatch, to []devices.Queue, waits []mem.Wait, points []mem.Point) error {
	q.f.hitAny()
	order := make([]mem.Wait, len(waits)) // it fails for itself, so as to end in any case
	for i := range waits {
		order[i] = mem.Wait{Point: waits[i].Point, Kind: mem.Order}
	}
	var left atomic.Int32
	left.Store(int32(len(to)))
	pause := q.f.pause()
	for i := range to {
		p, err := to[i].Submit(&devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error {
			time.Sleep(pause)
			if left.Add(-1) == 0 {
				w.Ended()
			}
			return errFault
		}}, order)
		if err != nil {
			return err
		}
		points[i] = p
	}
	return nil
}

// Chunk implements devices.Batcher.
func (q *faultyBatcher) Chunk(to devices.Queue, size uint64) uint64 { return q.batcher.Chunk(to, size) }

// Resume implements devices.Batcher.
func (q *faultyBatcher) Resume(b devices.Batch) {
	q.f.mu.Lock()
	w := q.batches[b]
	q.f.mu.Unlock()
	if w != nil {
		q.batcher.Resume(w)
	}
}

// faultyBatch is a batch as its driver sees it.
type faultyBatch struct {
	devices.Batch
	q      *faultyBatcher
	struck bool
	legs   []devices.Leg // as the driver has them; set by Stage, which comes once at a time
}

// Stage implements devices.Batch.
func (w *faultyBatch) Stage(gated bool) ([]devices.Leg, bool) {
	legs, ok := w.Batch.Stage(gated)
	if !ok || w.legs != nil {
		return w.legs, ok
	}
	w.legs = append(w.legs, legs...)
	for i := range w.legs {
		l := &w.legs[i]
		if w.struck && l.To >= 0 {
			w.q.f.hit(&devices.Command{Dst: l.Dst, Src: l.Src, Size: l.Size})
		}
		if w.q.native {
			l.Queue = plainQueue(l.Queue)
			l.Dst.Device, l.Src.Device = Unwrap(l.Dst.Device), Unwrap(l.Src.Device)
		}
	}
	return w.legs, true
}

// Ended implements devices.Batch.
func (w *faultyBatch) Ended() {
	w.forget()
	w.Batch.Ended()
}

func (w *faultyBatch) forget() {
	w.q.f.mu.Lock()
	defer w.q.f.mu.Unlock()
	delete(w.q.batches, w.Batch)
}

// ticket is a lane's copy that was begun.
type ticket struct {
	of   devices.Ticket // of the driver's; of meaning where the copy was begun
	x    fault
	copy devices.Command
}

// Start implements devices.Shuttle.
func (q *faultyBatcher) Start(dst, src devices.Loc, size uint64) (devices.Ticket, error) {
	f := q.f
	t := ticket{copy: devices.Command{Dst: dst, Src: src, Size: size}, x: f.draw(callLane, string(callLane))}
	if t.x != faultNone {
		f.hit(&t.copy)
	}
	if t.x == faultRefused {
		return 0, errFault
	}
	if t.x != faultUndone {
		var err error
		dst.Device, src.Device = Unwrap(dst.Device), Unwrap(src.Device)
		if t.of, err = q.shuttle.Start(dst, src, size); err != nil {
			return 0, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q.given++
	q.tickets[q.given] = t
	return q.given, nil
}

// Finish implements devices.Shuttle.
func (q *faultyBatcher) Finish(n devices.Ticket) error {
	q.f.mu.Lock()
	t := q.tickets[n]
	delete(q.tickets, n)
	q.f.mu.Unlock()
	var err error
	if t.x != faultUndone {
		err = q.shuttle.Finish(t.of)
	}
	if t.x != faultNone {
		err = errors.Join(err, errFault)
	}
	return err
}
