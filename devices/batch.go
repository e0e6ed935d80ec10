package devices

import "godwit/mem"

// Leg is one copy of a batch.
type Leg struct {
	// Queue carries it out: a queue of the family that the batch is submitted to.
	Queue Queue
	// Of Dst and Src one is a block of the queue's device; the other is staging
	// memory (Loc.Bytes, page-locked and outside the Go heap), or a block that the
	// queue reaches.
	Dst, Src Loc
	Size     uint64 // bytes
	// Data is the earlier leg of the batch whose bytes it carries on, to have
	// succeeded; -1 where it carries on none and waits for the batch's waits.
	Data int32
	// After are earlier legs that must have ended: they use the bytes that it
	// overwrites.
	After []int32
	To    int32 // the destination that it writes; -1 where it fills staging
}

// Batch is a ring of legs as a driver carries it out: the driver says when, the
// mover (package mover) what.
type Batch interface {
	// Stage gets the batch its staging memory and returns its legs, in the order in
	// which to submit them. gated says that some of its waits are not reached, so
	// that it would hold staging for long. Where there is none ok is false: a gated
	// batch is then held until its waits are reached and asked again, another until
	// Resume. Stage blocks nowhere and calls no driver, so it may be called under a
	// driver's locks. The legs are valid until Ended.
	Stage(gated bool) (legs []Leg, ok bool)
	// Ended tells that nothing touches the batch's staging any more. It is called
	// once for every accepted batch, staged or not, before the last of its points is
	// reached, and otherwise as Stage is.
	Ended()
}

// Batcher is a Queue whose driver takes a whole ring of legs at once, ties its legs
// together and to what they wait for by itself.
type Batcher interface {
	Queue
	// Joins reports whether legs of q may be in one batch with this queue's. It
	// does not change. What batches between the two need may be made with the first.
	Joins(q Queue) bool
	// SubmitBatch accepts a batch out of this queue's device, to destinations whose
	// queues are to. points[i], a point of to[i], is reached when all legs of that destination, and those that
	// they carry on, have ended. It never blocks. On error nothing was accepted. A
	// batch that is accepted and then enqueued in part only fails once what was
	// enqueued has ended. A leg that fails may fail all destinations of its batch.
	SubmitBatch(b Batch, to []Queue, waits []mem.Wait, points []mem.Point) error
	// Chunk is how many bytes a leg of a ring of size bytes to the device of q has at
	// best; 0 leaves that to the mover.
	Chunk(q Queue, size uint64) uint64
	// Resume says that a batch for which Stage had nothing can ask again.
	Resume(b Batch)
}
