//go:build cgo

package opencl

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/gate"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// A command, from Submit to its end.
//
// Each accepted command has a record, but for unobserved launches (unobserved.go) and what
// Submit does in place (direct.go), which are never more than a point. A record's state
// says who has it:
//
//	state     who has it
//	free      nobody
//	held      Submit, or what it waits for, or the ready list; OpenCL is being given it
//	native    OpenCL, which has an event of it, until it has been completed and settled
//	elsewhere a runner: a goroutine, the thread of the platform, a Carrier, a waiter; or who copies it
//	ended     nobody: its point has ended, or is being ended
//
// transitions is the table of what may follow what. What brings them about:
//
//   - take: free to held. accept then gives the record its point. Where OpenCL or the checks
//     refuse it before, refuse takes it back, and nothing has happened.
//   - resolve looks at what holds a record. What is in OpenCL becomes an edge: a
//     cl_event to wait for. What is held itself, or nothing of OpenCL's, is a blocker, and so
//     are all waits that are not reached where the record is strict, and staging that a batch lacks.
//     Who takes the last blocker away puts the record on the ready list (ready.go), from where
//     advance has it resolved again: the blockers may be edges by then.
//   - advance and Submit have it go on in one of four lanes (lanes.go): held to native, elsewhere or
//     ended.
//   - Of a batch, which has a record for each destination, the first stands for all until
//     OpenCL has them; batch.go says how they settle where a leg failed.
//   - completed notes that OpenCL has ended the command: by a callback, or because somebody asked.
//     That may come before native is noted, and the callback after the end.
//   - settle: native to ended, once all that the command waited for has ended:
//     callbacks come in any order, and a failure must be known before what depends on it ends.
//     The record is native meanwhile, and blockers hold it. Where OpenCL did not run the command
//     because something failed that was only to come before it, again makes it held, without
//     edges.
//   - A transfer that is deferred to a waiter goes from elsewhere to held or native (blocking.go).
//   - finish ends the point.
//   - recycle makes an ended record free, when its callback has come and nobody looks at its
//     event any more (users).
//
// A record that others know of is held by blockers, or once on the ready list, or one goroutine
// goes on with it.
//
// The record's fields are the submitting goroutine's until others can know of it, and
// protected by host.mu from then on, but for what is copied from the command, which does not
// change. mu is not held while OpenCL is called, bytes are copied or a point is ended: functions that
// are called with mu and give it up in between have names that end in Unlocks. No point
// is ended within Submit or within a waiter's call, but by the ready list: so chains do not
// recurse, and nothing is ended under a caller's lock.
type record struct {
	host      *host      // immutable
	index     int        // immutable: of host.records
	self      [1]*record // immutable
	tag       ocl.Tag    // immutable: C memory
	gate.Gate            // what holds it: its blockers
	pin       runtime.Pinner

	// Room, kept from one life to the next.
	waits   []mem.Wait
	few     [fewIn]mem.Wait // room for waits
	edges   []*record       // native records waited for; each has users raised
	after   []*record       // held until this one is native or ended
	handles []ocl.Event     // the events of edges
	args    []byte          // of launches, encoded; the pattern of a fill
	kernels []*Kernel       // of launches, each once
	two     [2]*Kernel      // room for kernels
	images  []*image        // of launches, to be released at the end
	unpin   []pinnedBlock   // to be unpinned at the end
	lent    []lent          // to be returned at the end
	hop     *hop

	life
}

// life is what a record is from take to recycle: all zero when it is free.
type life struct {
	q         *Queue
	point     mem.Point
	state     state
	op        devices.Op
	strict    bool // waits must be reached, not only be in OpenCL
	reached   bool // resolve has found no wait that is not
	listed    bool // on the ready list
	completed bool // OpenCL has ended it, or its runner
	pinned    bool // bytes are page-locked
	forgotten bool // nobody will ask for its times
	awaited   bool // its submitter waits for it at once

	callbackDue bool

	status  ocl.Status
	users   int // edges and polls that need event
	event   ocl.Event
	failure error       // the first failure among Data waits; a runner's
	earlier []ocl.Event // events of earlier tries

	// What to do, from the command.
	runner   func(*record) // carries it out where that is not OpenCL; its waits are reached then
	carrier  devices.Carrier
	deferred bool          // to its waiter, who carries it out
	bytes    []byte        // host end of a transfer; of a copy that can be done here, the source
	programs bool          // bytes are the program's, not a block's
	memory   uint64        // the other end's address, where it is this process's; else 0
	times    devices.Times // by the host's clock, where its queue keeps any: all of a host call, else what OpenCL cannot know
	batch    *batch        // it is an end of a batch
	end      int           // which
	hops     bool          // it is a copy between windows, hop
	late     devices.Late  // which part of the copy there is to do; nil is all
	call     func(context.Context) error
	begun    atomic.Bool // a runner has begun with it
	fences   uint64      // it is no command, but the marker of a fence: of the points up to this
	cmd      ocl.Command
	then     []ocl.Command // the launches behind cmd of a run; immutable
	form     []byte        // a run's arguments in place of args; its form's, and so good within Submit only
}

type state uint8

const (
	free state = iota
	held
	native
	elsewhere
	ended
)

// transitions are the states that may follow each, as bits.
var transitions = [...]uint8{
	free:      1 << held,
	held:      1<<native | 1<<elsewhere | 1<<ended,
	native:    1<<held | 1<<ended,
	elsewhere: 1<<held | 1<<native | 1<<ended,
	ended:     1 << free,
}

// to changes r's state. mu is held.
func (r *record) to(s state) {
	if transitions[r.state]>>s&1 == 0 {
		panic(fmt.Sprintf("opencl: %v from state %d to %d", r.op, r.state, s))
	}
	r.state = s
}

type pinnedBlock struct {
	pinner devices.HostBacked
	block  mem.Block
}

// moreRecords is how many records are made at once.
const moreRecords = 32

// A record has room from the start for so many bytes of arguments, and for so many others in each of its lists: each of
// thousands would grow its own. Those whose lists have grown serve commands with more waits.
const (
	fewArgs = 96
	fewIn   = 8
)

// takeLocked: free to held, with room for so many waits.
func (h *host) takeLocked(q *Queue, op devices.Op, waits int) *record {
	free := &h.free[0]
	if waits > fewIn && len(h.free[1]) > 0 {
		free = &h.free[1]
	}
	if len(*free) == 0 {
		some, room := make([]record, moreRecords), make([]byte, moreRecords*fewArgs)
		lists, events := make([]*record, 2*moreRecords*fewIn), make([]ocl.Event, moreRecords*fewIn)
		for i := range some {
			r, at := &some[i], i*fewIn
			r.self[0] = r
			r.host, r.index, r.tag, r.waits, r.args = h, len(h.records), h.sink.Tag(len(h.records)), r.few[:0], room[i*fewArgs:i*fewArgs:(i+1)*fewArgs]
			r.kernels = r.two[:0]
			r.edges, r.after, r.handles = lists[2*at:2*at:2*at+fewIn], lists[2*at+fewIn:2*at+fewIn:2*(at+fewIn)], events[at:at:at+fewIn]
			h.records = append(h.records, r)
			*free = append(*free, &some[len(some)-1-i]) // the first is taken first
		}
	}
	n := len(*free) - 1
	r := (*free)[n]
	*free = (*free)[:n]
	if waits > cap(r.waits) {
		r.waits, r.edges, r.handles = make([]mem.Wait, 0, waits), make([]*record, 0, waits), make([]ocl.Event, 0, waits)
	}
	r.q, r.op = q, op
	r.to(held)
	return r
}

// inUseLocked is how many records are not free.
func (h *host) inUseLocked() int { return len(h.records) - len(h.free[0]) - len(h.free[1]) }

// acceptLocked issues the point of r, or those of its batch.
func (h *host) acceptLocked(r *record) {
	if r.batch != nil {
		r.batch.from.feeds++
	}
	for _, x := range r.ends() {
		q := x.q
		x.point = q.line.Next()
		q.flight.put(x)
		q.pending++
		if x.hops {
			h.hopping++
		}
		if q.inOrder {
			q.tail = x.point
		}
	}
}

// refuseLocked takes back a record that was not accepted: held to free.
func (h *host) refuseLocked(r *record) {
	for _, x := range slices.Backward(r.ends()) { // the first stands for all
		x.letGo()
		h.dropEdgesLocked(x)
		x.event = 0
		x.to(ended)
		h.recycleLocked(x)
	}
}

// resolveLocked looks at r's waits, and returns whether nothing holds it. Failures of Data
// waits go to r.failure, or why its queue was aborted; then all waits have ended.
func (h *host) resolveLocked(r *record) bool {
	h.dropEdgesLocked(r)
	if r.failure == nil {
		r.failure = r.q.abort
	}
	r.reached = true
	r.Reset() // the hold of this call alone
	for i := range r.waits {
		if w := &r.waits[i]; w.Point.Reached() {
			r.note(w)
		} else {
			h.followLocked(r, w)
		}
	}
	switch {
	case !r.Drop():
		return false
	case !r.strict && r.failure != nil:
		r.strict = true
		return h.resolveLocked(r)
	case r.batch != nil && r.failure == nil:
		return h.stagedLocked(r)
	}
	return true
}

// followLocked has r come after w, whose point is not reached: behind an edge, or held.
func (h *host) followLocked(r *record, w *mem.Wait) {
	var x *record
	if q := r.queueOf(w.Point); q != nil && !r.strict {
		x = q.flight.get(w.Point.Seq)
		if x == nil && q.span.has(w.Point.Seq) {
			if q == r.line() {
				r.reached = false
				return // the cl queue orders them; settle sees how it ended
			}
			if c := q.span.fence; c != nil && c.fences >= w.Point.Seq {
				x = c
			}
		}
	}
	switch {
	case x != nil && x.hasEvent():
		r.reached = false
		// An in-order cl queue orders its own, but may end a command as soon as one of
		// its waits has failed, when others have not ended.
		if x.line() == nil || x.line() != r.line() || len(x.edges) > 0 {
			x.users++
			r.edges = append(r.edges, x)
		}
	case x != nil && x.state == held:
		x.after = append(x.after, r)
		r.Hold()
	default:
		r.await(w)
	}
}

// await has r wait for the end of a point, or notes how that ended. r has a hold.
func (r *record) await(w *mem.Wait) {
	if !w.Point.Reached() {
		r.Hold()
		if done, _ := w.Point.Notify(r); !done {
			return
		}
		r.Drop()
	}
	r.note(w)
}

// hasEvent reports whether others can wait for r in OpenCL.
func (r *record) hasEvent() bool {
	return r.state == native && (!r.completed || r.status == 0) && !r.hops
}

// queueOf is the queue of a point; nil where it is none of this host's.
func (r *record) queueOf(p mem.Point) *Queue {
	if p.Line == r.q.line { // most are
		return r.q
	}
	return r.host.lines[p.Line]
}

// line is the in-order cl queue in which r's event is, nil where there is none.
func (r *record) line() *Queue {
	if r.q.inOrder && r.batch == nil && r.call == nil && !r.hops {
		return r.q
	}
	return nil
}

// note remembers the failure of a reached Data wait.
func (r *record) note(w *mem.Wait) {
	if w.Kind == mem.Data && r.failure == nil && !w.Point.Succeeded() {
		r.failure = devices.Dependency(w.Point, w.Point.Err())
	}
}

func (h *host) dropEdgesLocked(r *record) {
	for _, x := range r.edges {
		h.doneWithLocked(x)
	}
	clear(r.edges)
	r.edges = r.edges[:0]
}

// doneWithLocked ends a use of r's event.
func (h *host) doneWithLocked(r *record) {
	r.users--
	h.recycleLocked(r)
}

// nativeLocked: held to native. OpenCL has r, and what was held by it can go on.
func (h *host) nativeLocked(r *record) {
	for _, x := range r.ends() {
		x.to(native)
		h.releaseLocked(x)
		if x.completed {
			h.readyLocked(x)
		}
		if x.callbackDue && x.cmd.NoCallback != 0 {
			h.moving.Go(func() { // no callback will come: somebody has to wait
				st := x.event.Wait()
				h.mu.Lock()
				h.completedByCallbackLocked(x, st)
				h.mu.Unlock()
			})
		}
	}
}

// releaseLocked lets go what is held until r is native or ended.
func (h *host) releaseLocked(r *record) {
	for _, x := range r.after {
		h.unblockLocked(x)
	}
	clear(r.after)
	r.after = r.after[:0]
}

// completedByCallbackLocked: OpenCL has ended r, and this is its last word of it.
func (h *host) completedByCallbackLocked(r *record, st ocl.Status) {
	r.callbackDue = false
	if r.state == ended { // a poll saw it first
		h.recycleLocked(r)
	} else if h.completedLocked(r, st) {
		h.readyLocked(r)
	}
}

// completedLocked: OpenCL has ended r. It reports whether the caller is to go on with r.
func (h *host) completedLocked(r *record, st ocl.Status) bool {
	if r.completed {
		return false
	}
	r.completed, r.status = true, r.q.dev.sees(st)
	if r.hops && r.q.timing {
		r.times.Ended = devices.Now()
	}
	return r.state == native
}

// settleUnlocks ends a record that is completed, once its waits have been seen to end; or has it go on
// again.
func (h *host) settleUnlocks(r *record) {
	switch {
	case r.state == elsewhere:
		h.finishUnlocks(r, r.failure)
		return
	case r.fences != 0:
		h.fencedUnlocks(r)
		return
	case r.batch != nil && !h.settlesLocked(r):
		return
	}
	if q := r.line(); q != nil && q.span.before(r.point.Seq) {
		h.endSpanBeforeUnlocks(r)
	}
	if r.hops && r.status == 0 { // its gates were open
		h.lookBeforeUnlocks(r, func() bool { return true })
	}
	r.Reset() // the hold of this call alone
	for i := range r.waits {
		r.await(&r.waits[i])
	}
	if !r.Drop() {
		return
	}
	r.unsure()
	h.dropEdgesLocked(r)
	switch {
	case r.failure != nil:
		h.finishUnlocks(r, r.failure)
	case r.status >= 0:
		h.finishUnlocks(r, nil)
	case r.batch != nil && r.batch.mayAgain():
		h.againBatchLocked(r.batch)
	case r.batch == nil && len(r.then) == 0 && !r.callbackDue && endedByWaits(r.status):
		h.againLocked(r)
	case r.hops:
		h.finishUnlocks(r, r.hopError(r.status))
	default:
		h.finishUnlocks(r, r.refusal(r.status))
	}
}

// unsure fails a run of which something failed in OpenCL that its first command waited for: it may have had that fail, too, and gone
// on with the others.
func (r *record) unsure() {
	for i := 0; len(r.then) > 0 && r.failure == nil && i < len(r.edges); i++ {
		if x := r.edges[i]; x.status < 0 {
			r.failure = r.refusal(x.status)
		}
	}
}

// againLocked: native to held. No Data wait failed: OpenCL let the failure of an Order
// wait through, or of one that was run again for such a reason. The command did not run:
// it does now, behind nothing.
func (h *host) againLocked(r *record) {
	r.heldAgain()
	h.readyLocked(r)
}

// heldAgain makes r, of which OpenCL did nothing, held.
func (r *record) heldAgain() {
	if r.event != 0 {
		r.earlier = append(r.earlier, r.event) // somebody may be looking at it
	}
	r.event, r.completed, r.status = 0, false, 0
	r.to(held)
}

// endedByWaits reports whether a command has this status because something it
// waited for failed: OpenCL's own status, or one that is given instead.
func endedByWaits(st ocl.Status) bool {
	return st == int32(mem.ExecStatusErrorInWaitList) || st == waitFailed
}

// finishUnlocks ends r's point.
func (h *host) finishUnlocks(r *record, err error) {
	q := r.q
	r.to(ended)
	if r.late != nil && err == nil {
		r.late.Moved()
	}
	q.flight.drop(r.point.Seq)
	if r.hops {
		h.hopping--
	}
	h.releaseLocked(r)
	switch {
	case r.forgotten || !q.timing || err != nil:
	case r.event != 0:
		q.keepTimesLocked(r)
	default:
		q.keepHostTimesLocked(r)
	}
	if r.batch != nil {
		h.endedLocked(r.batch)
	}
	r.users++ // keeps it from being recycled
	h.mu.Unlock()
	r.letGo()
	q.line.End(r.point, err)
	h.mu.Lock()
	q.pending--
	h.doneWithLocked(r)
	if h.quirks.slowEvents {
		h.drainSpanUnlocks(q)
	}
	if q.closing {
		h.ended.Broadcast()
	}
}

// finishedBy ends r, which a runner has done, and goes on with what waited for it.
func (h *host) finishedBy(r *record, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.completed, r.failure = true, err
	h.draining++
	h.readyLocked(r)
	h.drainUnlocks(mostTrash)
}

// recycleLocked: ended to free, where nothing needs r any more.
func (h *host) recycleLocked(r *record) {
	if r.state != ended || r.callbackDue || r.users > 0 {
		return
	}
	if r.batch != nil {
		r.batch.forgetLocked(h, r)
	} else if r.event != 0 && !r.q.ownedLocked(r) {
		h.trash = append(h.trash, r.event)
	}
	h.trash = append(h.trash, r.earlier...)
	r.to(free)
	r.life = life{}
	clear(r.waits) // their lines lead to queues and devices, which may be closed
	r.waits, r.args, r.edges, r.handles, r.after = r.waits[:0], r.args[:0], r.edges[:0], r.handles[:0], r.after[:0]
	r.unpin, r.lent = r.unpin[:0], r.lent[:0]
	free := &h.free[min(cap(r.waits)/(fewIn+1), 1)]
	*free = append(*free, r)
	if h.closing {
		h.ended.Broadcast()
	}
}

// letGo gives back what the command held.
func (r *record) letGo() {
	if r.bytes != nil {
		r.pin.Unpin()
		r.bytes = nil
	}
	for _, u := range r.unpin {
		u.pinner.Unpin(u.block)
	}
	for _, l := range r.lent {
		l.space.Return(l.addr, l.size)
	}
	clear(r.unpin)
	clear(r.lent)
	r.unpin, r.lent = r.unpin[:0], r.lent[:0]
	for _, k := range r.kernels {
		k.release()
	}
	clear(r.kernels)
	r.kernels = r.kernels[:0]
	for _, m := range r.images {
		m.release()
	}
	clear(r.images)
	r.images = r.images[:0]
	r.call = nil
}
