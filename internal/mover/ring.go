package mover

import (
	"errors"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/gate"
	"godwit/mem"
)

// form is how a ring's legs are carried out.
type form uint8

const (
	inBatch form = iota // by one driver, as a whole
	inChain             // by queues, leg by leg, tied by points
	inLanes             // by goroutines and queues: one end is bytes of this process
	inHand              // by who waits for it and queues: one end is the program's memory
	forms
)

// ring is a transfer through staging to one or more destinations. See mover.go for
// its life. Pooled: it is free once every destination has landed and nothing touches
// its staging.
type ring struct {
	gate.Gate
	m       *Mover
	form    form
	way     mem.Way // Ring, Windows or Linked
	src     End
	size    uint64
	late    devices.Late // nil where all of size is to move
	hand    *Hand        // who waits for a copy from or to the program's memory; nil is nobody who may leave
	home    int          // whose staging it uses
	dsts    []*arrival   // pooled with the ring
	n       int          // of dsts in use
	chunk   uint64
	staging []extent // one on the host, or windows, the source's first; protected by Mover.mu while it starves
	gated   bool     // it counts as held by a gated batch; protected by Mover.mu
	queued  uint64   // times, where the mover profiles
	started uint64
	left    atomic.Int32 // destinations not landed, one for the submitter

	work  legWork // of a batch or a chain
	batch batchWork
	lanes laneWork
}

// arrival is one destination of a ring.
type arrival struct {
	x     *ring
	dst   End
	index int       // in the caller's list
	point mem.Point // on the mover's timeline
	left  atomic.Int32
	err   atomic.Pointer[error] // the first
}

// formOf is how a ring between two memories goes.
func (m *Mover) formOf(t *Transfer, dst *End) form {
	way, src, late := t.Way, &t.From, t.Late != nil
	from, to := &m.mems[src.Memory], &m.mems[dst.Memory]
	hosted := func(e *End, x *memory) bool { return e.Bytes != nil || x.view != nil }
	switch {
	case way != mem.Ring:
		return inChain
	case t.Hand != nil && !t.Hand.lanes:
		return inHand
	case to.discrete && hosted(src, from), from.discrete && hosted(dst, to):
		return inLanes
	case !late && m.joined(src.Memory, dst.Memory):
		return inBatch
	}
	return inChain
}

// ring accepts a transfer through staging: one ring for all destinations of a form, but
// that each destination in this process has one of its own.
func (m *Mover) ring(t *Transfer) error {
	var by [forms]*ring
	var errs error
	for i := range t.To {
		f := m.formOf(t, &t.To[i])
		out := f == inLanes && m.mems[t.From.Memory].discrete
		if by[f] != nil && !out {
			by[f].add(t.To[i], i)
			continue
		}
		x := m.takeRing(t, f)
		x.add(t.To[i], i)
		if !out {
			by[f] = x
			continue
		}
		errs = errors.Join(errs, x.begin(t.Waits, t.Points))
	}
	for _, x := range by {
		if x != nil {
			errs = errors.Join(errs, x.begin(t.Waits, t.Points))
		}
	}
	return errs
}

// takeRing returns a free ring.
func (m *Mover) takeRing(t *Transfer, f form) *ring {
	m.mu.Lock()
	defer m.mu.Unlock()
	var x *ring
	if n := len(m.spare); n > 0 {
		x, m.spare = m.spare[n-1], m.spare[:n-1]
	} else {
		x = &ring{m: m}
	}
	x.form, x.way, x.src, x.size, x.late, x.hand = f, t.Way, t.From, t.Size, t.Late, t.Hand
	if m.opts.Profiling {
		x.queued, x.started = m.by.Now(), 0
	}
	m.stats.Flying++
	return x
}

// add adds a destination.
func (x *ring) add(dst End, index int) {
	if x.n == len(x.dsts) {
		x.dsts = append(x.dsts, &arrival{x: x})
	}
	a := x.dsts[x.n]
	a.dst, a.index = dst, index
	a.err.Store(nil)
	x.n++
}

// begin accepts a ring.
func (x *ring) begin(waits []mem.Wait, out []mem.Point) error {
	m := x.m
	m.mu.Lock()
	closed := m.closed && len(m.yields.all) == 0 // else it may be a piece of one of these, which Close waits for
	m.mu.Unlock()
	if closed {
		m.recycle(x)
		return m.errClosed()
	}
	x.home = m.homeOf(x)
	x.shape()
	if x.form == inBatch {
		return x.submitBatch(waits, out)
	}
	x.left.Store(int32(x.n) + 1)
	if x.late != nil || !allSatisfied(waits) { // late: the pump finds out what there is to move
		x.issue(out)
		x.Watch(waits, (*dataRing)(x), (*orderRing)(x))
		x.release()
		return nil
	}
	m.mu.Lock()
	ready := !m.starves(x) && m.takeStaging(x)
	if !ready {
		x.issue(out) // before the pump can find it
		m.starve(x)
	}
	m.mu.Unlock()
	if !ready {
		return nil
	}
	if x.form == inLanes || x.form == inHand {
		x.issue(out)
		return x.launch()
	}
	if err := x.launch(); err != nil {
		m.recycle(x)
		return err
	}
	x.issue(out)
	x.settle()
	return nil
}

// allSatisfied reports whether waits hold up nothing any more.
func allSatisfied(waits []mem.Wait) bool {
	for _, w := range waits {
		if !w.Point.Succeeded() && (w.Kind != mem.Order || !w.Point.Reached()) {
			return false
		}
	}
	return true
}

// issue gives every destination its point.
func (x *ring) issue(out []mem.Point) {
	for _, a := range x.dsts[:x.n] {
		a.point = x.m.line.Next()
		out[a.index] = a.point
	}
}

// dataRing and orderRing are rings as seen by the points they wait for.
type (
	dataRing  ring
	orderRing ring
)

// PointReached implements mem.Waiter.
func (w *dataRing) PointReached(p mem.Point, err error) {
	x := (*ring)(w)
	if err != nil {
		x.Failed(p, err)
	}
	x.release()
}

// PointReached implements mem.Waiter.
func (w *orderRing) PointReached(mem.Point, error) { (*ring)(w).release() }

// release drops a hold; with the last the pump starts the ring.
func (x *ring) release() {
	if x.Drop() {
		x.m.post(task{x: x})
	}
}

// launch begins with the legs of a chain or in lanes, which has staging. It fails where
// the first leg of a chain is refused, and has then changed nothing. Each destination
// of a chain keeps one hold, for settle.
func (x *ring) launch() error {
	for _, a := range x.dsts[:x.n] {
		a.left.Store(1)
	}
	if x.m.opts.Profiling {
		x.started = x.m.by.Now()
	}
	x.m.count(func(s *Stats) {
		if x.way == mem.Ring {
			s.Rings++
		} else {
			s.Linked++
		}
	})
	if x.form == inLanes {
		x.m.lanes.push(x)
		return nil
	}
	if x.form == inHand {
		x.hand.give(x)
		return nil
	}
	return x.launchChain()
}

// settle drops the submitter's holds: from here on the last leg to end lands its
// destination.
func (x *ring) settle() {
	for _, a := range x.dsts[:x.n] {
		a.release()
	}
	x.done()
}

// refuse lands all destinations with an error; no leg was submitted.
func (x *ring) refuse(err error) {
	for _, a := range x.dsts[:x.n] {
		a.left.Store(1)
	}
	x.fail(err)
	x.settle()
}

// lost reports whether no destination can succeed any more.
func (x *ring) lost() bool {
	for _, a := range x.dsts[:x.n] {
		if a.err.Load() == nil {
			return false
		}
	}
	return true
}

// fail fails all destinations that have not landed.
func (x *ring) fail(err error) {
	for _, a := range x.dsts[:x.n] {
		a.fail(err)
	}
}

func (a *arrival) fail(err error) {
	if a.err.Load() == nil {
		a.err.CompareAndSwap(nil, &err)
	}
}

// watch holds a destination until a leg has ended.
func (a *arrival) watch(leg mem.Point) {
	a.left.Add(1)
	if done, err := leg.Notify(a); done {
		a.PointReached(leg, err)
	}
}

// hold is watch for a leg whose failure is not the destination's.
func (a *arrival) hold(leg mem.Point) {
	a.left.Add(1)
	if done, _ := leg.Notify((*heldArrival)(a)); done {
		a.release()
	}
}

// heldArrival is an arrival as seen by the points that only hold it.
type heldArrival arrival

// PointReached implements mem.Waiter.
func (a *heldArrival) PointReached(mem.Point, error) { (*arrival)(a).release() }

// PointReached implements mem.Waiter: a leg has ended.
func (a *arrival) PointReached(_ mem.Point, err error) {
	if err != nil {
		a.fail(err)
	}
	a.release()
}

// release drops a hold of a destination; with the last it has landed.
func (a *arrival) release() {
	if a.left.Add(-1) != 0 {
		return
	}
	if a.err.Load() != nil {
		a.x.m.post(task{a: a}) // not from within Move
		return
	}
	if a.x.late != nil {
		a.x.late.Moved()
	}
	a.land(nil)
}

func (a *arrival) land(err error) {
	a.x.m.keepTimes(a.point, a.x.queued, a.x.started)
	a.x.m.line.End(a.point, err)
	a.x.done()
}

// done drops one hold of the ring.
func (x *ring) done() {
	if x.left.Add(-1) == 0 {
		x.m.recycle(x)
	}
}

// recycle takes a ring that nothing knows any more back.
func (m *Mover) recycle(x *ring) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveStaging(x)
	for _, a := range x.dsts[:x.n] {
		a.dst = End{}
	}
	x.n, x.src, x.late, x.hand = 0, End{}, nil, nil
	x.batch.clear()
	x.work.clear()
	x.Reset()
	m.spare = append(m.spare, x)
	if len(m.starved) > 0 {
		m.postLocked(task{})
	}
	m.flown()
}

// flown counts the end of a transfer. mu is held.
func (m *Mover) flown() {
	if m.stats.Flying--; m.closed && m.stats.Flying == 0 {
		m.landed.Broadcast()
	}
}
