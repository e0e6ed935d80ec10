package migration

import (
	"iter"

	"godwit/mem"
)

// source is where a run comes from.
type source struct {
	from   mem.MemoryID
	after  int // an earlier step of the plan that brings it there, or -1
	choice Choice
}

// choose picks the memory that a run is copied from: by the expected time where
// that is known of all, else by the cheaper way (directly between devices, then one
// leg from or to the host, then a ring) and then by the expected time where both
// links' are known; then the one that the bytes right before come from, then by the bytes already planned over the link, then by
// number. The same calls make the same choices. Bytes that several memories need
// are read into staging once, and go on from one that gets them to a memory that
// it is linked with directly.
func (p *Planner) choose(dst *Plan, b *buffer, a *mem.Access, stale *run) source {
	valid := stale.valid
	if others := valid.Minus(p.lost); !others.Empty() {
		valid = others
	}
	best, _ := valid.First()
	src := source{best, -1, OnlyCopy}
	if !valid.Without(best).Empty() {
		p.loadSteps(dst)
		before := dst.sourceBefore(a, stale.r.Start)
		timed := p.timed(b, valid, a.Memory, stale.r)
		for m := range valid.All() {
			if m != src.from && p.compare(b, m, src.from, a.Memory, stale.r, before, timed) > 0 {
				src.from = m
			}
		}
		for m := range valid.All() {
			if m != src.from {
				by := p.compare(b, src.from, m, a.Memory, stale.r, before, timed)
				src.choice = max(src.choice, Choice(max(by, -by)))
			}
		}
	}
	if len(dst.groups) < 2 {
		return src
	}
	return p.share(dst, a, stale, src)
}

// Lose says that a memory's device is lost: from here on bytes come from it only where no other memory has
// them. It reports whether that is new.
func (p *Planner) Lose(m mem.MemoryID) bool {
	if p.lost.Has(m) {
		return false
	}
	p.lost = p.lost.With(m)
	p.edits++
	return true
}

// compare is above zero where x is the better source for m, below where y is;
// its size is the Choice that tells them apart.
func (p *Planner) compare(b *buffer, x, y, m mem.MemoryID, r mem.Range, before int, timed bool) int {
	sign := func(less, more bool, by Choice) int {
		switch {
		case less:
			return int(by)
		case more:
			return -int(by)
		}
		return 0
	}
	if rx, ry := p.rank(x, m), p.rank(y, m); rx != ry && !timed {
		return sign(rx < ry, true, byWay)
	}
	tx, okx := p.time(b, x, m, r)
	ty, oky := p.time(b, y, m, r)
	if okx && oky && tx != ty {
		return sign(tx < ty, true, byTime)
	}
	if before == int(x) || before == int(y) {
		return sign(before == int(x), true, byNeighbour)
	}
	if lx, ly := p.carried(x, m), p.carried(y, m); lx != ly {
		return sign(lx < ly, true, byLoad)
	}
	return sign(x < y, true, byNumber)
}

// timed reports whether the time of a copy is known from each of some memories.
func (p *Planner) timed(b *buffer, from mem.MemorySet, to mem.MemoryID, r mem.Range) bool {
	for m := range from.All() {
		if _, ok := p.time(b, m, to, r); !ok {
			return false
		}
	}
	return true
}

// sourceBefore is where the bytes right before off come from, or -1.
func (d *Plan) sourceBefore(a *mem.Access, off uint64) int {
	if n := len(d.Steps); n > d.groups[len(d.groups)-1].step && d.Steps[n-1].Range.End == off && d.Steps[n-1].To == a.Memory {
		return int(d.Steps[n-1].From)
	}
	return -1
}

// share looks whether an earlier step for another memory makes the run cheaper
// than src does, which would take two legs.
func (p *Planner) share(dst *Plan, a *mem.Access, stale *run, src source) source {
	if p.legs(src.from, a.Memory) != 2 {
		return src
	}
	relay := dst.covering(len(dst.groups)-1, a.Buffer, stale.r, a.Memory, func(e *Step) bool {
		return p.legs(e.To, a.Memory) == 1
	})
	if relay >= 0 {
		return source{dst.Steps[relay].To, relay, byRelay}
	}
	export := dst.covering(len(dst.groups)-1, a.Buffer, stale.r, a.Memory, func(e *Step) bool {
		return e.After < 0 && stale.valid.Has(e.From) && p.legs(e.From, e.To) == 2
	})
	if export >= 0 && dst.Steps[export].From != src.from {
		return source{dst.Steps[export].From, -1, byExport}
	}
	return src
}

// rank orders ways by cost, where times are not known: between two devices
// directly, one leg from or to the host, legs through staging.
func (p *Planner) rank(from, to mem.MemoryID) int {
	switch {
	case p.legs(from, to) == 2:
		return 3
	case from == mem.Host || to == mem.Host:
		return 2
	}
	return 1
}

// legs is how many transfers a copy between two memories takes: 2 through staging.
func (p *Planner) legs(from, to mem.MemoryID) int8 {
	if from == mem.Host || to == mem.Host || p.topo.Direct(from, to) {
		return 1
	}
	return 2
}

// way decides how the bytes of a step get from one memory to the other.
func (p *Planner) way(st *Step) mem.Way {
	if w := p.topo.OnlyWay(st.From, st.To); w != mem.Same {
		return w
	}
	l := p.topo.Link(st.From, st.To)
	w, _ := l.Choose(st.Range.Size(), p.class(p.buffers[uint32(st.Buffer)], st.From, st.To, st.Range.Start))
	return w
}

// time is how long a copy is expected to take, in seconds, where that is known.
// Of a ring without figures of its own, the slower leg's bandwidth and both
// latencies count: the legs overlap.
func (p *Planner) time(b *buffer, from, to mem.MemoryID, r mem.Range) (float64, bool) {
	path := p.path(from, to, r.Size(), p.class(b, from, to, r.Start))
	return path.Time(r.Size())
}

func (p *Planner) path(from, to mem.MemoryID, size uint64, class mem.Class) mem.Path {
	l := p.topo.Link(from, to)
	_, best := l.Choose(size, class)
	path := *best
	if path.Bandwidth == 0 && p.legs(from, to) == 2 {
		out, in := p.path(from, mem.Host, size, mem.Plain), p.path(mem.Host, to, size, mem.Plain)
		path.Bandwidth = min(out.Bandwidth, in.Bandwidth)
		path.Latency = out.Latency + in.Latency
	}
	return path
}

// carried is what has been planned over the way from one memory to another. Of
// two legs the first counts: the second is the same whatever the source.
func (p *Planner) carried(from, to mem.MemoryID) uint64 {
	if p.legs(from, to) == 2 {
		to = mem.Host
	}
	return p.loads.Get(int(from), int(to))
}

// Carried is by pair of memories how many bytes committed steps have taken over the link between
// the two, in order of pairs: over those to and from the host, what went through staging, too.
func (p *Planner) Carried() iter.Seq2[[2]mem.MemoryID, uint64] {
	return func(yield func([2]mem.MemoryID, uint64) bool) {
		for pair, n := range p.loads.All() {
			if *n > 0 && !yield([2]mem.MemoryID{mem.MemoryID(pair[0]), mem.MemoryID(pair[1])}, *n) {
				return
			}
		}
	}
}

// loadSteps adds what is planned so far to the loads. Most plans have no use for it: it is done when a
// source is to be chosen. The last step may have grown since the last time.
func (p *Planner) loadSteps(dst *Plan) {
	for i := max(dst.loaded-1, 0); i < len(dst.Steps); i++ {
		st := &dst.Steps[i]
		p.load(st, st.Range.Size()-st.loaded)
		st.loaded = st.Range.Size()
	}
	dst.loaded = len(dst.Steps)
}

// load adds bytes to the links that a step goes over. The sum may wrap: bytes
// may be the negative of what was added.
func (p *Planner) load(st *Step, bytes uint64) {
	if st.legs == 2 {
		*p.loads.At(int(st.From), 0) += bytes
		*p.loads.At(0, int(st.To)) += bytes
		return
	}
	*p.loads.At(int(st.From), int(st.To)) += bytes
}
