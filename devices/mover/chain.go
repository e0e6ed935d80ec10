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

// A chain: every chunk takes the same legs, from place to place, each once the leg
// whose bytes it carries on has ended. All legs are submitted at once, tied together by
// points. A place is a slot of staging or a part of an end. Chunk k uses slot k mod slots of
// each staging, when nothing reads chunk k - slots there any more; so legs of some chunks overlap
// others of others.
//
//   - By staging on the host: into a slot, and from there to each destination; one read
//     serves all.
//   - By windows: into a slot on the source, from there over the link into one on the
//     first destination, and on into one on the next; and out of each into its block. So the
//     source's links carry each chunk once. To a single destination, and of few bytes, out of
//     the slot on the source straight into its block (mostPulled).
//   - Linked, where blocks themselves are windows: from block to block, without slots.

// place is where a chunk can be.
type place struct {
	end *End    // the chunk's part of an end
	ext *extent // or a slot of staging
}

// chainLeg is a copy that every chunk takes.
type chainLeg struct {
	name     string // for errors
	queue    devices.Queue
	from, to place
	data     int // the earlier leg whose bytes it carries on; -1 is none
	dest     int // the destination whose bytes have come with it; -1 is none
}

// chainWork is what a ring has of its chain.
type chainWork struct {
	legs   []chainLeg
	points []mem.Point // of the last chunk in each slot, slots x legs
	waits  []mem.Wait  // scratch
}

func (w *chainWork) clear() {
	clear(w.legs)
	w.legs = w.legs[:0]
}

// planChain lists the legs.
func (x *ring) planChain() {
	m, w := x.m, &x.chain
	w.legs = w.legs[:0]
	add := func(l chainLeg) int {
		w.legs = append(w.legs, l)
		return len(w.legs) - 1
	}
	at, last := place{end: &x.src}, -1 // where the bytes are, and the leg that brings them there
	if x.way != mem.Linked {
		at = place{ext: x.staging(0)}
		last = add(chainLeg{"read into staging", m.mems[x.src.Memory].out, place{end: &x.src}, at, -1, -1})
	}
	for i, a := range x.dsts[:x.n] {
		in := m.mems[a.dst.Memory].in
		switch {
		case x.pull:
			add(chainLeg{"copy over the link", in, at, place{end: &a.dst}, last, i})
		case x.way == mem.Linked:
			to := place{end: &a.dst}
			last = add(chainLeg{"copy over the link", in, at, to, last, i})
			at = to
		case x.way == mem.Windows:
			to := place{ext: x.staging(i + 1)}
			last = add(chainLeg{"copy over the link", in, at, to, last, -1})
			at = to
			add(chainLeg{"write out of staging", in, at, place{end: &a.dst}, last, i})
		default:
			add(chainLeg{"write out of staging", in, at, place{end: &a.dst}, last, i})
		}
	}
}

// launchChain submits all legs. It fails where the first is refused.
func (x *ring) launchChain() error {
	x.planChain()
	slots, w := x.slots(), &x.chain
	w.points = slices.Grow(w.points[:0], slots*len(w.legs))[:slots*len(w.legs)]
	clear(w.points)
	for k, off, n := 0, uint64(0), uint64(0); off < x.size && !x.lost(); k, off = k+1, off+n {
		n = x.chunkAt(off)
		err := x.launchChunk(k%slots, off, n)
		if err != nil && k == 0 {
			return err
		}
		if err != nil {
			x.fail(err)
		}
	}
	return nil
}

// chunkAt is how long the chunk at off is. By windows the first and the last are short: no hop
// is under way during their first and last legs, which take a quarter of a hop's time and less for as
// many bytes.
func (x *ring) chunkAt(off uint64) uint64 {
	left := x.size - off
	if x.way != mem.Windows || x.pull || x.size <= x.chunk {
		return min(x.chunk, left)
	}
	end := max(x.chunk/4&^(pageSize-1), pageSize)
	switch {
	case off == 0, left <= end:
		return min(end, left)
	}
	return min(x.chunk, left-end)
}

// launchChunk submits the legs of one chunk. It fails where the first is refused.
func (x *ring) launchChunk(s int, off, size uint64) error {
	w := &x.chain
	points := w.points[s*len(w.legs) : (s+1)*len(w.legs)] // until a leg is submitted, those of the chunk before it in the slot
	for j := range w.legs {
		l := &w.legs[j]
		w.waits = w.waits[:0]
		if l.data >= 0 {
			if points[l.data].IsZero() { // what it would carry on was not submitted
				points[j] = mem.Point{}
				continue
			}
			w.waits = append(w.waits, mem.Wait{Point: points[l.data], Kind: mem.Data})
		}
		if x.idle(j) {
			points[j] = mem.Point{}
			continue
		}
		x.vacate(points, j)
		p, err := x.m.submitLeg(l.queue, x.at(&l.to, s, off), x.at(&l.from, s, off), size, w.waits)
		if err != nil {
			err = fmt.Errorf("%s of %d bytes: %w", l.name, size, err)
			if j == 0 {
				return err
			}
			x.failBeyond(j, err)
		}
		points[j] = p
	}
	x.watchChunk(points)
	if x.way != mem.Ring {
		n := len(points) - 1
		x.m.last.mu.Lock()
		x.m.last.queue, _ = w.legs[n].queue.(devices.Poller)
		x.m.last.point = points[n]
		x.m.last.mu.Unlock()
	}
	return nil
}

// vacate has leg j wait for what still uses the slot that it fills. Legs from j on have
// the points of the slot's earlier chunk.
func (x *ring) vacate(points []mem.Point, j int) {
	w := &x.chain
	if w.legs[j].to.ext == nil {
		return
	}
	wait := func(p mem.Point) {
		if !p.Reached() {
			w.waits = append(w.waits, mem.Wait{Point: p, Kind: mem.Order})
		}
	}
	read := false
	for i := j + 1; i < len(w.legs); i++ {
		if w.legs[i].from == w.legs[j].to && !points[i].IsZero() {
			read = true
			wait(points[i])
		}
	}
	if !read { // nobody that its bytes were for can succeed
		wait(points[j])
	}
}

// idle reports whether nobody who can still succeed needs leg j.
func (x *ring) idle(j int) bool {
	for i, a := range x.dsts[:x.n] {
		if a.err.Load() == nil && x.needs(i, j) {
			return false
		}
	}
	return true
}

// needs reports whether destination i gets its bytes by way of leg j.
func (x *ring) needs(i, j int) bool {
	for k := x.lastLeg(i); k >= j; k = x.chain.legs[k].data {
		if k == j {
			return true
		}
	}
	return false
}

// lastLeg is the leg that ends at destination i.
func (x *ring) lastLeg(i int) int {
	return slices.IndexFunc(x.chain.legs, func(l chainLeg) bool { return l.dest == i })
}

// failBeyond fails the destinations that need leg j.
func (x *ring) failBeyond(j int, err error) {
	for i, a := range x.dsts[:x.n] {
		if x.needs(i, j) {
			a.fail(err)
		}
	}
}

// lastLeg is the leg over links, or behind one, that was submitted last.
type lastLeg struct {
	mu    sync.Mutex
	queue devices.Poller // protected by mu; nil where there is none
	point mem.Point      // protected by mu
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
		m.last.mu.Lock()
		q, leg := m.last.queue, m.last.point
		m.last.mu.Unlock()
		if q == nil || leg.Reached() {
			return
		}
		q.Poll(leg)
	}
}

// watchChunk holds every destination until the last leg towards it that was submitted
// has ended, and with it those before.
func (x *ring) watchChunk(points []mem.Point) {
	for i, a := range x.dsts[:x.n] {
		j := x.lastLeg(i)
		for j >= 0 && points[j].IsZero() {
			j = x.chain.legs[j].data
		}
		if j >= 0 {
			a.watch(points[j])
		}
		for j := range points { // nobody else knows that its block is read
			if x.chain.legs[j].from.end == &a.dst && !points[j].IsZero() {
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
	return p.ext.loc(uint64(slot)*x.chunk, x.chunk)
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
