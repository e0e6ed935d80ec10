package migration

import (
	"cmp"
	"fmt"
	"slices"

	"godwit/mem"
)

// A round is a list of commands that is carried out again and again (docs/design/graphs.md).
// What a round writes has holders that follow from the round alone, so the copies of it are
// planned once. What a round reads before it writes it depends on what was there before: that
// is its entry, which is planned each time.
//
// The round is planned by a planner of its own, over buffers that all its memories hold at
// first, so that nothing but what the round writes has to be copied. Two passes: the first
// tells which memories read what a command writes, the second plans copies to all of them at
// once, right behind the command.

// Round is a list of commands, planned. It is immutable. Its buffers have numbers, which stand
// in the place of a BufferID's index.
type Round struct {
	Ops    []RoundOp
	Entry  []mem.Access // reads of bytes that the round has not written by then; of one buffer and memory disjoint and ascending
	Spans  []Span       // what the copies of the round need in one block at either end
	Last   []int        // the commands, ascending, whose failure no other command or copy of the round would be told of
	Bytes  uint64       // that the copies move
	Copies int
}

// RoundOp is a command of a round, whose plan has its accesses and no steps; or, where Command
// is -1, copies ahead of their use, whose plan has them as steps, and as accesses what is brought.
type RoundOp struct {
	Command int
	plan    Plan
}

// Steps is how many copies the operation has.
func (o *RoundOp) Steps() int { return len(o.plan.Steps) }

// Place is where a buffer of a round is in a replay: the buffer, and how far into it the
// round's begins.
type Place struct {
	Buffer mem.BufferID
	Off    uint64
}

// Replay is one time of a round.
type Replay struct {
	Places   []Place       // of the round's buffers
	Versions []mem.Version // by command: what it wrote, once it is committed; 0 where it writes nothing
}

// rounds is what PlanRound needs on the way.
type rounds struct {
	p       *Planner
	line    *mem.Timeline
	first   mem.Version         // the last version that no command wrote
	writers map[mem.Version]int // the command that wrote it
	points  map[mem.Point]int   // the command that ends there
	waited  []bool              // by command: a failure is told to somebody
	plan    Plan
}

// PlanRound plans a list of commands by their accesses, in which a Buffer is an index of sizes.
// It fails like Planner.Plan.
func PlanRound(topo *mem.Topology, sizes []uint64, commands [][]mem.Access) (*Round, error) {
	accs := make([][]mem.Access, len(commands))
	var used mem.MemorySet
	for i, list := range commands {
		accs[i] = slices.Clone(list)
		for k := range accs[i] {
			a := &accs[i][k]
			if int(a.Memory) >= topo.Len() || uint64(a.Buffer) >= uint64(len(sizes)) {
				return nil, fmt.Errorf("command %d of a round: buffer %d on memory %d: %w", i, a.Buffer, a.Memory, mem.ErrInvalidValue)
			}
			a.Buffer |= 1 << 32 // its first life
			used = used.With(topo.Store(a.Memory))
		}
	}
	r := new(Round)
	ahead := make([][]mem.Access, len(commands))
	w, err := newRounds(topo, sizes, used, len(commands))
	for i := 0; i < len(accs) && err == nil; i++ {
		err = w.look(r, ahead, accs[i], i)
	}
	if err != nil {
		return nil, err
	}
	r.Entry = merged(r.Entry)
	if w, err = newRounds(topo, sizes, used, len(commands)); err != nil {
		return nil, err
	}
	for i := range accs {
		if err := w.command(r, accs[i], i); err != nil {
			return nil, err
		}
		if len(ahead[i]) > 0 {
			if err := w.copies(r, merged(ahead[i])); err != nil {
				return nil, err
			}
		}
	}
	for i, told := range w.waited {
		if !told {
			r.Last = append(r.Last, i)
		}
	}
	return r, nil
}

func newRounds(topo *mem.Topology, sizes []uint64, used mem.MemorySet, commands int) (*rounds, error) {
	w := &rounds{p: New(topo, Options{}), line: mem.NewTimeline("round", false, nil), writers: make(map[mem.Version]int), points: make(map[mem.Point]int), waited: make([]bool, commands)}
	w.p.aligned = false // what else the memories hold is not known here
	for i, size := range sizes {
		if _, err := w.p.Create(size, used); err != nil {
			return nil, fmt.Errorf("buffer %d of a round: %w", i, err)
		}
	}
	w.first = w.p.version
	return w, nil
}

// look is the first pass over a command: what it reads of before the round, and of which
// commands it reads what is elsewhere.
func (w *rounds) look(r *Round, ahead [][]mem.Access, accs []mem.Access, i int) error {
	if err := w.p.Plan(&w.plan, accs); err != nil {
		return fmt.Errorf("command %d of a round: %w", i, err)
	}
	for _, a := range w.plan.Accesses {
		for at, c := range w.p.buffers[uint32(a.Buffer)].content.In(a.Range) {
			if a.Mode.Reads() && c.version <= w.first {
				r.Entry = append(r.Entry, mem.Access{Buffer: a.Buffer, Memory: a.Memory, Range: at, Mode: mem.Read})
			}
		}
	}
	for _, st := range w.plan.Steps {
		for at, c := range w.p.buffers[uint32(st.Buffer)].content.In(st.Range) {
			k := w.writers[c.version]
			ahead[k] = append(ahead[k], mem.Access{Buffer: st.Buffer, Memory: st.To, Range: at, Mode: mem.Read})
		}
	}
	w.commit(&w.plan, i)
	return nil
}

// commit commits a plan and, where it is one's, its command.
func (w *rounds) commit(plan *Plan, command int) {
	for i := range plan.Steps {
		w.p.CommitStep(plan, i, w.line.Next())
	}
	at := w.line.Next()
	if command >= 0 {
		w.points[at] = command
	}
	if v := w.p.Commit(plan, at); v != 0 {
		w.writers[v] = command
	}
}

// command is the second pass over a command: nothing has to be copied for it any more.
func (w *rounds) command(r *Round, accs []mem.Access, i int) error {
	op := RoundOp{Command: i}
	if err := w.p.Plan(&op.plan, accs); err != nil {
		return fmt.Errorf("command %d of a round: %w", i, err)
	}
	if len(op.plan.Steps) > 0 {
		return fmt.Errorf("command %d of a round reads %v, which were not brought: %w", i, op.plan.Steps[0].Range, mem.ErrInvalidOperation)
	}
	w.tell(op.plan.Waits)
	w.commit(&op.plan, i)
	r.Ops = append(r.Ops, op)
	return nil
}

// copies plans what a command has written to where it is read later.
func (w *rounds) copies(r *Round, accs []mem.Access) error {
	op := RoundOp{Command: -1}
	if err := w.p.Plan(&op.plan, accs); err != nil {
		return fmt.Errorf("copies of a round: %w", err)
	}
	for i := range op.plan.Steps {
		st := &op.plan.Steps[i]
		w.tell(st.Waits)
		r.Bytes += st.Bytes()
		r.Copies++
		n := mem.BufferID(uint32(st.Buffer))
		r.Spans = append(r.Spans, Span{n, st.From, st.Range}, Span{n, st.To, st.Range})
	}
	w.commit(&op.plan, -1)
	for i := range op.plan.Steps { // from here on by their writers
		v := &op.plan.Steps[i].Reason
		v.Oldest, v.Newest = mem.Version(w.writers[v.Oldest]), mem.Version(w.writers[v.Newest])
	}
	r.Ops = append(r.Ops, op)
	return nil
}

// tell notes who is told of whose failure.
func (w *rounds) tell(waits []mem.Wait) {
	for _, x := range waits {
		if k, ok := w.points[x.Point]; ok && x.Kind == mem.Data {
			w.waited[k] = true
		}
	}
}

// merged sorts accesses that only read by buffer, memory and offset, and makes one of those that meet.
func merged(accs []mem.Access) []mem.Access {
	slices.SortFunc(accs, func(a, b mem.Access) int { return cmp.Or(place(a, b), cmp.Compare(a.Range.Start, b.Range.Start)) })
	out := accs[:0]
	for _, a := range accs {
		if n := len(out); n > 0 && place(out[n-1], a) == 0 && a.Range.Start <= out[n-1].Range.End {
			out[n-1].Range.End = max(out[n-1].Range.End, a.Range.End)
			continue
		}
		out = append(out, a)
	}
	return out
}

// at is an access of a round in a replay.
func (r *Replay) at(a mem.Access) mem.Access {
	to := r.Places[uint32(a.Buffer)]
	a.Buffer, a.Range = to.Buffer, a.Range.Shift(to.Off)
	return a
}

// Entry appends what a replay reads of before it, to be planned as a command's.
func (r *Replay) Entry(dst []mem.Access, of *Round) []mem.Access {
	for _, a := range of.Entry {
		dst = append(dst, r.at(a))
	}
	return dst
}

// Span is a span of a round in a replay.
func (r *Replay) Span(n Span) Span {
	to := r.Places[uint32(n.Buffer)]
	return Span{to.Buffer, n.Memory, n.Range.Shift(to.Off)}
}

// Counts reports whether a buffer has a size buffer, or is one: what moves of it is known only
// when it moves. Of one that does not live it says no.
func (p *Planner) Counts(id mem.BufferID) bool {
	b, err := p.buffer(id)
	return err == nil && (b.count != 0 || len(b.serves) > 0)
}

// Prepare fills dst with an operation of a round, in place of Plan: its bytes lie where the
// round has them, and its blocks are there, since the round's entry was planned and carried out
// and all operations before this one were committed. What is waited for, and which ways copies
// go, is what it is now.
func (p *Planner) Prepare(dst *Plan, r *Replay, op *RoundOp) {
	dst.reset()
	dst.spans = dst.spans[:0]
	p.commandWaits.reset()
	for _, a := range op.plan.Accesses {
		dst.Accesses = append(dst.Accesses, r.at(a))
	}
	if op.Command >= 0 {
		for i := range dst.Accesses {
			p.uses(dst, &dst.Accesses[i])
		}
	} else {
		p.prepareSteps(dst, r, op)
	}
	dst.edits = p.edits
}

// uses adds the waits of an access whose bytes need not come.
func (p *Planner) uses(dst *Plan, a *mem.Access) {
	b := p.buffers[uint32(a.Buffer)]
	s := b.at(a.Memory)
	for off := a.Range.Start; off < a.Range.End && s != nil; {
		at := b.content.Get(off)
		p.wait(dst, s, mem.Range{Start: off, End: min(at.Range.End, a.Range.End)}, a.Mode, at.Value.valid.Has(a.Memory))
		off = at.Range.End
	}
}

// prepareSteps fills in the copies of an operation.
func (p *Planner) prepareSteps(dst *Plan, r *Replay, op *RoundOp) {
	for _, g := range op.plan.groups {
		to := r.Places[uint32(g.buffer)]
		g.buffer, g.end = to.Buffer, g.end+to.Off
		dst.groups = append(dst.groups, g)
	}
	for i := range op.plan.Steps {
		st := dst.step()
		from := st.from
		*st = op.plan.Steps[i]
		to := r.Places[uint32(st.Buffer)]
		st.Buffer, st.Range, st.from = to.Buffer, st.Range.Shift(to.Off), from
		st.Reason.Oldest, st.Reason.Newest = r.Versions[st.Reason.Oldest], r.Versions[st.Reason.Newest]
		p.stepWaits.reset()
		b := p.buffers[uint32(st.Buffer)]
		src, into := b.at(st.From), b.at(st.To)
		if st.After < 0 && src != nil {
			for _, h := range src.hazards.In(st.Range) {
				dst.arena = src.data(dst.arena, int(from), h, &p.stepWaits)
			}
		}
		if into != nil {
			for _, h := range into.hazards.In(st.Range) {
				dst.arena = into.order(dst.arena, int(from), h, &p.stepWaits)
			}
		}
		st.to = int32(len(dst.arena))
		dst.Steps = dst.Steps[:len(dst.Steps)+1]
	}
	dst.finish()
	dst.StepWaits = dst.StepWaits[:0]
	p.Reroute(dst)
}
