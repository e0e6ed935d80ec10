package virtual

import (
	"cmp"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/gate"
	"godwit/internal/network"
	"godwit/mem"
)

// A ring as one flow. The mover gives a ring of chunks as a batch of legs; with chunks of c
// bytes of n, over the source's path and then the destination's, it goes in three parts:
// the first chunk fills staging over the first path, n - c bytes are under way on both
// paths at once, at the pace of the slower, and c bytes drain over the second path. That is
// what the legs would come to one by one (legs.go), but for less than a chunk; each channel
// carries as many bytes. What a leg's setup costs each chunk comes before that flow. Both
// paths' latencies come at the end: until then nothing waits for bytes to arrive, neither
// the reads nor the ring behind this one.
//
// Life of a ring: its waits are reached -> it has staging -> the source's engine -> fill ->
// the destinations' engines -> both -> (the source's engine is free) drain, for each
// destination -> its point is reached. All bytes move when the first destination's
// point is.
//
// A ring keeps what engines it has while it waits for the next, so all rings take them in
// one order, World.rank. In it, engines that no copy into a memory uses come first. Where a
// device has an engine for each direction, the source's is thus the first, and the others
// wait until there is something on the host. An engine that does both directions may be
// after a destination's: then that one is held during the fill, too.

// part is which part of a ring a task is.
type part uint8

const (
	fill part = iota
	hold      // of an engine
	both
	drain
	leg  // a chunk's, where rings go chunk by chunk
	hand // from carrier to carrier, before it begins
)

// ring is a batch under way. Pooled.
type ring struct {
	gate.Gate
	w     *World
	num   uint32
	batch devices.Batch
	legs  []devices.Leg
	from  int
	dsts  []arrival
	bytes uint64
	chunk uint64
	seats []seat // engines that it takes, in that order
	held  int    // of these
	first int    // of these, without which the fill does not start
	begun bool   // the fill has started
	left  int    // destinations whose points are to come
	moved bool
	early bool
	ahead bool // it was staged while it waited
	err   error
	path  []network.Channel // of both
	from1 Work              // of the first chunk

	tracks []track // of legs; see legs.go
	ended  []bool  // by leg

	submitted, ready, handed, started uint64
	by, behind                        mem.Point
	thread                            int32
	threadAt, threadTo                uint64
}

// seat is a place on an engine.
type seat struct {
	engine int32
	users  int // of the source and the destinations, those that have not left it
}

// arrival is a destination of a ring.
type arrival struct {
	memory int
	c      engine.Ready
	work   Work // of a chunk
}

// queue is a queue of a device in virtual time.
type queue struct {
	*engine.Queue
	d    *Device
	book *book // nil where nobody carries
}

var (
	_ devices.Batcher = (*queue)(nil)
	_ devices.Prompt  = (*queue)(nil)
)

// Joins implements devices.Batcher.
func (q *queue) Joins(o devices.Queue) bool {
	x, ok := o.(*queue)
	return ok && x.d.w == q.d.w
}

// SubmitBatch implements devices.Batcher.
func (q *queue) SubmitBatch(b devices.Batch, to []devices.Queue, waits []mem.Wait, points []mem.Point) error {
	w := q.d.w
	x := w.takeRing()
	x.batch, x.from, x.submitted, x.early = b, q.d.memory, w.now, w.early()
	for i, o := range to {
		d, ok := o.(*queue)
		var c engine.Ready
		err := fmt.Errorf("a batch to a queue of another world: %w", mem.ErrInvalidQueue)
		if ok && d.d.w == w {
			c, err = d.Promise()
		}
		if err != nil {
			for _, a := range x.dsts { // nobody knows these points
				a.c.Finish(nil)
			}
			w.giveRing(x)
			return err
		}
		x.dsts = append(x.dsts, arrival{memory: d.d.memory, c: c})
		points[i] = c.Point()
	}
	if w.carriers.Carriage != nil {
		x.note(to, waits)
	}
	x.Watch(waits, (*dataRing)(x), (*orderRing)(x))
	if !x.release(mem.Point{}) {
		x.goAhead()
	}
	return nil
}

// mostAhead is how many rings between two devices are staged while they still wait for
// something, as devices/opencl does it. Others are once their waits are reached, behind all
// that ask for staging by then; without those few, what a chain of pieces brings would
// not be passed on before all of its first link's rings had theirs.
const mostAhead = 3

// goAhead stages a ring that waits, where not too many do.
func (x *ring) goAhead() {
	w := x.w
	for i := range x.dsts {
		if w.ahead[x.pair(i)] >= mostAhead {
			return
		}
	}
	if x.legs, x.ahead = x.batch.Stage(true); x.ahead {
		for i := range x.dsts {
			w.ahead[x.pair(i)]++
		}
	}
}

// pair is the source and a destination.
func (x *ring) pair(i int) [2]int { return [2]int{x.from, x.dsts[i].memory} }

// Chunk implements devices.Batcher: as the machine says.
func (q *queue) Chunk(to devices.Queue, size uint64) uint64 {
	if x, ok := to.(*queue); ok && x.d.w == q.d.w {
		return q.d.w.machine.Chunk(q.d.memory, x.d.memory, size)
	}
	return 0
}

// Resume implements devices.Batcher.
func (q *queue) Resume(b devices.Batch) {
	w := q.d.w
	i := slices.IndexFunc(w.rings, func(x *ring) bool { return x.batch == b })
	w.events.push(w.now, event{kind: ringReady, n: uint32(i)})
}

func (w *World) takeRing() *ring {
	if n := len(w.spareRings); n > 0 {
		x := w.spareRings[n-1]
		w.spareRings = w.spareRings[:n-1]
		return x
	}
	x := &ring{w: w, num: uint32(len(w.rings))}
	w.rings = append(w.rings, x)
	return x
}

func (w *World) giveRing(x *ring) {
	if x.ahead {
		for i := range x.dsts {
			w.ahead[x.pair(i)]--
		}
	}
	clear(x.dsts)
	x.Reset()
	x.batch, x.legs, x.dsts, x.path = nil, nil, x.dsts[:0], x.path[:0]
	x.seats, x.held, x.begun, x.left, x.moved, x.ahead, x.err = x.seats[:0], 0, false, 0, false, false, nil
	x.by, x.behind, x.thread, x.threadAt, x.threadTo = mem.Point{}, mem.Point{}, 0, 0, 0
	w.spareRings = append(w.spareRings, x)
}

// dataRing and orderRing are rings as seen by the points they wait for.
type (
	dataRing  ring
	orderRing ring
)

// PointReached implements mem.Waiter.
func (r *dataRing) PointReached(p mem.Point, err error) {
	x := (*ring)(r)
	if err != nil {
		x.Failed(p, err)
	}
	x.release(p)
}

// PointReached implements mem.Waiter.
func (r *orderRing) PointReached(p mem.Point, _ error) { (*ring)(r).release(p) }

// release drops a hold, and reports whether it was the last.
func (x *ring) release(by mem.Point) bool {
	if !x.Drop() {
		return false
	}
	x.by, x.ready, x.handed = by, x.w.now, x.w.now
	if x.w.carriers.Carriage == nil {
		x.w.events.push(x.w.now, event{kind: ringReady, n: x.num})
		return true
	}
	t := x.task(hand, Work{}, 0)
	t.c, t.by, t.ready = x.dsts[0].c, by, x.w.now
	x.w.push(x.w.now, taskReady, t)
	return true
}

// submittedBy is told that the ring's waits have been handed over.
func (x *ring) submittedBy(t *task) {
	x.by, x.ready, x.handed = t.by, t.ready, t.handed
	x.thread, x.threadAt, x.threadTo = t.thread, t.threadAt, t.threadTo
	x.w.giveTask(t)
	x.begin()
}

// cause is why the ring must fail and may not start.
func (x *ring) cause() error {
	if d := x.Cause(); d != nil {
		return d
	}
	return x.dsts[0].c.Cause() // the queues of a world's rings are its mover's, which are aborted together
}

// begin starts a ring whose waits have been reached, once it has staging.
func (x *ring) begin() {
	w := x.w
	x.left = len(x.dsts)
	if err := x.cause(); err != nil {
		x.err, x.started, x.moved = err, w.now, true
		for i := range x.dsts {
			x.arrive(i)
		}
		return
	}
	if !x.ahead {
		legs, ok := x.batch.Stage(false)
		if !ok {
			return // until Resume
		}
		x.legs = legs
	}
	legs := x.legs
	x.bytes, x.chunk = 0, legs[0].Size
	for i := range legs {
		if legs[i].Data < 0 {
			x.bytes += legs[i].Size
		}
	}
	for i := range x.dsts {
		x.dsts[i].work = w.machine.RingUp(x.from, x.dsts[i].memory, x.chunk)
	}
	x.from1 = w.machine.Copy(x.from, 0, x.chunk)
	x.sit(x.from1.Engine)
	for i := range x.dsts {
		x.sit(x.dsts[i].work.Engine)
	}
	slices.SortFunc(x.seats, func(a, b seat) int { return cmp.Compare(w.rank[a.engine], w.rank[b.engine]) })
	x.first = x.seat(x.from1.Engine) + 1
	if w.opts.Exact {
		x.beginLegs()
	}
	x.next()
}

// sit notes that the ring needs an engine.
func (x *ring) sit(engine int32) {
	if engine < 0 {
		return
	}
	i := x.seat(engine)
	if i < 0 {
		i = len(x.seats)
		x.seats = append(x.seats, seat{engine: engine})
	}
	x.seats[i].users++
}

// seat is which of the ring's seats is on an engine, or -1.
func (x *ring) seat(engine int32) int {
	return slices.IndexFunc(x.seats, func(s seat) bool { return s.engine == engine })
}

// leave gives up an engine for the source, or for a destination; the command of p had it.
func (x *ring) leave(engine int32, p mem.Point) {
	if i := x.seat(engine); i >= 0 {
		if x.seats[i].users--; x.seats[i].users == 0 {
			x.w.vacate(engine, 1, p)
		}
	}
}

// next starts what is next: the wait for an engine, or what goes over the network.
func (x *ring) next() {
	switch {
	case !x.begun && x.held == x.first:
		x.begun = true
		x.begins()
		if x.w.opts.Exact {
			x.startLegs()
			return
		}
		work := x.from1
		work.Engine, work.Latency = -1, 0 // the next chunk is read meanwhile
		x.w.start(x.task(fill, work, 0))
	case x.held < len(x.seats):
		if x.w.opts.Exact && x.begun {
			x.startLegs() // reads go on meanwhile
		}
		x.w.engage(x.task(hold, Work{Engine: x.seats[x.held].engine}, 0))
	case x.w.opts.Exact:
		x.startLegs()
	default:
		x.flow()
	}
}

// task is a task for a part of the ring; i is a destination's index.
func (x *ring) task(p part, work Work, i int) *task {
	t := x.w.takeTask()
	t.ring, t.part, t.work, t.on, t.to = x, p, work, x.from, i
	return t
}

// granted is told that the ring has another engine.
func (x *ring) granted(t *task) {
	if !x.begun && t.behind.Line != nil {
		x.behind = t.behind
	}
	x.w.giveTask(t)
	x.held++
	x.next()
}

// begins is called when the first bytes are to move.
func (x *ring) begins() {
	x.started = x.w.now
	x.path = append(x.path[:0], x.from1.Path...)
	for i := range x.dsts {
		x.path = append(x.path, x.dsts[i].work.Path...)
		if err := x.dsts[i].c.Begin(); err != nil && x.err == nil {
			x.err = err
		}
	}
	if x.early {
		x.move()
	}
}

// flow starts what goes over both paths. Each chunk costs a setup, during which its
// engine's part of the network is others': so does the flow, at once. (A flow that is slower
// by as much instead is 7 % too fast where rings that began together share a link: their setups
// come at the same times, and nobody uses it then.)
func (x *ring) flow() {
	work := Work{Engine: -1, Bytes: x.bytes - x.chunk, Limit: x.from1.Limit}
	setup := x.from1.Setup
	for i := range x.dsts {
		d := &x.dsts[i].work
		setup = max(setup, d.Setup)
		if d.Limit > 0 && (work.Limit == 0 || d.Limit < work.Limit) {
			work.Limit = d.Limit
		}
	}
	work.Path, work.Setup = x.path, times(setup, work.Bytes/x.chunk)
	x.w.start(x.task(both, work, 0))
}

// partEnded is told that a part of the ring is over.
func (x *ring) partEnded(t *task) {
	w, p, i := x.w, t.part, t.to
	if t.err != nil && x.err == nil {
		x.err = t.err
	}
	w.giveTask(t)
	switch p {
	case fill:
		x.next()
	case both:
		x.leave(x.from1.Engine, x.dsts[0].c.Point())
		for i := range x.dsts {
			work := x.dsts[i].work
			work.Engine, work.Latency = -1, plus(work.Latency, x.from1.Latency)
			w.start(x.task(drain, work, i))
		}
	case drain:
		x.arrive(i)
	case leg:
		x.legEnded(i)
	}
}

// uses reports whether the ring is work for the device of a memory.
func (x *ring) uses(memory int) bool {
	return x.from == memory || slices.ContainsFunc(x.dsts, func(a arrival) bool { return a.memory == memory })
}

// move does what the legs do.
func (x *ring) move() {
	x.moved = true
	for i := range x.legs {
		if x.err == nil {
			x.err = x.w.keeps.leg(&x.legs[i])
		}
	}
}

// arrive ends a destination's point.
func (x *ring) arrive(i int) {
	if !x.moved {
		x.move()
	}
	w, c, err := x.w, x.dsts[i].c, x.err
	x.report(i)
	if x.left--; x.left == 0 {
		x.batch.Ended()
		w.giveRing(x)
	}
	w.counts.Commands++
	w.carriers.over(c.Point(), w.now)
	c.Finish(err)
}

// report tells the observer of a destination's end.
func (x *ring) report(i int) {
	w := x.w
	if w.opts.Observer == nil {
		return
	}
	s, a := &w.span, &x.dsts[i]
	*s = Span{Engines: append(s.Engines[:0], x.from1.Engine, a.work.Engine), Path: x.path}
	s.Point, s.Op, s.Ring, s.On, s.From, s.To, s.Bytes = a.c.Point(), devices.OpCopy, true, a.memory, x.from, a.memory, x.bytes
	s.Queued, s.Ready, s.Handed, s.Started, s.Ended = int64(x.submitted), int64(x.ready), int64(x.handed), int64(x.started), int64(w.now)
	s.Thread, s.HeldFrom, s.HeldTo = x.thread, int64(x.threadAt), int64(x.threadTo)
	s.Cause, s.Behind, s.Err = x.by, x.behind, x.err
	w.opts.Observer.Span(s)
}

// note makes the records of a ring's points. What it costs the first destination's device says.
func (x *ring) note(to []devices.Queue, waits []mem.Wait) {
	for i, a := range x.dsts {
		r := to[i].(*queue).book.note(a.c.Point(), waits)
		r.memory, r.carry = a.memory, &x.w.carriers.Devices[a.memory].Classes[Ring]
		if i == 0 {
			r.since = x.w.charge(r.book.enqueue(r))
			x.submitted = r.since
		}
	}
}
