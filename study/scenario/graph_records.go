package scenario

import (
	"slices"

	"godwit/internal/ledger"
	"godwit/mem"
	"godwit/mem/trace"
)

// What the runtime tells of replays, as if each round had been enqueued. Copies of a replay are in records
// of their own, ahead of the commands that need them: each is moved to the first command that reads
// what it brings. Between the two nobody writes these bytes, so who wrote them and who holds them is the same there. Accesses of
// transients are in the buffer that all of a graph's share; here they get their buffer's number.

// opAhead is what records of copies that belong to no command say.
const opAhead = "ahead"

// placed is where a transient lies.
type placed struct {
	arena mem.BufferID
	at    mem.Range // of it
	id    mem.BufferID
}

// gather hands out what replays were told of.
func (r *runner) gather() {
	r.loose = r.looseTransients()
	for i := range r.events {
		if g := r.s.roundOf(i, false); g != nil && r.s.replayed(i) {
			r.gatherRound(&r.graphs[r.s.Commands[i].Graph-1], i)
		}
	}
}

// gatherRound hands out what the replay that begins with command i was told of.
func (r *runner) gatherRound(g *graphRun, i int) {
	var recs []*record
	for k := i; k < min(i+g.decl.Size, len(r.events)) && r.recorded(k) != nil; k++ {
		recs = append(recs, r.recorded(k))
	}
	id := uint64(1)
	for k := i - 1; k >= 0; k-- {
		if before := r.recorded(k); before != nil {
			id = before.ID + 1
			break
		}
	}
	for k, rec := range recs {
		for ; id < rec.ID; id++ {
			if ahead := r.rec.command(id); ahead != nil && ahead.Op == opAhead {
				r.handOut(ahead, recs[k:], i+k)
			}
		}
	}
	if next := i + g.decl.Size; next < len(r.events) && r.s.Commands[next].Graph == 0 && r.recorded(next) != nil { // else they are the next round's, or nobody's
		for ; id < r.recorded(next).ID; id++ {
			if ahead := r.rec.command(id); ahead != nil && ahead.Op == opAhead {
				r.handOut(ahead, []*record{r.recorded(next)}, next)
			}
		}
	}
	for k, rec := range recs {
		r.loose.translate(rec)
		g.translate(&r.s.Commands[i+k], rec)
	}
}

// loose are the buffers that transients are where a replay takes the plain route, by theirs.
type loose map[mem.BufferID]mem.BufferID

// looseTransients finds them by their names.
func (r *runner) looseTransients() loose {
	ids := make(map[string]mem.BufferID)
	for k := range r.s.Graphs {
		for _, b := range r.s.Graphs[k].Transients {
			ids["transient "+r.s.Buffers[b].Name] = r.ids[b]
		}
	}
	out := make(loose)
	for _, b := range r.rec.buffers { // nobody tells any more
		if id, ok := ids[b.Name]; ok {
			out[b.Buffer] = id
		}
	}
	return out
}

// translate has all that is told of a command name transients by their own buffers.
func (l loose) translate(rec *record) {
	if len(l) == 0 {
		return
	}
	name := func(id *mem.BufferID) {
		if own, ok := l[*id]; ok {
			*id = own
		}
	}
	steps := func(steps []trace.StepRecord) {
		for i := range steps {
			name(&steps[i].Buffer)
		}
	}
	steps(rec.Steps)
	steps(rec.Regrows)
	for i := range rec.Accesses {
		name(&rec.Accesses[i].Buffer)
	}
	for i := range rec.Blocks {
		name(&rec.Blocks[i].Buffer)
	}
	for i := range rec.Evictions {
		name(&rec.Evictions[i].Buffer)
		steps(rec.Evictions[i].Backs)
	}
}

// handOut moves what is told of ahead of commands to those, of which each step goes to the first that reads what it
// brings, or to an earlier one that needs what is copied on from there. What is for the next round goes to the first; what no
// later command reads rides along. The commands begin with number from.
func (r *runner) handOut(ahead *record, to []*record, from int) {
	first, steps := to[0], ahead.Steps
	first.Evictions, first.Regrows = append(first.Evictions, ahead.Evictions...), append(first.Regrows, ahead.Regrows...)
	first.Blocks = append(first.Blocks, ahead.Blocks...)
	of := make([]int, len(steps))
	for k := len(steps) - 1; k >= 0; k-- {
		s := &steps[k]
		if of[k] = slices.IndexFunc(to, func(c *record) bool { return r.brings(s, c) }); of[k] < 0 {
			of[k], s.RideAlong = 0, r.unneeded(s, from)
		}
		for n := k + 1; n < len(steps); n++ {
			if on := &steps[n]; on.From == s.To && on.Buffer == s.Buffer && on.Range.Overlaps(s.Range) {
				of[k] = min(of[k], of[n])
			}
		}
	}
	for k := range steps {
		c := to[of[k]]
		c.Steps = append(c.Steps, steps[k])
	}
	ahead.Steps, ahead.Evictions, ahead.Regrows, ahead.Blocks = nil, nil, nil, nil
}

// unneeded is how much of what a step brings no command from this one on reads before it is overwritten.
func (r *runner) unneeded(s *trace.StepRecord, from int) uint64 {
	store := r.ctx.Topology().Store
	left, needed := []mem.Range{s.Range}, uint64(0)
	for i := from; i < len(r.events) && len(left) > 0; i++ {
		rec := r.recorded(i)
		for k := 0; rec != nil && k < len(rec.Accesses); k++ {
			if a := &rec.Accesses[k]; a.Buffer == s.Buffer && a.Mode.Reads() && store(a.Memory) == store(s.To) {
				needed += cut(&left, a.Range)
			}
		}
		for k := 0; rec != nil && k < len(rec.Accesses); k++ {
			if a := &rec.Accesses[k]; a.Buffer == s.Buffer && a.Mode.Writes() {
				cut(&left, a.Range)
			}
		}
	}
	return s.Range.Size() - needed
}

// cut takes a range out of ranges, and returns how many bytes of them it was.
func cut(ranges *[]mem.Range, r mem.Range) (bytes uint64) {
	var rest []mem.Range
	for _, x := range *ranges {
		both := x.Intersect(r)
		if both.Empty() {
			rest = append(rest, x)
			continue
		}
		bytes += both.Size()
		for _, part := range []mem.Range{{Start: x.Start, End: both.Start}, {Start: both.End, End: x.End}} {
			if !part.Empty() {
				rest = append(rest, part)
			}
		}
	}
	*ranges = rest
	return bytes
}

// brings reports whether a step brings something that a command reads.
func (r *runner) brings(s *trace.StepRecord, c *record) bool {
	store := r.ctx.Topology().Store
	return slices.ContainsFunc(c.Accesses, func(a mem.Access) bool {
		return a.Mode.Reads() && a.Buffer == s.Buffer && store(a.Memory) == store(s.To) && a.Range.Overlaps(s.Range)
	})
}

// translate has a command's accesses and copies name transients.
func (g *graphRun) translate(c *command, rec *record) {
	for _, p := range c.places() {
		t, ok := g.arenas[p.Buffer]
		if !ok {
			continue
		}
		name := func(id *mem.BufferID, at *mem.Range) {
			if *id == t.arena && t.at.Contains(*at) {
				*id, *at = t.id, mem.Range{Start: at.Start - t.at.Start, End: at.End - t.at.Start}
			}
		}
		for i := range rec.Accesses {
			name(&rec.Accesses[i].Buffer, &rec.Accesses[i].Range)
		}
		for i := range rec.Steps {
			name(&rec.Steps[i].Buffer, &rec.Steps[i].Range)
		}
	}
}

// prepared reports whether command i was of a replay as it was planned.
func (r *runner) prepared(i int) bool {
	if !r.s.replayed(i) {
		return false
	}
	g := &r.graphs[r.s.Commands[i].Graph-1]
	n, begins := slices.BinarySearch(g.decl.Rounds, i)
	if !begins {
		n--
	}
	return !g.plain[g.decl.Rounds[n]]
}

// forget takes the content of the transients of a graph away, where a round of it begins or ends.
func (r *runner) forget(l *ledger.Ledger[int], g *graphDecl) {
	if g == nil || r.s.Unrecorded {
		return
	}
	for _, b := range g.Transients {
		l.Wrote(0, []mem.Access{{Buffer: r.ids[b], Range: mem.Range{End: r.s.Buffers[b].Size}, Mode: mem.Write}}, true)
	}
}
