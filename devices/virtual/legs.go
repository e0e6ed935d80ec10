package virtual

// A ring chunk by chunk (Options.Exact): what ring.go has as one flow, leg by leg. The ring
// takes its engines and keeps them as it does there, so that two rings on one engine come one
// after the other, as batches do on a driver's queues; only what happens meanwhile is
// finer. Each engine does the ring's legs in their order, one at a time, each
// once the leg whose bytes it carries on, and those that use its slot, have ended.

// track is the source's legs, or those of a destination.
type track struct {
	next int // leg that starts next; len(legs) where there is none
	busy bool
}

// track is which track a leg is on: 0 is the source's, 1 that of the first destination.
func (x *ring) track(leg int) int { return int(x.legs[leg].To) + 1 }

// beginLegs gets the tracks ready.
func (x *ring) beginLegs() {
	x.tracks = append(x.tracks[:0], make([]track, 1+len(x.dsts))...)
	x.ended = append(x.ended[:0], make([]bool, len(x.legs))...)
	for i := range x.tracks {
		x.seek(i, 0)
	}
}

// seek finds the next leg of a track from one on.
func (x *ring) seek(i, leg int) {
	for leg < len(x.legs) && x.track(leg) != i {
		leg++
	}
	x.tracks[i].next = leg
}

// startLegs starts what can start: legs of destinations once all engines are there.
func (x *ring) startLegs() {
	for i := range x.tracks {
		k := &x.tracks[i]
		if k.busy || k.next == len(x.legs) || i > 0 && x.held < len(x.seats) || !x.clear(k.next) {
			continue
		}
		k.busy = true
		size, work := x.legs[k.next].Size, Work{}
		if i == 0 {
			work = x.w.machine.Copy(x.from, 0, size)
		} else {
			work = x.w.machine.RingUp(x.from, x.dsts[i-1].memory, size)
		}
		work.Engine = -1 // the ring has it
		x.w.start(x.task(leg, work, k.next))
	}
}

// clear reports whether what a leg waits for has ended.
func (x *ring) clear(leg int) bool {
	l := &x.legs[leg]
	if l.Data >= 0 && !x.ended[l.Data] {
		return false
	}
	for _, a := range l.After {
		if !x.ended[a] {
			return false
		}
	}
	return true
}

// legSent is told that a leg's bytes are through: its engine goes on, or is the next one's.
func (x *ring) legSent(leg int) {
	i := x.track(leg)
	x.tracks[i].busy = false
	x.seek(i, leg+1)
	switch {
	case x.tracks[i].next < len(x.legs):
		x.startLegs()
	case i == 0:
		x.leave(x.from1.Engine, x.dsts[0].c.Point())
	default:
		x.leave(x.dsts[i-1].work.Engine, x.dsts[i-1].c.Point())
	}
}

// legEnded is told that a leg has ended.
func (x *ring) legEnded(leg int) {
	x.ended[leg] = true
	i := x.track(leg)
	switch {
	case leg == 0: // there is something on the host
		x.next()
	case i > 0 && x.tracks[i].next == len(x.legs) && x.last(leg):
		x.arrive(i - 1)
	default:
		x.startLegs()
	}
}

// last reports whether a leg is the last one of its track.
func (x *ring) last(leg int) bool {
	for j := leg + 1; j < len(x.legs); j++ {
		if x.track(j) == x.track(leg) {
			return false
		}
	}
	return true
}
