package engine

import (
	"slices"
	"unsafe"

	"godwit/devices"
	"godwit/devices/gate"
	"godwit/mem"
)

// record is an accepted command on its way. See engine.go for its life. A gated
// program can have a million of them, most of them markers: so what the command
// is lies in another record, which a marker does without.
type record struct {
	q         *Queue
	seq       uint64 // of its point on q's timeline
	gate.Gate        // opens when it is ready
	work      *todo  // nil for a marker on a queue that keeps no times

	next  *record // protected by q.mu: the successor in an in-order queue; the free list
	ready *record // protected by the engine's mu: the ready list; by q.mu once it runs: q.active
}

// todo is what a record has to do. Pooled, with its storage.
type todo struct {
	cmd    devices.Command // its slices are the work's own; Args keeps its storage
	times  devices.Times
	failed error // it was executed inside Submit, which may not end a point with an error

	bytes []byte // storage of values and patterns
	next  *todo  // protected by Queue.mu: the free list
}

// A todo has at most 512 bytes: the collector looks at larger objects one by one, which
// makes a million gated launches a tenth slower.
const _ = 512 - unsafe.Sizeof(todo{})

// dataRecord and orderRecord are records as seen by the points they wait for.
type (
	dataRecord  record
	orderRecord record
)

// PointReached implements mem.Waiter.
func (w *dataRecord) PointReached(p mem.Point, err error) {
	r := (*record)(w)
	if err != nil {
		r.Failed(p, err)
	}
	r.release(p)
}

// PointReached implements mem.Waiter.
func (w *orderRecord) PointReached(p mem.Point, _ error) { (*record)(w).release(p) }

// release drops a hold, that for by or for Submit; with the last the record is ready.
func (r *record) release(by mem.Point) {
	if r.Drop() {
		r.q.engine.push(r, by)
	}
}

func (r *record) point() mem.Point { return mem.Point{Line: r.q.line, Seq: r.seq} }

// op is what the record does.
func (r *record) op() devices.Op {
	if r.work == nil {
		return devices.OpMarker
	}
	return r.work.cmd.Op
}

// timed reports whether the record's times are kept.
func (r *record) timed() bool { return r.work != nil && r.work.times.Queued != 0 }

// fill copies cmd into the work, so that nothing of it is the caller's but the
// bytes to be copied.
func (w *todo) fill(cmd *devices.Command) {
	args := append(w.cmd.Args[:0], cmd.Args...)
	w.cmd = *cmd
	w.cmd.Args = args
	need := len(cmd.Pattern)
	for i := range cmd.Args {
		need += len(cmd.Args[i].Value) + 7
	}
	w.bytes = slices.Grow(w.bytes[:0], need)
	keep := func(b *[]byte) { // at an 8-byte boundary
		start := (len(w.bytes) + 7) &^ 7
		w.bytes = append(w.bytes[:start], *b...)
		*b = w.bytes[start:len(w.bytes):len(w.bytes)]
	}
	keep(&w.cmd.Pattern)
	for i := range args {
		if len(args[i].Value) > 0 {
			keep(&args[i].Value)
		}
	}
}

// clear drops what the work refers to and keeps its storage.
func (w *todo) clear() {
	clear(w.cmd.Args)
	w.cmd, w.failed, w.times = devices.Command{Args: w.cmd.Args[:0]}, nil, devices.Times{}
}

// run executes the command, unless something it depends on failed, and ends
// its point. Called by a worker.
func (r *record) run() {
	if d := r.Cause(); d != nil {
		r.q.finish(r, d)
		return
	}
	err := r.q.begin(r)
	switch w := r.work; {
	case err != nil:
	case w == nil:
	case w.failed != nil:
		err = w.failed
	case w.cmd.Carrier != nil:
		w.cmd.Carrier.Carry(r)
		return
	case w.cmd.Late != nil:
		err = w.runLate(r.q.engine)
	default:
		err = r.q.engine.protect(&w.cmd)
	}
	r.q.finish(r, err)
}

// Carried implements devices.Carried.
func (r *record) Carried(err error) { r.q.finish(r, err) }

// runLate runs a copy as far as its Late says.
func (w *todo) runLate(e *engine) error {
	if w.cut() {
		if err := e.protect(&w.cmd); err != nil {
			return err
		}
	}
	w.cmd.Late.Moved()
	return nil
}

// cut leaves of a copy what its Late asks for, and reports whether that is anything.
func (w *todo) cut() bool {
	part := devices.PartOf(w.cmd.Late, w.cmd.Size)
	w.cmd.Dst.Off += part.Start
	w.cmd.Src.Off += part.Start
	w.cmd.Size = part.Size()
	return !part.Empty()
}
