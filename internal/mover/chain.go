package mover

import (
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/mem"
)

// A chain: chunks take legs from place to place, each once the leg whose bytes it carries on has
// ended. All legs are submitted at once, tied together by points. A place is a slot of staging or a
// part of an end. The k-th chunk uses slot k mod slots of each staging that it passes, when nobody uses
// that any more; so legs of some chunks overlap others of others. The legs are:
//
//   - By staging on the host: into a slot, and from there to each destination; one read
//     serves all.
//   - By windows: into a slot on the source, from there over the link into one on the
//     first destination, and on into one on the next; and out of each into its block. So the
//     source's links carry each chunk once.
//   - Linked, where blocks themselves are windows: from block to block, without slots.

// place is where a chunk can be.
type place struct {
	end   *End // the chunk's part of an end
	stage int  // or, where that is nil, a slot of this staging
}

// chainLeg is a copy that every chunk takes.
type chainLeg struct {
	name     string // for errors
	queue    devices.Queue
	from, to place
	data     int // the earlier leg whose bytes it carries on; -1 is none
	dest     int // the destination whose bytes have come with it; -1 is none
}

// chainLegs are the legs of a chunk, in order.
type chainLegs []chainLeg

// chainWork is what a ring has of its chain.
type chainWork struct {
	legs   chainLegs
	points []mem.Point   // of a chunk's legs; zero where one was not submitted
	users  [][]mem.Point // of each slot's staging: what uses it; slots x stages
	stages int
	waits  []mem.Wait // scratch
}

func (w *chainWork) clear() {
	clear(w.legs)
	w.legs = w.legs[:0]
	for i := range w.users {
		w.users[i] = w.users[i][:0]
	}
}

// planChain lists the legs of a chunk.
func (x *ring) planChain() {
	m, w := x.m, &x.chain
	w.stages = 1
	add := func(l chainLeg) int {
		w.legs = append(w.legs, l)
		return len(w.legs) - 1
	}
	at, last := place{end: &x.src}, -1 // where the bytes are, and the leg that brings them there
	if x.way != mem.Linked {
		slot := place{stage: 0}
		last = add(chainLeg{"read into staging", m.mems[x.src.Memory].out, at, slot, -1, -1})
		at = slot
	}
	for i, a := range x.dsts[:x.n] {
		in := m.mems[a.dst.Memory].in
		to := place{end: &a.dst}
		switch x.way {
		case mem.Linked:
			last = add(chainLeg{"copy over the link", in, at, to, last, i})
			at = to
		case mem.Windows:
			if i > 0 && !m.links.there[x.dsts[i-1].dst.Memory][a.dst.Memory] {
				at, last = place{stage: 0}, 0 // from the source's staging
			}
			slot := place{stage: i + 1}
			last = add(chainLeg{"copy over the link", in, at, slot, last, -1})
			at = slot
			add(chainLeg{"write out of staging", in, at, to, last, i})
			w.stages = i + 2
		default:
			add(chainLeg{"write out of staging", in, at, to, last, i})
		}
	}
}

// launchChain submits all legs, chunk by chunk. It fails where the first is refused.
func (x *ring) launchChain() error {
	x.planChain()
	w := &x.chain
	for n := x.slots() * w.stages; len(w.users) < n; {
		w.users = append(w.users, nil)
	}
	w.points = slices.Grow(w.points[:0], len(w.legs))[:len(w.legs)]
	for off, k := uint64(0), 0; off < x.size; k++ {
		n := x.chunkAt(off)
		clear(w.points)
		for j := range w.legs {
			err := x.launchLeg(off, n, k%x.slots(), j)
			switch {
			case err == nil:
			case k == 0 && j == 0:
				return err
			case j == 0:
				x.fail(err)
			default:
				x.failBeyond(j, err)
			}
		}
		x.watchChunk()
		off += n
	}
	return nil
}

// chunkAt is how long the chunk at off is. By windows the first and the last are short: no copy over
// the link is under way during their first and last legs, which take a quarter of its time and less for as
// many bytes.
func (x *ring) chunkAt(off uint64) uint64 {
	left := x.size - off
	if x.way != mem.Windows || x.size <= x.chunk {
		return min(x.chunk, left)
	}
	end := max(x.chunk/4&^(pageSize-1), pageSize)
	switch {
	case off == 0, left <= end:
		return min(end, left)
	}
	return min(x.chunk, left-end)
}

// launchLeg submits leg j of the chunk of size bytes at off, whose legs have so far the points
// that are not zero, where anybody needs it.
func (x *ring) launchLeg(off, size uint64, slot, j int) error {
	w := &x.chain
	l := &w.legs[j]
	w.waits = w.waits[:0]
	if l.data >= 0 {
		if w.points[l.data].IsZero() { // what it would carry on was not submitted
			return nil
		}
		w.waits = append(w.waits, mem.Wait{Point: w.points[l.data], Kind: mem.Data})
	}
	if x.idle(j) {
		return nil
	}
	x.vacate(slot, l)
	p, err := x.m.submitLeg(l.queue, x.at(&l.to, slot, off), x.at(&l.from, slot, off), size, w.waits)
	if err != nil {
		return fmt.Errorf("%s of %d bytes: %w", l.name, size, err)
	}
	w.points[j] = p
	x.occupy(slot, l, p)
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

// occupy notes that leg l, which has been submitted and got p, uses the slots of its places.
func (x *ring) occupy(slot int, l *chainLeg, p mem.Point) {
	if l.to.end == nil { // it waits for whoever was there
		u := x.usersOf(slot, l.to.stage)
		*u = append((*u)[:0], p)
	}
	if l.from.end == nil {
		u := x.usersOf(slot, l.from.stage)
		if n := len(*u); n == 1 && (*u)[0] == x.chain.points[l.data] { // it waits for that
			*u = (*u)[:0]
		}
		*u = append(*u, p)
	}
}

// idle reports whether nobody who can still succeed needs leg j.
func (x *ring) idle(j int) bool {
	for i, a := range x.dsts[:x.n] {
		if a.err.Load() == nil && x.chain.legs.needs(i, j) {
			return false
		}
	}
	return true
}

// needs reports whether destination i gets its bytes by way of leg j.
func (legs chainLegs) needs(i, j int) bool {
	for k := legs.last(i); k >= j; k = legs[k].data {
		if k == j {
			return true
		}
	}
	return false
}

// last is the leg that ends at destination i.
func (legs chainLegs) last(i int) int {
	return slices.IndexFunc(legs, func(l chainLeg) bool { return l.dest == i })
}

// failBeyond fails the destinations that need leg j.
func (x *ring) failBeyond(j int, err error) {
	for i, a := range x.dsts[:x.n] {
		if x.chain.legs.needs(i, j) {
			a.fail(err)
		}
	}
}

// watchChunk holds every destination until the last leg towards it that was submitted
// has ended, and with it those before.
func (x *ring) watchChunk() {
	legs, points := x.chain.legs, x.chain.points
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
