package mover

import (
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/mem"
)

// The legs of a ring. Every chunk takes the same steps from place to place, each once the step whose bytes
// it carries on has ended. A place is a slot of staging or a part of an end. The k-th chunk uses slot k mod
// slots of each staging that it passes, when nobody uses that any more; so legs of some chunks overlap others
// of others. The steps are:
//
//   - By staging on the host: into a slot, and from there to each destination; one read
//     serves all.
//   - By windows: into a slot on the source, from there over the link into one on the
//     first destination, and on into one on the next; and out of each into its block. So the
//     source's links carry each chunk once.
//   - Linked, where blocks themselves are windows: from block to block, without slots.
//
// A batch is given to its driver as this list. A chain submits it leg by leg, all at once, tied by points.

// readsAhead is how many chunks of a batch are read before the first is written: the second read
// starts right behind the first, and writes are enqueued while it runs.
const readsAhead = 2

// place is where a chunk can be.
type place struct {
	end   *End // the chunk's part of an end
	stage int  // or, where that is nil, a slot of this staging
}

// step is a copy that every chunk takes.
type step struct {
	name     string // for errors
	queue    devices.Queue
	from, to place
	data     int // the earlier step whose bytes it carries on; -1 is none
	dest     int // the destination whose bytes have come with it; -1 is none
}

// legWork is what a ring has of its legs.
type legWork struct {
	steps  []step
	chunks int
	ahead  int // chunks whose first step is listed before the others of the first one
	legs   []devices.Leg
	after  []int32     // storage of the legs' After
	points []mem.Point // of a chain's legs; zero where one was not submitted
	waits  []mem.Wait  // scratch
}

func (w *legWork) clear() {
	clear(w.steps)
	clear(w.legs)
	w.steps, w.legs, w.after = w.steps[:0], w.legs[:0], w.after[:0]
}

// planSteps lists the steps of a chunk.
func (x *ring) planSteps() {
	m, w := x.m, &x.work
	add := func(s step) int {
		w.steps = append(w.steps, s)
		return len(w.steps) - 1
	}
	at, last := place{end: &x.src}, -1 // where the bytes are, and the step that brings them there
	if x.way != mem.Linked {
		slot := place{stage: 0}
		last = add(step{"read into staging", m.mems[x.src.Memory].out, at, slot, -1, -1})
		at = slot
	}
	for i, a := range x.dsts[:x.n] {
		in := m.mems[a.dst.Memory].in
		to := place{end: &a.dst}
		switch x.way {
		case mem.Linked:
			last = add(step{"copy over the link", in, at, to, last, i})
			at = to
		case mem.Windows:
			if i > 0 && !m.links.between(x.dsts[i-1].dst.Memory, a.dst.Memory) {
				at, last = place{stage: 0}, 0 // from the source's staging
			}
			slot := place{stage: i + 1}
			last = add(step{"copy over the link", in, at, slot, last, -1})
			at = slot
			add(step{"write out of staging", in, at, to, last, i})
		default:
			add(step{"write out of staging", in, at, to, last, i})
		}
	}
}

// edge is the size of the first chunk and the last by windows: they are short, since no copy over
// the link is under way during their first and last legs, which take a quarter of its time and less for as
// many bytes. 0 is as large as the others.
func (x *ring) edge() uint64 {
	if x.way != mem.Windows || x.size <= x.chunk {
		return 0
	}
	return max(x.chunk/4&^(pageSize-1), pageSize)
}

// part is the k-th chunk's part of the range.
func (x *ring) part(k int) (off, size uint64) {
	e := x.edge()
	switch {
	case k == 0 && e != 0:
		return 0, e
	case k > 0 && e != 0 && k == x.work.chunks-1:
		off = max(x.size-e, e)
		return off, x.size - off
	case e != 0:
		off = e + uint64(k-1)*x.chunk
	default:
		off = uint64(k) * x.chunk
	}
	return off, min(x.chunk, x.size-e-off)
}

// buildLegs lists the legs: of a batch, reads run ahead of writes.
func (x *ring) buildLegs() {
	x.planSteps()
	w, each := &x.work, len(x.work.steps)
	w.chunks, w.ahead = int((x.size+x.chunk-1)/x.chunk), 1
	if e := x.edge(); e != 0 {
		w.chunks = 2 + int((x.size-min(2*e, x.size)+x.chunk-1)/x.chunk)
	}
	if x.form == inBatch {
		w.ahead = readsAhead
	}
	w.legs = slices.Grow(w.legs[:0], w.chunks*each)
	w.after = slices.Grow(w.after[:0], w.chunks*each)
	begun := 0
	for k := range w.chunks {
		for ; begun < min(w.chunks, k+w.ahead); begun++ {
			x.addLeg(begun, 0)
		}
		for j := 1; j < each; j++ {
			x.addLeg(k, j)
		}
	}
}

// index is where step j of chunk k is in the list.
func (w *legWork) index(k, j int) int32 {
	others := len(w.steps) - 1
	if j == 0 { // behind as many first steps, and the others of chunks that it runs ahead of
		return int32(k + max(k-w.ahead+1, 0)*others)
	}
	return int32(min(k+w.ahead, w.chunks) + k*others + j - 1)
}

// addLeg adds step j of chunk k.
func (x *ring) addLeg(k, j int) {
	w, slots := &x.work, x.slots()
	s := &w.steps[j]
	off, size := x.part(k)
	leg := devices.Leg{
		Queue: s.queue, Src: x.at(s.from, k%slots, off, size), Dst: x.at(s.to, k%slots, off, size),
		Size: size, Data: -1, To: int32(s.dest),
	}
	if s.data >= 0 {
		leg.Data = w.index(k, s.data)
	}
	if s.to.end == nil && k >= slots { // whoever reads the slot that it fills
		first := len(w.after)
		for i := range w.steps {
			if w.steps[i].from == s.to {
				w.after = append(w.after, w.index(k-slots, i))
			}
		}
		leg.After = w.after[first:len(w.after):len(w.after)]
	}
	w.legs = append(w.legs, leg)
}

// at is where size bytes at off of the range are at a place.
func (x *ring) at(p place, slot int, off, size uint64) devices.Loc {
	if p.end != nil {
		return x.m.loc(p.end, off)
	}
	return x.staging[p.stage].loc(uint64(slot)*x.chunk, size)
}

// slots is how many chunks the ring's staging holds.
func (x *ring) slots() int {
	slots := uint64(1)
	for i := range x.staging {
		if n := x.staging[i].size / x.chunk; i == 0 || n < slots {
			slots = n
		}
	}
	return int(max(slots, 1))
}

// launchChain submits all legs. It fails where the first is refused.
func (x *ring) launchChain() error {
	x.buildLegs()
	w := &x.work
	w.points = slices.Grow(w.points[:0], len(w.legs))[:len(w.legs)]
	clear(w.points)
	var refused error // the last
	for i := range w.legs {
		leg := &w.legs[i]
		from, brought := mem.Point{}, true
		if leg.Data >= 0 {
			from = w.points[leg.Data]
			brought = !from.IsZero()
		}
		if brought && !x.idle(leg) {
			err := x.submit(i)
			if err == nil {
				continue
			}
			if i == 0 {
				return err
			}
			refused = err
		}
		if leg.To >= 0 && refused != nil {
			x.dsts[leg.To].fail(refused)
		}
		if leg.Data >= 0 && brought { // nobody else knows that its staging is in use
			x.dsts[0].hold(from)
		}
	}
	return nil
}

// idle reports whether nobody who can still succeed needs a leg.
func (x *ring) idle(leg *devices.Leg) bool {
	if leg.To >= 0 {
		return x.dsts[leg.To].err.Load() != nil
	}
	return x.lost()
}

// submit submits leg i of a chain, whose bytes have been brought.
func (x *ring) submit(i int) error {
	w := &x.work
	leg := &w.legs[i]
	w.waits = w.waits[:0]
	if leg.Data >= 0 {
		w.waits = append(w.waits, mem.Wait{Point: w.points[leg.Data], Kind: mem.Data})
	}
	for _, k := range leg.After {
		if p := w.points[k]; !p.IsZero() && !p.Reached() {
			w.waits = append(w.waits, mem.Wait{Point: p, Kind: mem.Order})
		}
	}
	p, err := x.m.submitLeg(leg.Queue, leg.Dst, leg.Src, leg.Size, nil, w.waits, nil)
	if err != nil {
		return fmt.Errorf("%s of %d bytes: %w", w.steps[i%len(w.steps)].name, leg.Size, err)
	}
	w.points[i] = p
	if leg.To < 0 {
		return nil
	}
	x.dsts[leg.To].watch(p)
	if x.way == mem.Linked && leg.To > 0 { // nobody else knows that the block before is read
		x.dsts[leg.To-1].hold(p)
	}
	return nil
}
