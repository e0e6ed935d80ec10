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
	cmd   devices.Command // its slices are the work's own; Args keeps its storage
	times devices.Times

	bytes []byte // storage of values and patterns
	notes *notes // nil until there are some; kept
	next  *todo  // protected by Queue.mu: the free list
}

// notes are what only some records have.
type notes struct {
	failed error    // it was executed inside Submit, which may not end a point with an error
	needs  []uint64 // protected by Queue.mu: points of its own queue that it waits for as Data
}

func (w *todo) note() *notes {
	if w.notes == nil {
		w.notes = new(notes)
	}
	return w.notes
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

// followed reports whether a wait needs nobody to be told: what r waits for of its own queue, where that is in order, has ended when
// r starts, and its queue tells r of a failure. Only a marker has no place to note that.
func (r *record) followed(w *mem.Wait) bool {
	return !r.q.opts.OutOfOrder && w.Point.Line == r.q.line && (r.work != nil || w.Kind == mem.Order)
}

// follow notes what r needs of its own queue. Queue.mu is held.
func (r *record) follow(waits []mem.Wait) {
	for i := range waits {
		w := &waits[i]
		switch {
		case w.Kind == mem.Order || !r.followed(w):
		case !w.Point.Reached():
			n := r.work.note()
			n.needs = append(n.needs, w.Point.Seq)
		case !w.Point.Succeeded():
			r.Failed(w.Point, w.Point.Err())
		}
	}
}

// watch has r wait for all else.
func (r *record) watch(waits []mem.Wait) {
	for i := range waits {
		if !r.followed(&waits[i]) {
			r.Watch(waits[i:i+1], (*dataRecord)(r), (*orderRecord)(r))
		}
	}
}

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

// fill copies cmd, and those behind it in its run, into the work, so that nothing of it is the caller's but the
// bytes to be copied.
func (w *todo) fill(cmd *devices.Command) {
	args, run, then, need := append(w.cmd.Args[:0], cmd.Args...), w.cmd.Run, cmd.Then(), roomOf(cmd)
	for i := range then {
		args = append(args, then[i].Args...)
		need += roomOf(&then[i])
	}
	w.bytes = slices.Grow(w.bytes[:0], need)
	if w.cmd = *cmd; len(then) > 0 && run == nil {
		run = new(devices.Run)
	}
	rest := w.own(&w.cmd, args)
	if w.cmd.Run = run; run != nil {
		run.Then = append(run.Then[:0], then...)
		for i := range run.Then {
			rest = w.own(&run.Then[i], rest)
		}
	}
	w.cmd.Args = args[:len(cmd.Args)] // with the room behind them
}

// roomOf is how many bytes a command's pattern and values take.
func roomOf(c *devices.Command) int {
	need := len(c.Pattern) + 7
	for i := range c.Args {
		need += len(c.Args[i].Value) + 7
	}
	return need
}

// own has a command's arguments be the first of args, and its bytes the work's. It returns the rest of args.
func (w *todo) own(c *devices.Command, args []devices.Arg) []devices.Arg {
	n := len(c.Args)
	c.Args = args[:n:n]
	w.keep(&c.Pattern)
	for i := range c.Args {
		if len(c.Args[i].Value) > 0 {
			w.keep(&c.Args[i].Value)
		}
	}
	return args[n:]
}

// keep copies bytes into the work, at an 8-byte boundary.
func (w *todo) keep(b *[]byte) {
	start := (len(w.bytes) + 7) &^ 7
	w.bytes = append(w.bytes[:start], *b...)
	*b = w.bytes[start:len(w.bytes):len(w.bytes)]
}

// clear drops what the work refers to and keeps its storage.
func (w *todo) clear() {
	n, run := len(w.cmd.Args), w.cmd.Run
	if run != nil {
		for i := range run.Then {
			n += len(run.Then[i].Args) // which lie behind the first's
		}
		clear(run.Then)
		run.Then = run.Then[:0]
	}
	clear(w.cmd.Args[:n])
	w.cmd, w.times = devices.Command{Args: w.cmd.Args[:0], Run: run}, devices.Times{}
	if n := w.notes; n != nil {
		n.failed, n.needs = nil, n.needs[:0]
	}
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
	case w.notes != nil && w.notes.failed != nil:
		err = w.notes.failed
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
