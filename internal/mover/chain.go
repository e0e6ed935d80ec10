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

// step is one leg of one chunk, to be submitted.
type step struct{ cut, leg int }

// chainWork is what a ring has of its chain.
type chainWork struct {
	routes [routes]chainRoute // those in use
	cuts   []cut
	steps  []step
	points []mem.Point   // of all legs, by cut and leg; zero where one was not submitted
	width  int           // of them for each cut
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
	x.planSteps()
	x.m.last.begin()
	w := &x.chain
	for n := x.slots() * w.stages; len(w.users) < n; {
		w.users = append(w.users, nil)
	}
	for i, s := range w.steps {
		c := &w.cuts[s.cut]
		legs := w.routes[c.route]
		points := w.points[s.cut*w.width:][:len(legs)]
		err := x.launchLeg(c, legs, s.leg, points)
		switch {
		case err == nil:
		case i == 0:
			return err
		case s.leg == 0:
			x.fail(err)
		default:
			x.failBeyond(legs, s.leg, err)
		}
		if s.leg == len(legs)-1 {
			x.watchChunk(legs, points)
			if x.way != mem.Ring {
				x.m.last.note(c.route, legs[s.leg].queue, points[s.leg])
			}
		}
	}
	return nil
}

// planSteps lists the legs of all chunks in the order in which they are submitted, which takes as long as a small
// copy each: chunk by chunk, but that what is behind a push comes after the pull beside it, so that both devices soon
// have something to do.
func (x *ring) planSteps() {
	w := &x.chain
	w.steps, w.width = w.steps[:0], 0
	for _, legs := range w.routes {
		w.width = max(w.width, len(legs))
	}
	add := func(k, from, to int) {
		for j := from; j < to; j++ {
			w.steps = append(w.steps, step{k, j})
		}
	}
	for k := 0; k < len(w.cuts); k++ {
		n := len(w.routes[w.cuts[k].route])
		if w.cuts[k].route == pushed && k+1 < len(w.cuts) && w.cuts[k+1].route == pulled {
			add(k, 0, 1)
			add(k+1, 0, len(w.routes[pulled]))
			add(k, 1, n)
			k++
			continue
		}
		add(k, 0, n)
	}
	w.points = slices.Grow(w.points[:0], len(w.cuts)*w.width)[:len(w.cuts)*w.width]
	clear(w.points)
}

// launchLeg submits leg j of a chunk, whose legs have so far the points that are not zero, where anybody needs it.
func (x *ring) launchLeg(c *cut, legs chainRoute, j int, points []mem.Point) error {
	w, l, slot := &x.chain, &legs[j], c.turn%x.slots()
	w.waits = w.waits[:0]
	if l.data >= 0 {
		if points[l.data].IsZero() { // what it would carry on was not submitted
			return nil
		}
		w.waits = append(w.waits, mem.Wait{Point: points[l.data], Kind: mem.Data})
	}
	if x.idle(legs, j) {
		return nil
	}
	x.vacate(slot, l)
	p, err := x.m.submitLeg(l.queue, x.at(&l.to, slot, c.off), x.at(&l.from, slot, c.off), c.size, w.waits)
	if err != nil {
		return fmt.Errorf("%s of %d bytes: %w", l.name, c.size, err)
	}
	points[j] = p
	x.occupy(slot, l, p, points)
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

// occupy notes that leg l, which has been submitted and got p, uses the slots of its places. points are those of
// its chunk's legs.
func (x *ring) occupy(slot int, l *chainLeg, p mem.Point, points []mem.Point) {
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

// poll looks at those that have not ended, and reports whether there were any, and hops among what they wait for. It is
// what whoever waits for a point of the mover's looks by, here and in drivers.
func (l *lastLegs) poll() (some, hops bool) {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for i := range all {
		if k := &all[i]; k.queue != nil && !k.point.IsZero() && !k.point.Reached() {
			k.queue.Poll(k.point)
			some, hops = true, hops || route(i) == straight
		}
	}
	return some, hops
}

// linkPoll is how long a wait for a ring over links looks at queues again and again before it
// sleeps, which costs a core, and to be woken some tens of microseconds; and linkYield how long it does so before it lets other
// goroutines have the thread. To yield has an idle thread woken, which as often as not takes the goroutine over: after
// each look, it moved between processors all the time, and a ring of 64 MiB took 10 to 20 us more (docs/measured.md). The end of
// a hop may be with a goroutine that needs the lock which a look takes: so where there are hops it does yield after each.
var linkPoll, linkYield = func() (poll, yield time.Duration) {
	if runtime.NumCPU() >= 8 {
		return 50 * time.Millisecond, 50 * time.Microsecond
	}
	return 200 * time.Microsecond, 0
}()

// pollLinks looks at what is under way over links while p is not reached.
func (m *Mover) pollLinks(ctx context.Context, p mem.Point) {
	start := time.Now()
	for now, yielded := start, start; !p.Reached() && now.Sub(start) < linkPoll && ctx.Err() == nil; now = time.Now() {
		some, hops := m.last.poll()
		if !some {
			return
		}
		if hops || now.Sub(yielded) >= linkYield {
			yielded = now
			runtime.Gosched()
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
