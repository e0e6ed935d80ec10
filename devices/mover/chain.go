package mover

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// A chain: chunks take legs from place to place, each once the leg whose bytes it carries on has
// ended. All legs are submitted at once, tied together by points. A place is a slot of staging or a
// part of an end. The k-th chunk of a route uses slot k mod slots of each staging that it passes, when nobody uses
// that any more; so legs of some chunks overlap others of others. Which legs are a chunk's is its route:
//
//   - By staging on the host: into a slot, and from there to each destination; one read
//     serves all.
//   - By windows: into a slot on the source, from there over the link into one on the
//     first destination, and on into one on the next; and out of each into its block. So the
//     source's links carry each chunk once. To a single destination chunks may be pushed, and pulled,
//     too (cuts.go).
//   - Linked, where blocks themselves are windows: from block to block, without slots.

// place is where a chunk can be.
type place struct {
	end   *End // the chunk's part of an end
	stage int  // or, where that is nil, a slot of this staging
}

// chainLeg is a copy that every chunk of a route takes.
type chainLeg struct {
	name     string // for errors
	queue    devices.Queue
	from, to place
	data     int // the earlier leg whose bytes it carries on; -1 is none
	dest     int // the destination whose bytes have come with it; -1 is none
}

// chainRoute is the legs of a chunk, in order.
type chainRoute []chainLeg

// chainWork is what a ring has of its chain.
type chainWork struct {
	routes [routes]chainRoute // those in use
	cuts   []cut
	points []mem.Point   // of the chunk that is being submitted, by leg
	users  [][]mem.Point // of each slot's staging: what uses it; slots x stages
	stages int
	waits  []mem.Wait // scratch
}

func (w *chainWork) clear() {
	for i := range w.routes {
		clear(w.routes[i])
		w.routes[i] = w.routes[i][:0]
	}
	for i := range w.users {
		w.users[i] = w.users[i][:0]
	}
	w.cuts = w.cuts[:0]
}

// planChain lists the legs of the routes in use.
func (x *ring) planChain() {
	m, w := x.m, &x.chain
	src := place{end: &x.src}
	w.stages = 1
	if x.mixed {
		from, to, a := &m.mems[x.src.Memory], &m.mems[x.dsts[0].dst.Memory], x.dsts[0]
		dst, own, its := place{end: &a.dst}, place{stage: 0}, place{stage: 1}
		w.stages = 2
		w.routes[pushed] = append(w.routes[pushed], chainLeg{"copy over the link into staging", from.push, src, its, -1, -1}, chainLeg{"write out of staging", to.in, its, dst, 0, 0})
		w.routes[pulled] = append(w.routes[pulled], chainLeg{"read into staging", from.out, src, own, -1, -1}, chainLeg{"copy over the link out of staging", to.pull, own, dst, 0, 0})
	}
	legs := w.routes[straight]
	add := func(l chainLeg) int {
		legs = append(legs, l)
		return len(legs) - 1
	}
	at, last := src, -1 // where the bytes are, and the leg that brings them there
	if x.way != mem.Linked {
		at = place{stage: 0}
		last = add(chainLeg{"read into staging", m.mems[x.src.Memory].out, src, at, -1, -1})
	}
	for i, a := range x.dsts[:x.n] {
		in := m.mems[a.dst.Memory].in
		to := place{end: &a.dst}
		switch x.way {
		case mem.Linked:
			last = add(chainLeg{"copy over the link", in, at, to, last, i})
			at = to
		case mem.Windows:
			slot := place{stage: i + 1}
			last = add(chainLeg{"copy over the link", in, at, slot, last, -1})
			at = slot
			add(chainLeg{"write out of staging", in, at, to, last, i})
			w.stages = i + 2
		default:
			add(chainLeg{"write out of staging", in, at, to, last, i})
		}
	}
	w.routes[straight] = legs
}

// launchChain submits all legs. It fails where the first is refused.
func (x *ring) launchChain() error {
	x.planChain()
	x.m.last.begin()
	w := &x.chain
	slots := x.slots()
	for n := slots * w.stages; len(w.users) < n; {
		w.users = append(w.users, nil)
	}
	for k := range w.cuts {
		if x.lost() {
			break
		}
		err := x.launchChunk(w.cuts[k].turn%slots, &w.cuts[k])
		if err != nil && k == 0 {
			return err
		}
		if err != nil {
			x.fail(err)
		}
	}
	return nil
}

// launchChunk submits the legs of one chunk. It fails where the first is refused.
func (x *ring) launchChunk(slot int, c *cut) error {
	w := &x.chain
	legs := w.routes[c.route]
	points := slices.Grow(w.points[:0], len(legs))[:len(legs)]
	clear(points)
	w.points = points
	for j := range legs {
		l := &legs[j]
		w.waits = w.waits[:0]
		if l.data >= 0 {
			if points[l.data].IsZero() { // what it would carry on was not submitted
				continue
			}
			w.waits = append(w.waits, mem.Wait{Point: points[l.data], Kind: mem.Data})
		}
		if x.idle(legs, j) {
			continue
		}
		x.vacate(slot, l)
		p, err := x.m.submitLeg(l.queue, x.at(&l.to, slot, c.off), x.at(&l.from, slot, c.off), c.size, w.waits)
		if err != nil {
			err = fmt.Errorf("%s of %d bytes: %w", l.name, c.size, err)
			if j == 0 {
				return err
			}
			x.failBeyond(legs, j, err)
			continue
		}
		points[j] = p
		x.occupy(slot, l, points)
	}
	x.watchChunk(legs, points)
	if x.way != mem.Ring {
		x.m.last.note(c.route, legs[len(legs)-1].queue, points[len(legs)-1])
	}
	return nil
}

// usersOf is what uses a slot of a staging: who fills it, or else who reads it since.
func (x *ring) usersOf(slot, stage int) *[]mem.Point {
	return &x.chain.users[slot*x.chain.stages+stage]
}

// vacate has leg l wait for what still uses the slot that it fills.
func (x *ring) vacate(slot int, l *chainLeg) {
	if l.to.end != nil {
		return
	}
	w := &x.chain
	for _, p := range *x.usersOf(slot, l.to.stage) {
		if !p.Reached() {
			w.waits = append(w.waits, mem.Wait{Point: p, Kind: mem.Order})
		}
	}
}

// occupy notes that leg l, which has been submitted, uses the slots of its places. points are those of
// its chunk's legs up to it, which is the last that is not zero.
func (x *ring) occupy(slot int, l *chainLeg, points []mem.Point) {
	p := lastOf(points)
	if l.to.end == nil { // it waits for whoever was there
		u := x.usersOf(slot, l.to.stage)
		*u = append((*u)[:0], p)
	}
	if l.from.end == nil {
		u := x.usersOf(slot, l.from.stage)
		if n := len(*u); n == 1 && (*u)[0] == points[l.data] { // it waits for that
			*u = (*u)[:0]
		}
		*u = append(*u, p)
	}
}

func lastOf(points []mem.Point) mem.Point {
	for i := len(points) - 1; i >= 0; i-- {
		if !points[i].IsZero() {
			return points[i]
		}
	}
	return mem.Point{}
}

// idle reports whether nobody who can still succeed needs leg j.
func (x *ring) idle(legs chainRoute, j int) bool {
	for i, a := range x.dsts[:x.n] {
		if a.err.Load() == nil && legs.needs(i, j) {
			return false
		}
	}
	return true
}

// needs reports whether destination i gets its bytes by way of leg j.
func (legs chainRoute) needs(i, j int) bool {
	for k := legs.last(i); k >= j; k = legs[k].data {
		if k == j {
			return true
		}
	}
	return false
}

// last is the leg that ends at destination i.
func (legs chainRoute) last(i int) int {
	return slices.IndexFunc(legs, func(l chainLeg) bool { return l.dest == i })
}

// failBeyond fails the destinations that need leg j.
func (x *ring) failBeyond(legs chainRoute, j int, err error) {
	for i, a := range x.dsts[:x.n] {
		if legs.needs(i, j) {
			a.fail(err)
		}
	}
}

// watchChunk holds every destination until the last leg towards it that was submitted
// has ended, and with it those before.
func (x *ring) watchChunk(legs chainRoute, points []mem.Point) {
	for i, a := range x.dsts[:x.n] {
		j := legs.last(i)
		for j >= 0 && points[j].IsZero() {
			j = legs[j].data
		}
		if j >= 0 {
			a.watch(points[j])
		}
		for j := range points { // nobody else knows that its block is read
			if legs[j].from.end == &a.dst && !points[j].IsZero() {
				a.hold(points[j])
			}
		}
	}
}

// lastLegs are the legs over links, or behind one, that the latest ring has submitted last: one of
// each route.
type lastLegs struct {
	mu  sync.Mutex
	all [routes]lastLeg // protected by mu
}

type lastLeg struct {
	queue devices.Poller // nil where there is none
	point mem.Point
}

// begin forgets those of the ring before.
func (l *lastLegs) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = [routes]lastLeg{}
}

func (l *lastLegs) note(r route, q devices.Queue, p mem.Point) {
	by, _ := q.(devices.Poller)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[r] = lastLeg{by, p}
}

// poll looks at those that have not ended, and reports whether there were any. It is what whoever waits for a
// point of the mover's looks by, here and in drivers.
func (l *lastLegs) poll() (some bool) {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for i := range all {
		if k := &all[i]; k.queue != nil && !k.point.IsZero() && !k.point.Reached() {
			k.queue.Poll(k.point)
			some = true
		}
	}
	return some
}

// linkPoll is how long a wait for a ring over links looks at queues again and again before it
// sleeps, which costs a core, and to be woken some tens of microseconds.
var linkPoll = func() time.Duration {
	if runtime.NumCPU() >= 8 {
		return 50 * time.Millisecond
	}
	return 200 * time.Microsecond
}()

// pollLinks looks at what is under way over links while p is not reached.
func (m *Mover) pollLinks(ctx context.Context, p mem.Point) {
	for start := time.Now(); !p.Reached() && time.Since(start) < linkPoll && ctx.Err() == nil; runtime.Gosched() {
		if !m.last.poll() {
			return
		}
	}
}

// at is where a chunk, which begins at off of the range, is at a place.
func (x *ring) at(p *place, slot int, off uint64) devices.Loc {
	if p.end != nil {
		return x.m.loc(p.end, off)
	}
	return x.staging(p.stage).loc(uint64(slot)*x.chunk, x.chunk)
}

// staging is the i-th of a chain's: of windows one on each memory, else there is one.
func (x *ring) staging(i int) *extent {
	if x.way == mem.Windows {
		return &x.windows[i]
	}
	return &x.ext
}

// slots is how many chunks the ring's staging holds.
func (x *ring) slots() int {
	switch x.way {
	case mem.Linked:
		return 1
	case mem.Windows:
		return x.windowSlots
	}
	return max(len(x.ext.bytes)/int(x.chunk), 1)
}

// slot is size bytes of a slot of staging on the host.
func (x *ring) slot(i int, size uint64) []byte {
	at := uint64(i) * x.chunk
	return x.ext.bytes[at : at+size]
}
