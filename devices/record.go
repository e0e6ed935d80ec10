package devices

import (
	"slices"

	"godwit/mem"
)

// record is an accepted command on its way. See engine.go for its life.
type record struct {
	q     *SoftQueue
	cmd   Command   // its slices are the record's own
	point mem.Point // of q's timeline
	times Times

	failed error // it was executed inside Submit, which may not end a point with an error

	gate // opens when it is ready

	args  []Arg  // storage of cmd.Args
	bytes []byte // storage of values and patterns

	next  *record // protected by q.mu: the successor in an in-order queue; the free list
	ready *record // protected by the engine's mu: the ready list
}

// opened implements the gate's owner.
func (r *record) opened() { r.q.engine.push(r) }

// fill copies cmd into the record, so that nothing of it is the caller's but
// the bytes to be copied.
func (r *record) fill(cmd *Command) {
	r.cmd = *cmd
	need := len(cmd.Pattern)
	for i := range cmd.Args {
		need += len(cmd.Args[i].Value) + 7
	}
	r.bytes = slices.Grow(r.bytes[:0], need)
	r.cmd.Pattern = r.keep(cmd.Pattern)
	r.args = append(r.args[:0], cmd.Args...)
	for i := range r.args {
		r.args[i].Value = r.keep(r.args[i].Value)
	}
	r.cmd.Args = r.args
}

// keep copies b to an 8-byte boundary of the record's storage, which has room.
func (r *record) keep(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	start := (len(r.bytes) + 7) &^ 7
	r.bytes = append(r.bytes[:start], b...)
	return r.bytes[start:len(r.bytes):len(r.bytes)]
}

// clear drops what the record refers to and keeps its storage.
func (r *record) clear() {
	clear(r.args)
	r.cmd, r.failed = Command{}, nil
	r.cause.Store(nil)
}

// run executes the command, unless something it depends on failed, and ends
// its point. Called by a worker.
func (r *record) run() {
	var err error
	if r.q.opts.Profiling {
		r.times.Started = now()
	}
	switch d := r.cause.Load(); {
	case d != nil:
		err = d
	case r.failed != nil:
		err = r.failed
	case r.cmd.Late != nil:
		err = r.runLate()
	default:
		err = r.q.engine.protect(&r.cmd)
	}
	r.q.finish(r, err)
}
